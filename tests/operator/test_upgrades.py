"""Another release of the operator takes over: what runs goes on as it is. In memory."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cotenant_api import dljob
from cotenant_operator import labels
from cotenant_operator.state import origins
from cotenant_operator.workloads import digests, former_digests
from operator_kit import objects, releases
from operator_kit.cluster import Cluster

Json = dict[str, Any]

ENTRYPOINT: Json = {"entrypoint": {"callable": "models:build", "args": {"depth": "3"}}}


def spec(**fields: Any) -> dljob.Spec:
    return dljob.Spec.model_validate(objects.dljob(**fields)["spec"])


KNOWN: list[Json] = json.loads((Path(releases.__file__).parent / "digests.json").read_text())
"""Specs, and their digests as commit 2f54048 (release 0.1.0) computed them, and as this release did first.

Of these, `runs` is what the runs of a sweep carry that says the same.
"""
BY_NAME = {each["name"]: each for each in KNOWN}
STORED = BY_NAME["a service as the API server stores it"]


def by_release_010(known: Json) -> Json:
    """The annotations of a workload that release 0.1.0 made."""
    found = known["release010"]
    return {labels.SPEC_DIGEST: found["spec"], labels.MODEL_DIGEST: found["model"]}


def by_a_build_after_it(known: Json) -> Json:
    """The same of the builds after it that wrote the present digests in the place of the former ones."""
    found = known["present"]
    return {labels.SPEC_DIGEST: found["spec"], labels.MODEL_DIGEST: found["model"]}


@pytest.mark.parametrize("name", BY_NAME)
def test_digests_are_those_that_running_workloads_carry(name: str) -> None:
    """One that changes here rolls every service at an upgrade, and makes every queued Job again."""
    known = BY_NAME[name]
    found = dljob.Spec.model_validate(known["spec"])
    present = {"spec": digests.of_spec(found), "model": digests.of_model(found), "work": digests.of_work(found)}
    expected = {key: known["present"][key] for key in present}
    former = {
        "spec": former_digests.of_spec(found),
        "model": former_digests.of_model(found),
        "work": former_digests.of_work(found),
    }
    assert (present, former) == (expected, known["release010"])


@pytest.mark.parametrize("name", BY_NAME)
@pytest.mark.parametrize("model", [dljob.Spec, releases.Spec], ids=["this release", "a later one"])
def test_digests_of_sweeps_are_those_that_their_runs_carry(name: str, model: type[dljob.Spec]) -> None:
    """One that changes here has every run that waits changed at an upgrade, and names all others."""
    known = BY_NAME[name]
    own = {"completions": 3, "parallelism": 2, "suspend": True, "ttlSecondsAfterFinished": 60}
    found = model.model_validate({**known["spec"], **own})
    assert digests.of_runs(found, {"kueue.x-k8s.io/queue-name": "research"}) == known["present"]["runs"]


OF_SWEEPS = {"completions", "parallelism"}
"""A sweep makes DLJobs without them, and no workload."""
LATER = {
    "podFailurePolicy",
    "service",
    "successPolicy",
}
"""Fields that release 0.1.0 does not know: no workload of it was made from a spec that sets them."""


def test_every_field_of_a_spec_is_in_one_whose_digests_are_known() -> None:
    fields = set(dljob.Spec.model_json_schema()["properties"])
    assert {key for known in KNOWN for key in known["spec"]} == fields - OF_SWEEPS - LATER


@pytest.mark.parametrize("name", BY_NAME)
@pytest.mark.parametrize("model", [dljob.Spec, releases.Spec], ids=["this release", "a later one"])
@pytest.mark.parametrize("written_by", [by_release_010, by_a_build_after_it])
def test_what_another_release_made_is_found_unchanged(
    name: str, model: type[dljob.Spec], written_by: Callable[[Json], Json]
) -> None:
    known = BY_NAME[name]
    written, found = written_by(known), model.model_validate(known["spec"])
    origin = origins.read(spec=written[labels.SPEC_DIGEST], model=written[labels.MODEL_DIGEST], made_from=None)
    assert digests.is_of_spec(origin, found)
    assert digests.is_of_model(origin, found)
    assert digests.is_of_work(known["release010"]["work"], found)


def test_a_field_that_release_010_does_not_know_is_a_change_of_what_it_made() -> None:
    origin = origins.read(spec=STORED["release010"]["spec"], model=STORED["release010"]["model"], made_from=None)
    later = releases.Spec.model_validate({**STORED["spec"], "urgency": "High"})
    assert not digests.is_of_spec(origin, later)
    assert digests.renewed(origin, later, {}) == {}


def test_digests_that_are_older_than_the_workload_count_for_nothing() -> None:
    """Release 0.1.0 was back, followed an edit, and left an annotation as it was that it does not know."""
    before = dljob.Spec.model_validate(STORED["spec"])
    after = dljob.Spec.model_validate({**STORED["spec"], "gpuMemory": "4Gi"})
    origin = origins.read(
        spec=former_digests.of_spec(after),
        model=former_digests.of_model(after),
        made_from=digests.annotations(before, {})[labels.MADE_FROM],
    )
    assert digests.is_of_spec(origin, after)
    assert not digests.is_of_spec(origin, before)
    assert digests.renewed(origin, after, {}) == digests.annotations(after, {})


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


@pytest.mark.parametrize("written_by", [by_release_010, by_a_build_after_it])
@pytest.mark.parametrize(
    ("plural", "workload", "known", "steps"),
    [
        ("deployments", "work", STORED, ("create_pods", "place", "run_pods")),
        ("jobs", "work-1", BY_NAME["the least"], ("create_pods", "place", "run_pods")),
        ("jobs", "work-1", BY_NAME["the least"], ("create_pods",)),
    ],
    ids=["a service", "a running job", "a waiting job"],
)
async def test_what_another_release_made_goes_on_and_carries_the_digests_of_both(
    cluster: Cluster,
    plural: str,
    workload: str,
    known: Json,
    steps: tuple[str, ...],
    written_by: Callable[[Json], Json],
) -> None:
    cluster.apply(objects.dljob("work", **{"model": None, **known["spec"]}))
    await cluster.run(*steps)

    def made_by_it(value: Json) -> None:
        del value["metadata"]["annotations"][labels.MADE_FROM]
        value["metadata"]["annotations"].update(written_by(known))

    cluster.server.change(plural, workload, made_by_it)
    before, told = cluster.server.find(plural, workload) or {}, cluster.events()
    cluster.restart()
    await cluster.start()
    await cluster.settle()
    after = cluster.server.find(plural, workload) or {}
    assert (after["metadata"]["uid"], after["spec"]) == (before["metadata"]["uid"], before["spec"])
    assert (cluster.events(), cluster.condition(dljob.CURRENT, name="work")) == (told, {})
    wanted = digests.annotations(dljob.Spec.model_validate(known["spec"]), {})
    # Release 0.1.0 finds it unchanged, too, should it come back.
    assert wanted.items() > by_release_010(known).items()
    assert after["metadata"]["annotations"].items() >= wanted.items()


async def test_an_edit_that_restarts_nothing_restarts_nothing_after_an_upgrade_either(cluster: Cluster) -> None:
    cluster.apply(objects.dljob("serve", **STORED["spec"]))
    await cluster.run("create_pods", "place", "run_pods")
    cluster.server.change("deployments", "serve", lambda value: value["metadata"]["annotations"].pop(labels.MADE_FROM))
    cluster.restart()
    await cluster.start()
    await cluster.settle()
    before = (cluster.server.find("deployments", "serve") or {})["spec"]
    cluster.server.change("dljobs", "serve", lambda value: value["spec"]["slo"].update(latencyMilliseconds=40))
    await cluster.settle()
    there = cluster.server.find("deployments", "serve") or {}
    assert there["spec"] == before
    edited = dljob.Spec.model_validate((cluster.server.find("dljobs", "serve") or {})["spec"])
    assert there["metadata"]["annotations"][labels.SPEC_DIGEST] == former_digests.of_spec(edited)


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
