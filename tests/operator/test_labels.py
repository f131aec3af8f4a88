"""Labels may come and go: what the operator owns it finds by the owner. Against a cluster in memory."""

import argparse
from typing import Any

import pytest

from cotenant_api import names
from cotenant_operator import command, labels
from operator_kit import objects, quotas
from operator_kit.cluster import Cluster
from operator_kit.gangs import gang, limit, suspended

Json = dict[str, Any]

RUN = ("create_pods", "place", "run_pods")


def jobs(cluster: Cluster) -> list[str]:
    return [job["metadata"]["name"] for job in cluster.attempts()]


def edit(cluster: Cluster, name: str, **fields: Any) -> None:
    cluster.server.change("dljobs", name, lambda value: value["spec"].update(fields))


async def test_a_label_that_was_taken_away_and_put_back_leaves_nobody_blind(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run(*RUN, "take_labels", "put_labels", "succeed")
    assert cluster.dljob()["status"]["phase"] == "Succeeded"
    assert jobs(cluster) == ["train-1"]


async def test_a_job_without_the_label_is_followed_all_the_same(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run(*RUN, "take_labels", "succeed")
    await cluster.advance(40)
    assert cluster.dljob()["status"]["phase"] == "Succeeded"
    assert jobs(cluster) == ["train-1"]


async def test_a_new_process_finds_a_job_without_the_label(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run(*RUN, "take_labels")
    cluster.restart()
    await cluster.start()
    await cluster.settle()
    assert cluster.dljob()["status"]["phase"] == "Running"
    assert jobs(cluster) == ["train-1"]


@pytest.mark.parametrize("name", ["train", "serve"])
async def test_what_has_lost_the_label_is_suspended_as_anything_else_and_labelled_by_that(
    cluster: Cluster, name: str
) -> None:
    kind = "Training" if name == "train" else "Inference"
    cluster.apply(objects.dljob(name, workloadType=kind))
    await cluster.run(*RUN, "take_labels")
    edit(cluster, name, suspend=True)
    await cluster.run("stop_suspended", "reap")
    assert cluster.dljob(name)["status"]["phase"] == "Suspended"
    (there,) = cluster.attempts() + cluster.server.all("deployments")
    assert there["metadata"]["labels"][names.DLJOB_LABEL] == name
    assert not cluster.server.all("pods")


async def test_a_watch_that_was_lost_meanwhile_is_no_reason_to_forget(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run(*RUN)
    cluster.take_labels()
    cluster.lose(9)
    await cluster.relist()
    cluster.put_labels()
    await cluster.run("succeed")
    assert cluster.dljob()["status"]["phase"] == "Succeeded"


async def test_nobody_fights_for_the_label(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run(*RUN)
    cluster.server.requests.clear()
    for _ in range(10):
        await cluster.run("take_labels")
        await cluster.advance(6)
    written = [request for request in cluster.server.requests if request.method != "GET" and "/jobs/" in request.path]
    assert written == []


async def test_an_unlabelled_job_that_is_deleted_is_made_again(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run(*RUN, "take_labels")
    uid = cluster.attempts()[0]["metadata"]["uid"]
    cluster.server.delete("jobs", "train-1")
    await cluster.run("reap")
    await cluster.advance(40)
    (job,) = cluster.attempts()
    assert job["metadata"]["uid"] != uid


async def test_a_job_with_a_pod_that_lost_its_label_is_not_made_again(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run(*RUN)
    uid = cluster.attempts()[0]["metadata"]["uid"]
    cluster.server.change("jobs", "train-1", lambda job: job["status"].update(active=1))
    (pod,) = cluster.server.all("pods")
    cluster.server.change("pods", pod["metadata"]["name"], lambda value: value["metadata"]["labels"].clear())
    await cluster.advance(60)
    edit(cluster, "train", template=objects.template(image="train:2"))
    await cluster.advance(60)
    assert [job["metadata"]["uid"] for job in cluster.attempts()] == [uid]
    assert [one["metadata"]["uid"] for one in cluster.server.all("pods")] == [pod["metadata"]["uid"]]


async def test_a_gang_with_a_pod_that_lost_its_label_is_not_stopped_for_an_old_refusal(cluster: Cluster) -> None:
    limit(cluster, gpu_share="800")
    cluster.apply(gang())
    await cluster.settle()
    (job,) = cluster.attempts()
    quotas.tell(cluster.server, job, 'pods "x" is forbidden: exceeded quota: team-gpus', time=cluster.time.text())
    await cluster.run(*RUN, "count_pods")
    name = cluster.server.all("pods")[-1]["metadata"]["name"]
    cluster.server.change("pods", name, lambda value: value["metadata"]["labels"].clear())
    for _ in range(4):
        await cluster.advance(20)
    assert not suspended(cluster)
    assert cluster.condition("Queued")["reason"] != "QuotaExceeded"


@pytest.mark.parametrize("name", ["train", "serve"])
async def test_what_has_lost_the_label_is_followed_after_a_sweep_of_the_watch(cluster: Cluster, name: str) -> None:
    """Whatever is written elsewhere meanwhile."""
    cluster.apply(objects.dljob(name, workloadType="Training" if name == "train" else "Inference"))
    await cluster.run(*RUN, "take_labels")
    cluster.apply(objects.dljob("other"))
    await cluster.settle()
    await cluster.relist()
    edit(cluster, name, suspend=True)
    await cluster.advance(60)
    await cluster.run("stop_suspended", "reap")
    assert not [pod for pod in cluster.server.all("pods") if pod["metadata"]["name"].startswith(name)]
    await cluster.advance(60)
    assert "no pod of it runs" in cluster.condition("Suspended", name=name)["message"]


async def test_a_label_that_was_lost_while_no_watch_told_leaves_nobody_blind(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run(*RUN)
    cluster.take_labels()
    cluster.apply(objects.dljob("other"))
    cluster.lose(99)
    await cluster.relist()
    edit(cluster, "train", suspend=True)
    await cluster.settle()
    assert cluster.attempts()[0]["spec"]["suspend"] is True


async def test_what_is_gone_without_its_label_is_forgotten_by_a_sweep_of_the_watch(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run(*RUN, "take_labels")
    cluster.server.delete("jobs", "train-1")
    cluster.server.reap()
    cluster.lose(99)
    await cluster.relist()
    await cluster.settle()
    (job,) = cluster.attempts()
    assert names.DLJOB_LABEL in job["metadata"]["labels"]


LABELS = {"team": "vision", "billing.example.com/code": "7", "app": "web", "cotenant.dev/made-up": "x"}


def labelled(name: str, **spec: Any) -> Json:
    value = objects.dljob(name, **spec)
    value["metadata"]["labels"] = LABELS | {"kueue.x-k8s.io/priority-class": "high"}
    return value


async def name_keys(cluster: Cluster) -> None:
    cluster.label_keys = frozenset(["team", "billing.example.com/"])
    cluster.restart()
    await cluster.start()


def copied(cluster: Cluster) -> list[Json]:
    """The labels of all pods that are no part of what every pod of ours has."""
    own = ("app.kubernetes.io/", "cotenant.dev/")
    pods = [pod["metadata"]["labels"] for pod in cluster.server.all("pods")]
    return [{key: text for key, text in found.items() if not key.startswith(own)} for found in pods]


@pytest.mark.parametrize(
    "spec", [{}, {"replicas": 2}, {"workloadType": "Inference"}], ids=["single", "gang", "inference"]
)
async def test_pods_get_the_labels_of_their_dljob_that_the_administrator_names_and_no_others(
    cluster: Cluster, spec: Json
) -> None:
    await name_keys(cluster)
    cluster.apply(labelled("train", **spec))
    await cluster.run(*RUN)
    assert copied(cluster) == [{"team": "vision", "billing.example.com/code": "7"}] * spec.get("replicas", 1)


async def test_pods_of_a_sweeps_runs_get_its_labels(cluster: Cluster) -> None:
    await name_keys(cluster)
    cluster.apply(labelled("sweep", completions=2))
    await cluster.run(*RUN)
    await cluster.run(*RUN)
    assert copied(cluster) == [{"team": "vision", "billing.example.com/code": "7"}] * 2


async def test_a_label_of_the_template_stands_before_one_of_the_dljob(cluster: Cluster) -> None:
    await name_keys(cluster)
    value = labelled("train")
    value["spec"]["template"]["metadata"] = {"labels": {"team": "speech", "app": "trainer"}}
    cluster.apply(value)
    await cluster.run(*RUN)
    assert copied(cluster) == [{"team": "speech", "billing.example.com/code": "7", "app": "trainer"}]


@pytest.mark.parametrize("kind", ["Training", "Inference"])
async def test_another_label_restarts_nothing(cluster: Cluster, kind: str) -> None:
    await name_keys(cluster)
    cluster.apply(labelled("train", workloadType=kind))
    await cluster.run(*RUN)
    pods = [pod["metadata"]["uid"] for pod in cluster.server.all("pods")]
    cluster.server.change("dljobs", "train", lambda value: value["metadata"]["labels"].update(team="speech"))
    await cluster.run(*RUN, "roll_out")
    assert [pod["metadata"]["uid"] for pod in cluster.server.all("pods")] == pods
    assert cluster.condition("Current").get("status") != "False"


@pytest.mark.parametrize("keys", ["team", "a.b/c,team", "a.b/", ""])
def test_the_command_takes_label_keys_and_prefixes(keys: str) -> None:
    parser = argparse.ArgumentParser()
    command.configure(parser)
    found = parser.parse_args(["--label-keys-to-copy", keys]).label_keys_to_copy
    assert found == frozenset(filter(None, keys.split(",")))


@pytest.mark.parametrize("keys", ["a b", "/team", "a.b/c/d", "team-", "kueue.x-k8s.io/queue-name", "cotenant.dev/"])
def test_the_command_refuses_what_is_no_label_key_or_not_a_users(keys: str, capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    command.configure(parser)
    with pytest.raises(SystemExit):
        parser.parse_args(["--label-keys-to-copy", keys])
    assert repr(keys) in capsys.readouterr().err


def test_a_prefix_names_labels_with_that_prefix_alone() -> None:
    assert labels.is_copied("team/a", {"team/"})
    assert not labels.is_copied("team", {"team/"})
