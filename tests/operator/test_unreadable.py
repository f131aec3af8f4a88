"""One object of one tenant, whatever it says, ends no reading of the cluster and holds nobody else."""

from typing import Any

import aiohttp
import pytest

from cotenant_api import names
from cotenant_operator import labels, probes
from cotenant_operator.kube import api
from cotenant_operator.state.kinds import Kind
from cotenant_operator.state.store import Store
from cotenant_operator.state.views import Key
from cotenant_operator.watches import resync
from operator_kit import objects
from operator_kit.cluster import Cluster
from operator_kit.server import Server, Time

Json = dict[str, Any]

EVIL = Key("evil", "x")
UNREAD = "cotenant_operator_unread_objects"
DIGITS = "9" * 5000
SETBACK = '{"v":1,"count":%s,"at":"2026-01-01T00:00:00Z","message":"","left":{}}'


def workload(kind: str, *, limits: Json | None = None, template: Json | None = None, notes: Json | None = None) -> Json:
    """An object that a tenant has labelled with a DLJob of theirs."""
    pod = {"containers": [{"name": "c", "image": "i", "resources": {"limits": limits or {}}}]}
    made = {"metadata": {"annotations": template or {}}, "spec": pod}
    spec = pod if kind == "Pod" else {"replicas": 1, "template": made}
    metadata = {"name": "x", "namespace": "evil", "labels": {names.DLJOB_LABEL: "x"}, "annotations": notes or {}}
    return {"kind": kind, "metadata": metadata, "spec": spec, "status": {}}


HOSTILE: dict[str, tuple[str, Json]] = {
    "endless setback": ("jobs", workload("Job", notes={labels.QUOTA_SETBACK: SETBACK % "1e999"})),
    "setback without zone": ("jobs", workload("Job", notes={labels.QUOTA_SETBACK: (SETBACK % "1").replace("Z", "")})),
    "deep setback": ("jobs", workload("Job", notes={labels.QUOTA_SETBACK: "[" * 2000})),
    "1000 GPUs": ("jobs", workload("Job", limits={"nvidia.com/gpu": "1k"})),
    "share of 1000": ("jobs", workload("Job", limits={names.GPU_SHARE: "1k"})),
    "half a GPU": ("jobs", workload("Job", limits={"nvidia.com/gpu": "500m"})),
    "long index": ("pods", workload("Pod", notes={labels.COMPLETION_INDEX: DIGITS})),
    "long revision": ("pods", workload("Pod", notes={labels.REVISION: DIGITS})),
    "long revision of a template": ("deployments", workload("Deployment", template={labels.REVISION: DIGITS})),
    "spoilt graph": ("jobs", workload("Job", notes={labels.GRAPH: ""})),
}


async def no_pause(seconds: float) -> None:
    raise AssertionError(f"reading was to be tried again after {seconds} s")


@pytest.mark.parametrize(("plural", "value"), HOSTILE.values(), ids=HOSTILE)
async def test_the_cluster_is_read_whatever_one_object_says(plural: str, value: Json) -> None:
    server, store = Server(Time()), Store()
    server.put(plural, value)
    server.put("dljobs", {**objects.dljob("x"), "metadata": {"name": "x", "namespace": "evil"}})
    server.put("dljobs", objects.dljob())
    await resync.read_all(api.API(server), store, pause=no_pause)
    assert store.keys() == {Key("team", "train"), EVIL}


async def test_dljob_of_what_cannot_be_read_is_held_and_says_why_until_it_changes(cluster: Cluster) -> None:
    cluster.apply(objects.dljob("x"))
    spoilt = workload("Job", limits={"nvidia.com/gpu": "500m"})
    cluster.server.put("jobs", {**spoilt, "metadata": {**spoilt["metadata"], "namespace": "team"}})
    await cluster.settle()
    message = cluster.condition("Queued", name="x")["message"]
    assert (
        "Job x cannot be read: spec.template: resources.limits[nvidia.com/gpu]: '500m': must be a whole number"
        in message
    )
    assert [job["metadata"]["name"] for job in cluster.server.all("jobs")] == ["x"]
    cluster.server.delete("jobs", "x")
    await cluster.settle()
    assert "cannot be read" not in cluster.condition("Queued", name="x")["message"]


async def test_dljobs_beside_what_cannot_be_read_go_on(cluster: Cluster) -> None:
    cluster.server.put("jobs", workload("Job", limits={"nvidia.com/gpu": "500m"}))
    cluster.apply(objects.dljob())
    await cluster.settle()
    assert [job["metadata"]["name"] for job in cluster.server.all("jobs") if job["metadata"]["namespace"] == "team"]


def test_what_cannot_be_read_is_named_once_per_change(caplog: pytest.LogCaptureFixture) -> None:
    store = Store()
    spoilt = workload("Job", limits={"nvidia.com/gpu": "500m"})
    metadata = {**spoilt["metadata"], "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    for version in ("1", "2"):
        store.put(Kind.JOB, {**spoilt, "metadata": {**metadata, "resourceVersion": version}})
    assert caplog.text.count("evil: Job x cannot be read") == 1


@pytest.mark.parametrize("held", [100, 1000, 6000])
async def test_as_many_gpus_as_the_operator_itself_may_write_are_read(held: int) -> None:
    server, store = Server(Time()), Store()
    text = f"{held // 1000}k" if held >= 1000 else str(held)
    server.put("jobs", workload("Job", limits={names.GPU_SHARE: text}))
    server.put("dljobs", {**objects.dljob("x"), "metadata": {"name": "x", "namespace": "evil"}})
    await resync.read_all(api.API(server), store, pause=no_pause)
    (job,) = store._jobs[EVIL].values()
    assert job.grant is not None
    assert job.grant.share == held


def test_pod_whose_label_names_another_dljob_leaves_the_former() -> None:
    store = Store()
    pod = workload("Pod")
    metadata = {**pod["metadata"], "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": "1"}
    store.put(Kind.POD, {**pod, "metadata": metadata})
    moved = {**metadata, "labels": {names.DLJOB_LABEL: "y"}, "resourceVersion": "2"}
    assert store.put(Kind.POD, {**pod, "metadata": moved}) == {EVIL, Key("evil", "y")}
    assert list(store._pods) == [Key("evil", "y")]


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
async def test_what_cannot_be_read_is_counted_for_prometheus_and_names_nobody(cluster: Cluster, host: str) -> None:
    async def told() -> str:
        url = f"http://{host}:{port}{probes.METRICS_PATH}"
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=")
            return await answer.text()

    answers = probes.Answers(metrics=cluster.work.metrics.text, ready=lambda: True)
    async with probes.serving(0, answers) as port:
        assert f"{UNREAD} 0.0\n" in await told()
        cluster.server.put("jobs", workload("Job", limits={"nvidia.com/gpu": "500m"}))
        await cluster.settle()
        found = await told()
        assert f"{UNREAD} 1.0\n" in found
        assert "evil" not in found
        cluster.server.delete("jobs", "x", namespace="evil")
        await cluster.settle()
        assert f"{UNREAD} 0.0\n" in await told()


@pytest.mark.parametrize(("kind", "plural"), [("Training", "jobs"), ("Inference", "deployments")])
async def test_a_dljob_of_which_nothing_else_can_be_read_is_suspended_all_the_same(
    cluster: Cluster, kind: str, plural: str
) -> None:
    cluster.apply(objects.dljob("train", workloadType=kind))
    await cluster.run("create_pods", "place", "run_pods")
    huge = [{"name": "HUGE", "value": "x" * 140_000}]

    def edit(value: Json) -> None:
        value["spec"]["template"]["spec"]["containers"][0]["env"] = huge
        value["spec"]["suspend"] = True

    cluster.server.change("dljobs", "train", edit)
    await cluster.advance(60)
    assert cluster.condition("Queued")["reason"] == "InvalidSpec"
    (workload,) = cluster.server.all(plural)
    assert workload["spec"]["suspend"] if plural == "jobs" else workload["spec"]["replicas"] == 0
    cluster.server.requests.clear()
    cluster.work.enqueue(cluster.store.keys())
    await cluster.advance(60)
    assert [request.method for request in cluster.server.requests] == []
