"""DLJobs whose pods may run as root share no GPU, unless the policy lets them. Against a cluster in memory."""

from typing import Any

import pytest

from cotenant_api import names, rootless
from operator_kit import objects
from operator_kit.cluster import Cluster

Json = dict[str, Any]

BARE = objects.template(securityContext=None)
TOLD = (
    "spec.template.spec.containers[main].securityContext: may run as root, whom MPS obeys, and tenantUser of the "
    "PackingPolicy is NonRoot; add runAsNonRoot: true (and runAsUser: 1000 where the image's user is root) and add "
    "allowPrivilegeEscalation: false and add capabilities: {drop: [ALL]}, or set spec.template.spec.hostUsers: false, "
    "or spec.sharing: Exclusive for whole GPUs"
)


def job(cluster: Cluster) -> Json:
    return cluster.server.find("jobs", "train-1") or {}


def share(cluster: Cluster) -> str:
    text: str = job(cluster)["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"][names.GPU_SHARE]
    return text


async def test_a_job_that_may_be_root_is_not_made_and_told_the_lines_to_add(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(template=BARE))
    await cluster.settle()
    queued = cluster.condition("Queued")
    assert (queued["status"], queued["reason"], queued["message"]) == ("False", "MayBeRoot", TOLD)
    assert cluster.events() == ["MayBeRoot"]
    assert not job(cluster)


async def test_the_job_is_made_when_the_lines_are_added(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(template=BARE))
    await cluster.settle()
    spec = objects.dljob()["spec"]
    cluster.server.change("dljobs", "train", lambda value: value.update(spec=spec))
    await cluster.settle()
    assert int(share(cluster)) < names.HUNDREDTHS


async def test_the_job_is_made_when_the_policy_lets_anybody_in(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(template=BARE))
    await cluster.settle()
    cluster.set_policy(tenantUser="Any")
    await cluster.settle()
    assert int(share(cluster)) < names.HUNDREDTHS


async def test_the_users_security_context_is_left_as_it_is(cluster: Cluster) -> None:
    context = {**rootless.PROVEN, "runAsUser": 1234, "readOnlyRootFilesystem": True}
    cluster.apply(objects.dljob(template=objects.template(securityContext=context)))
    await cluster.settle()
    assert job(cluster)["spec"]["template"]["spec"]["containers"][0]["securityContext"] == context


@pytest.mark.parametrize("changes", [{"sharing": "Exclusive"}, {"gpusPerReplica": 2}, {"model": {}}])
async def test_root_may_have_whole_gpus(cluster: Cluster, changes: Json) -> None:
    cluster.apply(objects.dljob(template=BARE, **changes))
    await cluster.settle()
    assert int(share(cluster)) >= names.HUNDREDTHS


@pytest.mark.parametrize("policy", [{"queue": {"onMissingPrediction": "Profile"}}, {"placement": "Reactive"}])
async def test_a_job_that_is_measured_and_then_packed_is_told_before_it_begins(cluster: Cluster, policy: Json) -> None:
    cluster.set_policy(**policy)
    cluster.apply(objects.dljob(model={}, template=BARE))
    await cluster.settle()
    assert cluster.condition("Queued")["reason"] == "MayBeRoot"
    assert not job(cluster)


@pytest.mark.parametrize("policy", [{"mode": "Observe"}, {"placement": "Exclusive"}])
async def test_where_nothing_is_shared_anybody_may_run(cluster: Cluster, policy: Json) -> None:
    cluster.set_policy(**policy)
    cluster.apply(objects.dljob(template=BARE))
    await cluster.settle()
    assert job(cluster)


async def test_a_deployment_that_runs_goes_on_when_its_new_template_may_be_root(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(workloadType="Inference"))
    await cluster.settle()
    before = cluster.server.find("deployments", "train")
    spec = objects.dljob(workloadType="Inference", template=BARE)["spec"]
    cluster.server.change("dljobs", "train", lambda value: value.update(spec=spec))
    await cluster.settle()
    assert cluster.server.find("deployments", "train") == before
    assert "MayBeRoot" in cluster.events()
