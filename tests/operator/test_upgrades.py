"""Another release of the operator takes over: what runs goes on as it is. In memory."""

from typing import Any

import pytest

from cotenant_api import dljob
from cotenant_operator.workloads import digests
from operator_kit import objects, releases
from operator_kit.cluster import Cluster

Json = dict[str, Any]

ENTRYPOINT: Json = {"entrypoint": {"callable": "models:build", "args": {"depth": "3"}}}


def spec(**fields: Any) -> dljob.Spec:
    return dljob.Spec.model_validate(objects.dljob(**fields)["spec"])


TEMPLATE: Json = {"spec": {"containers": [{"name": "main", "image": "busybox"}]}}
KNOWN: list[tuple[Json, list[str]]] = [
    ({}, ["2665e071b3e1128ee794c9c110fff7ae", "305f8e41085fa97f9f01114e66bdd99a", "305f8e41085fa97f9f01114e66bdd99a"]),
    (
        {
            "model": {"entrypoint": {"callable": "models:build", "args": {"depth": "3"}}},
            "batchSize": 8,
            "precision": "bf16",
        },
        ["a48627be0d3524226396634630289166", "da9275b13fb44aebfe9906757991d4b9", "da9275b13fb44aebfe9906757991d4b9"],
    ),
    (
        {"workloadType": "Inference", "replicas": 3, "slo": {"requestsPerSecond": "20", "percentile": 95}},
        ["a90cc70fdd06569d47702c9ef92111f4", "2bfc561763f83cbf62f17b9bf3ee5661", "305f8e41085fa97f9f01114e66bdd99a"],
    ),
    (
        {"gpuModels": ["Tesla-T4"], "gpuMemory": "8Gi", "sharing": "Exclusive"},
        ["0dcdebb0318b7ae02790cbc8b9913820", "1f75b6b5a518690d89a458d3e8a46001", "305f8e41085fa97f9f01114e66bdd99a"],
    ),
]
"""Specs, and the digests that workloads made from them carry."""


@pytest.mark.parametrize(("fields", "known"), KNOWN)
def test_digests_are_those_that_running_workloads_carry(fields: Json, known: list[str]) -> None:
    """One that changes here rolls every service at an upgrade, and makes every queued Job again."""
    found = spec(template=TEMPLATE, **fields)
    assert [digests.of_spec(found), digests.of_model(found), digests.of_work(found)] == known


@pytest.mark.parametrize("fields", [{}, {"model": ENTRYPOINT, "batchSize": 8}])
def test_fields_that_a_later_release_brings_change_no_digest(fields: Json) -> None:
    value = objects.dljob(**fields)["spec"]
    now, later = dljob.Spec.model_validate(value), releases.Spec.model_validate(value)
    assert digests.of_spec(later) == digests.of_spec(now)
    assert digests.of_model(later) == digests.of_model(now)
    assert digests.of_work(later) == digests.of_work(now)


def test_a_default_that_is_written_out_changes_no_digest() -> None:
    written = spec(sharing="Shared", processesPerGPU=1, container="main", oomPolicy={"maxResubmissions": 3})
    assert digests.of_spec(written) == digests.of_spec(spec())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"slo": {"requestsPerSecond": "5"}}, {"slo": {"requestsPerSecond": "5", "latencyMilliseconds": 80}}),
        ({}, {"slo": {"percentile": 95}}),
        ({"model": ENTRYPOINT}, {"model": {"entrypoint": {**ENTRYPOINT["entrypoint"], "timeoutSeconds": 60}}}),
    ],
)
def test_a_field_that_nobody_acts_on_changes_no_digest(before: Json, after: Json) -> None:
    assert digests.of_spec(spec(**before)) == digests.of_spec(spec(**after))


def test_another_container_of_the_template_is_another_workload() -> None:
    template = {"spec": {"containers": [objects.CONTAINER, {**objects.CONTAINER, "name": "aside"}]}}
    assert digests.of_spec(spec(template=template, container="aside")) != digests.of_spec(spec(template=template))


async def test_an_upgrade_rolls_no_service_and_neither_does_scaling_after_it(cluster: Cluster) -> None:
    cluster.apply(objects.dljob("serve", workloadType="Inference", replicas=2))
    await cluster.run("create_pods", "place", "run_pods")
    before = (cluster.server.find("deployments", "serve") or {})["spec"]["template"]
    with releases.later():
        cluster.restart()
        await cluster.start()
        await cluster.settle()
        assert (cluster.server.find("deployments", "serve") or {})["spec"]["template"] == before
        cluster.server.change("dljobs", "serve", lambda value: value["spec"].update(replicas=4))
        await cluster.settle()
    there = cluster.server.find("deployments", "serve") or {}
    assert (there["spec"]["replicas"], there["spec"]["template"]) == (4, before)
    assert cluster.events() == ["Created"]


async def test_a_later_release_renders_its_own_way_what_the_user_changes(cluster: Cluster) -> None:
    cluster.apply(objects.dljob("serve", workloadType="Inference"))
    await cluster.run("create_pods", "place", "run_pods")
    with releases.later():
        cluster.restart()
        await cluster.start()
        template = objects.template(image="busybox:2")
        cluster.server.change("dljobs", "serve", lambda value: value["spec"].update(template=template))
        await cluster.settle()
    there = cluster.server.find("deployments", "serve") or {}
    assert "cotenant.dev/of-a-later-release" in there["spec"]["template"]["metadata"]["annotations"]
