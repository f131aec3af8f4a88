"""Rollouts end, also where all GPUs are in use, and the status says how far they are. Against a cluster in memory."""

import asyncio
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant_operator.loop import creations
from cotenant_operator.state import reading
from operator_kit import objects, quotas, steps
from operator_kit.cluster import Cluster
from operator_kit.server import Fault

Json = dict[str, Any]

ROLL = ("surge", "retire", "reap", "surge", "place", "run_pods")


def edit(cluster: Cluster, image: str, **fields: Any) -> None:
    spec = {"template": objects.template(image=image), **fields}
    cluster.server.change("dljobs", "serve", lambda value: value.update(spec={**value["spec"], **spec}))


def images(cluster: Cluster) -> list[str]:
    return [pod["spec"]["containers"][0]["image"] for pod in cluster.server.all("pods")]


def surge(cluster: Cluster) -> int | None:
    """As the Deployment says it; None: by default."""
    strategy = (cluster.server.find("deployments", "serve") or {})["spec"].get("strategy") or {}
    found: int | None = (strategy.get("rollingUpdate") or {}).get("maxSurge")
    return found


async def serve(cluster: Cluster, replicas: int = 2) -> None:
    cluster.room = replicas
    cluster.apply(objects.dljob("serve", workloadType="Inference", replicas=replicas, sharing="Exclusive"))
    await cluster.run(*ROLL)
    assert cluster.condition("Ready", name="serve")["status"] == "True"


async def test_a_rollout_ends_where_all_gpus_are_in_use(cluster: Cluster) -> None:
    await serve(cluster)
    edit(cluster, "busybox:2")
    for _ in range(5):
        await cluster.run(*ROLL)
        await cluster.advance(40)
    assert images(cluster) == ["busybox:2", "busybox:2"]
    assert cluster.condition("Ready", name="serve")["status"] == "True"
    assert cluster.events().count("Updated") == 1


async def test_what_a_rollout_waits_for_is_told(cluster: Cluster) -> None:
    await serve(cluster, replicas=1)
    edit(cluster, "busybox:2")
    await cluster.run(*ROLL)
    await cluster.advance(40)
    ready = cluster.condition("Ready", name="serve")
    assert (ready["status"], ready["reason"]) == ("False", "RollingOut")
    assert ready["message"].startswith("0 of 1 replicas are ready from the present template")
    assert "finds no room (no GPU has 100 left)" in ready["message"]
    await cluster.advance(40)
    assert "those of the former template go first" in cluster.condition("Ready", name="serve")["message"]


async def test_a_rollout_ends_where_a_quota_is_used_up(cluster: Cluster) -> None:
    await serve(cluster)
    cluster.apply(quotas.quota(gpu_share="200"), plural="resourcequotas")
    cluster.room = 3
    cluster.count_quota()
    edit(cluster, "busybox:2")
    for _ in range(8):
        await cluster.run(*ROLL, "count_quota")
        await cluster.advance(40)
    assert images(cluster) == ["busybox:2", "busybox:2"]
    assert cluster.condition("Ready", name="serve")["status"] == "True"


@pytest.mark.parametrize("mode", ["Observe", "Enforce"])
async def test_a_rollout_ends_where_the_scheduler_or_kueue_has_no_room(cluster: Cluster, mode: str) -> None:
    cluster.set_policy(mode=mode)
    await serve(cluster)
    edit(cluster, "busybox:2")
    for _ in range(5):
        await cluster.run("surge", "retire", "reap", "surge")
        for pod in cluster.server.all("pods"):
            if not pod["spec"].get("nodeName"):
                cluster.server.change("pods", pod["metadata"]["name"], no_room(mode))
        await cluster.advance(40)
        await cluster.run(*(() if surge(cluster) is None else ("place", "run_pods")))
    assert surge(cluster) == 0
    assert images(cluster) == ["busybox:2", "busybox:2"]


def no_room(mode: str) -> Callable[[Json], None]:
    """What kube-scheduler writes into a pod that fits nowhere, and the gate of one that Kueue does not admit."""

    def edit(pod: Json) -> None:
        if mode == "Observe":
            said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
            pod["status"] = {**pod["status"], "conditions": [said]}
        else:
            gates = [*pod["spec"].get("schedulingGates", ()), {"name": "kueue.x-k8s.io/admission"}]
            pod["spec"] = {**pod["spec"], "schedulingGates": gates}

    return edit


async def test_former_pods_stay_until_the_new_ones_run_where_there_is_room(cluster: Cluster) -> None:
    await serve(cluster)
    cluster.room = 3
    edit(cluster, "busybox:2")
    for _ in range(5):
        await cluster.run(*ROLL)
        await cluster.advance(40)
        assert sum(pod["status"]["phase"] == "Running" for pod in cluster.server.all("pods")) >= 2
    assert (images(cluster), surge(cluster)) == (["busybox:2", "busybox:2"], None)


async def test_the_next_rollout_tries_with_room_first(cluster: Cluster) -> None:
    await serve(cluster)
    edit(cluster, "busybox:2")
    for _ in range(5):
        await cluster.run(*ROLL)
        await cluster.advance(40)
    assert surge(cluster) == 0
    edit(cluster, "busybox:3")
    await cluster.settle()
    assert surge(cluster) is None


async def test_pods_that_ran_out_of_memory_are_rolled_where_all_gpus_are_in_use(cluster: Cluster) -> None:
    cluster.room = 2
    cluster.apply(objects.dljob("serve", workloadType="Inference", replicas=2))
    await cluster.run(*ROLL, "outgrow")
    before = {pod["metadata"]["uid"] for pod in cluster.server.all("pods")}
    for _ in range(5):
        await cluster.run(*ROLL)
        await cluster.advance(40)
    assert before.isdisjoint(pod["metadata"]["uid"] for pod in cluster.server.all("pods"))
    assert cluster.condition("Ready", name="serve")["status"] == "True"


STEPS = st.one_of(
    st.sampled_from((*ROLL, "see_deployments")).map(lambda name: ("program", name)),
    st.sampled_from(("a", "b", "c")).map(lambda image: ("edit", image)),
    st.integers(1, 4).map(lambda count: ("scale", count)),
    st.integers(1, 5).map(lambda count: ("room", count)),
    st.booleans().map(lambda wanted: ("suspend", wanted)),
    steps.STEPS,
    steps.LATE,
)


class Rollouts(steps.Befallen):
    """A service, rolled at any moment, where GPUs come and go."""

    def do(self, kind: str, value: Any) -> bool:
        """What a user or another program does; whether it is such a step."""
        cluster = self.cluster
        if kind == "program":
            getattr(cluster, value)()
        elif kind == "edit":
            edit(cluster, value)
        elif kind == "room":
            cluster.room = value
        elif kind in ("scale", "suspend"):
            field = "replicas" if kind == "scale" else "suspend"
            cluster.server.change("dljobs", "serve", lambda found: found["spec"].update({field: value}))
        else:
            return False
        return True

    async def check_it_ends(self) -> None:
        """No more room than for the replicas, and every one is of the present spec in the end."""
        self.do("suspend", False)
        spec = self.cluster.dljob("serve")["spec"]
        self.cluster.room = spec["replicas"]
        await self.end_faults()
        for _ in range(4 + 2 * spec["replicas"]):
            await self.cluster.run("stop_suspended", *ROLL)
            await self.cluster.advance(70)
        assert images(self.cluster) == [spec["template"]["spec"]["containers"][0]["image"]] * spec["replicas"]
        assert self.cluster.condition("Ready", name="serve")["status"] == "True"


async def play(story: list[steps.Step]) -> None:
    history = Rollouts()
    for plural, value in (
        ("packingpolicies", objects.policy()),
        ("gpunodes", objects.gpu_node()),
        ("configmaps", objects.config_map()),
    ):
        history.cluster.apply(value, plural=plural)
    history.cluster.apply(objects.dljob("serve", workloadType="Inference", replicas=2, sharing="Exclusive"))
    await history.cluster.start()
    for kind, value in story:
        if not history.do(kind, value):
            await history.befall(kind, value)
    await history.check_it_ends()


@settings(max_examples=100, deadline=None)
@given(st.lists(STEPS, max_size=30))
def test_every_rollout_ends(story: list[steps.Step]) -> None:
    asyncio.run(play(story))


FORBIDDEN = 'pods "x" is forbidden: violates PodSecurity'
NO_QUOTA = 'pods "x" is forbidden: exceeded quota: q, requested: 1, used: 4, limited: 4'


async def test_a_former_pod_goes_for_no_refusal_of_before_the_rollout(cluster: Cluster) -> None:
    await serve(cluster)
    deployment = cluster.server.find("deployments", "serve") or {}
    quotas.fail_replicas(cluster.server, deployment, NO_QUOTA, time=cluster.time.text())
    await cluster.advance(3600)
    edit(cluster, "busybox:2")
    await cluster.settle()
    assert surge(cluster) is None


async def test_a_template_that_was_mended_is_not_stalled_by_what_was_said_of_the_former(cluster: Cluster) -> None:
    cluster.apply(objects.dljob("serve", workloadType="Inference"))
    await cluster.settle()
    for image in ("busybox:2", "busybox:3"):
        deployment = cluster.server.find("deployments", "serve") or {}
        quotas.fail_replicas(cluster.server, deployment, FORBIDDEN, time=cluster.time.text())
        await cluster.advance(60)
        assert cluster.condition("Stalled", name="serve")["status"] == "True"
        edit(cluster, image)
        await cluster.settle()
        assert cluster.condition("Stalled", name="serve")["status"] == "False"


def refuse(cluster: Cluster, message: str | None) -> None:
    """What the controllers say of the present template's pods."""
    deployment = cluster.server.find("deployments", "serve") or {}
    quotas.fail_replicas(cluster.server, deployment, message, time=cluster.time.text())


async def edited_after_an_hour_of_refusals(cluster: Cluster) -> None:
    """A service whose former template a quota has refused for an hour, and whose present one is new."""
    await serve(cluster)
    refuse(cluster, NO_QUOTA)
    await cluster.advance(3600)
    edit(cluster, "busybox:2")
    await cluster.settle()


async def test_what_a_deployment_still_says_of_a_former_template_stalls_no_other(cluster: Cluster) -> None:
    cluster.apply(objects.dljob("serve", workloadType="Inference"))
    await cluster.settle()
    refuse(cluster, FORBIDDEN)
    await cluster.advance(60)
    edit(cluster, "busybox:2")
    await cluster.settle()
    refuse(cluster, None)
    told = (cluster.server.find("deployments", "serve") or {})["status"]["conditions"]
    assert [item["message"] for item in told] == [FORBIDDEN]
    await cluster.advance(3600)
    assert cluster.condition("Stalled", name="serve")["status"] == "False"


async def test_what_a_deployment_still_says_of_a_former_template_takes_no_former_pod(cluster: Cluster) -> None:
    await edited_after_an_hour_of_refusals(cluster)
    refuse(cluster, None)
    await cluster.advance(3600)
    assert surge(cluster) is None


async def test_a_refusal_counts_from_when_the_present_template_met_it(cluster: Cluster) -> None:
    await edited_after_an_hour_of_refusals(cluster)
    refuse(cluster, NO_QUOTA)
    await cluster.advance(40)
    assert surge(cluster) is None
    await cluster.advance(40)
    assert surge(cluster) == 0


async def test_the_newest_refusal_is_told_although_the_condition_keeps_the_words_of_the_first(cluster: Cluster) -> None:
    cluster.apply(objects.dljob("serve", workloadType="Inference"))
    await cluster.settle()
    refuse(cluster, FORBIDDEN)
    await cluster.advance(60)
    assert "PodSecurity" in cluster.condition("Stalled", name="serve")["message"]
    refuse(cluster, NO_QUOTA)
    await cluster.advance(60)
    queued = cluster.condition("Queued", name="serve")
    assert queued["reason"] == "QuotaExceeded"
    assert "exceeded quota" in queued["message"]


async def test_a_template_that_is_back_is_told_of_by_its_own_replica_set(cluster: Cluster) -> None:
    cluster.apply(objects.dljob("serve", workloadType="Inference"))
    await cluster.settle()
    for image, message in (("busybox:2", FORBIDDEN), ("busybox:3", None), ("busybox:2", FORBIDDEN)):
        edit(cluster, image)
        await cluster.settle()
        refuse(cluster, message)
        await cluster.advance(60)
        assert cluster.condition("Stalled", name="serve")["status"] == ("False" if message is None else "True")


async def test_a_refusal_that_cannot_be_looked_at_is_not_told_and_the_status_is(cluster: Cluster) -> None:
    cluster.apply(objects.dljob("serve", workloadType="Inference"))
    await cluster.settle()
    cluster.server.fault = lambda request: Fault(False, 500) if "replicasets" in request.path else None
    refuse(cluster, FORBIDDEN)
    await cluster.advance(60)
    assert cluster.condition("Ready", name="serve")["status"] == "False"
    assert not cluster.condition("Stalled", name="serve")
    cluster.server.fault = lambda _: None
    await cluster.advance(60)
    assert "PodSecurity" in cluster.condition("Stalled", name="serve")["message"]


async def test_without_events_a_refusal_is_told_by_the_condition_alone(cluster: Cluster) -> None:
    cluster.apply(objects.dljob("serve", workloadType="Inference"))
    await cluster.settle()
    cluster.server.fault = lambda request: Fault(False, 500) if request.path.endswith("/events") else None
    refuse(cluster, FORBIDDEN)
    await cluster.advance(60)
    assert "PodSecurity" in cluster.condition("Stalled", name="serve")["message"]


async def test_a_new_template_that_is_refused_is_told_while_the_former_pods_serve(cluster: Cluster) -> None:
    await serve(cluster)
    edit(cluster, "busybox:2")
    await cluster.settle()
    refuse(cluster, FORBIDDEN)
    await cluster.advance(60)
    stalled = cluster.condition("Stalled", name="serve")
    assert (stalled["status"], stalled["reason"]) == ("True", "PodCreationFailed")
    assert cluster.dljob("serve")["status"]["phase"] == "Running"


async def test_a_deployment_that_has_seen_an_edit_and_made_no_replica_set_of_it_yet_takes_no_former_pod(
    cluster: Cluster,
) -> None:
    """As after a change of template and replicas at once, of a paused one, or where none can be made."""
    await edited_after_an_hour_of_refusals(cluster)
    cluster.see_deployments()
    await cluster.advance(3600)
    assert surge(cluster) is None


async def test_a_refusal_by_a_quota_counts_from_the_first_of_its_kind(cluster: Cluster) -> None:
    await serve(cluster)
    edit(cluster, "busybox:2")
    await cluster.settle()
    refuse(cluster, FORBIDDEN)
    await cluster.advance(3600)
    tell(cluster, NO_QUOTA)
    await cluster.advance(40)
    assert surge(cluster) is None
    await cluster.advance(40)
    assert surge(cluster) == 0


def tell(cluster: Cluster, message: str, *, time: str | None = None, name: str = "another") -> None:
    """An event about the ReplicaSet, besides the one that the kit keeps."""
    *_, newest = cluster.server.all("replicasets")
    event = {"reason": "FailedCreate", "message": message, "involvedObject": {"uid": newest["metadata"]["uid"]}}
    times = dict.fromkeys(("firstTimestamp", "lastTimestamp"), time or cluster.time.text())
    cluster.server.put("events", {"metadata": {"name": name}, **event, **times})


@pytest.mark.parametrize("time", ["0000-01-01T00:00:00Z", "9999-12-31T23:59:59-01:00", "9999-12-31T23:59:59Z"])
async def test_an_event_of_no_time_hides_no_refusal(cluster: Cluster, time: str) -> None:
    cluster.apply(objects.dljob("serve", workloadType="Inference"))
    await cluster.settle()
    refuse(cluster, FORBIDDEN)
    tell(cluster, "elsewhere", time=time)
    await cluster.advance(60)
    assert "PodSecurity" in cluster.condition("Stalled", name="serve")["message"]


async def test_words_of_any_length_are_told_cut(cluster: Cluster) -> None:
    cluster.apply(objects.dljob("serve", workloadType="Inference"))
    await cluster.settle()
    refuse(cluster, f"{FORBIDDEN} {'y' * 100_000}")
    await cluster.advance(60)
    stalled = cluster.condition("Stalled", name="serve")
    assert stalled["status"] == "True"
    assert len(stalled["message"]) < 4096


async def test_what_is_kept_of_long_refusals_does_not_grow_with_the_edits_of_a_deployment(cluster: Cluster) -> None:
    cluster.apply(objects.dljob("serve", workloadType="Inference"))
    await cluster.settle()
    refuse(cluster, "y" * 1_000_000)
    known = creations.Creations(cluster.client, monotonic=cluster.time.monotonic)
    current = reading.deployment(cluster.server.find("deployments", "serve") or {})
    uid = cluster.dljob("serve")["metadata"]["uid"]
    tracemalloc.start()
    try:
        for generation in range(20):
            edited = replace(current, meta=replace(current.meta, generation=generation))
            assert await known.of_deployment(edited, dljob_uid=uid)
            cluster.server.requests.clear()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 1_000_000


@pytest.mark.parametrize("revision", ["9" * 20, "9" * 5000, "\u0661\u0662"])
async def test_a_replica_set_of_somebody_with_an_odd_revision_hides_no_refusal(cluster: Cluster, revision: str) -> None:
    cluster.apply(objects.dljob("serve", workloadType="Inference"))
    await cluster.settle()
    refuse(cluster, FORBIDDEN)
    real = cluster.server.find("replicasets", "serve-1") or {}
    metadata = {key: real["metadata"][key] for key in ("labels", "ownerReferences")}
    metadata |= {"name": "odd", "annotations": {"deployment.kubernetes.io/revision": revision}}
    cluster.server.put("replicasets", {"metadata": metadata, "spec": real["spec"], "status": {}})
    await cluster.advance(60)
    assert "PodSecurity" in cluster.condition("Stalled", name="serve")["message"]


async def test_replica_sets_are_listed_by_their_metadata_and_one_alone_is_read_whole(cluster: Cluster) -> None:
    cluster.apply(objects.dljob("serve", workloadType="Inference"))
    await cluster.settle()
    refuse(cluster, FORBIDDEN)
    cluster.server.requests.clear()
    await cluster.advance(60)
    asked = [request for request in cluster.server.requests if request.path.endswith("/replicasets")]
    assert asked
    for request in asked:
        one = "fieldSelector" in request.query
        assert one or (request.metadata_only and int(request.query["limit"]) <= 500)
