"""Whatever of ours is missing when the API server starts: pods and workloads that ask for no share are created.

Groups of objects are deleted, the API server is started again, and everybody else's pods are tried. Each object alone:
`test_each_object_missing.py`.
"""

from collections.abc import Iterator, Sequence

import pytest

from cluster.workloads import CONTAINER, SECONDS, pod_object
from cotenant_api.names import ASKS_LABEL, PACKING_GATE, SCHEDULER_NAME
from cotenant_e2e import client as clients
from cotenant_e2e import installation, missing, startup, testing, waiting
from cotenant_e2e.client import Json
from cotenant_e2e.cluster import Cluster

SHARED = pod_object("p")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A control plane with our manifests, and nothing else of Cotenant."""
    with testing.control_plane(tmp_path_factory.mktemp("missing"), startup.Options(nodes=())) as found:
        installation.apply_manifests(found)
        yield found


def others_are_created(cluster: Cluster) -> None:
    """A plain pod, a pod of kube-system, one that belongs to nobody's label, and a Deployment."""
    plain = {"metadata": {"name": "plain"}, "spec": {"containers": [CONTAINER]}}
    labels = {"app": "theirs"}
    template = {"metadata": {"labels": labels, "annotations": {"a": "b"}}, "spec": {"containers": [CONTAINER]}}
    deployment = {"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": labels}, "template": template}}
    bounded = {**plain, "metadata": {"name": "bounded", "annotations": {"cotenant.dev/minimum-run-seconds": "5"}}}
    for path, body in (
        (clients.path_of("pods", namespace="default"), plain),
        (clients.path_of("pods", namespace="default"), bounded),
        (clients.path_of("pods", namespace="kube-system"), plain),
        (clients.path_of("pods", namespace="kube-system"), {**SHARED, "metadata": {"name": "shared"}}),
        (clients.path_of("deployments", group="apps", namespace="default"), deployment),
    ):
        cluster.client.create(f"{path}?dryRun=All", body)
    # What is there goes on, too.
    path = clients.path_of("pods", namespace="default")
    name = cluster.client.create(path, {**plain, "metadata": {"generateName": "plain-"}})["metadata"]["name"]
    cluster.client.patch(f"{path}/{name}", {"metadata": {"labels": {"a": "b"}}})
    cluster.client.patch(f"{path}/{name}/status", {"status": {"message": "kubelet's"}})
    cluster.client.delete(f"{path}/{name}", gracePeriodSeconds="0")


@pytest.mark.parametrize("gone", missing.GROUPS.values(), ids=list(missing.GROUPS))
def test_pods_of_others_are_created_whatever_is_missing(cluster: Cluster, gone: Sequence[Json]) -> None:
    assert gone
    missing.remove(cluster, gone)
    others_are_created(cluster)
    missing.wait_until_judged(cluster, gone)
    others_are_created(cluster)
    installation.apply_manifests(cluster)


def test_with_everything_there_others_are_created(cluster: Cluster) -> None:
    others_are_created(cluster)
    assert missing.is_refused(cluster)


def test_without_the_policy_that_changes_pods_a_share_is_still_refused(cluster: Cluster) -> None:
    """Rules that select pods by the label which that policy gives them are not gone round."""
    for gone in missing.of_kinds("MutatingAdmissionPolicyBinding"):
        cluster.kubectl("delete", "--filename", "-", stdin=gone)
    pods = f"{clients.path_of('pods', namespace='default')}?dryRun=All"
    served: Json = {"schedulerName": SCHEDULER_NAME, "schedulingGates": [{"name": PACKING_GATE}]}

    def refusal(pod: Json, labels: Json) -> str:
        try:
            cluster.client.create(pods, {**pod, "metadata": {"name": "p", "labels": labels}})
        except clients.APIError as error:
            return error.message
        return ""

    label = {ASKS_LABEL: "gpu-share"}
    waiting.wait_until(lambda: "must be cotenant" in refusal(SHARED, label), "no more mutation", SECONDS)
    as_mutated = pod_object("p", **served)
    assert f"metadata.labels[{ASKS_LABEL}]: must be gpu-share" in refusal(as_mutated, {})
    assert f"metadata.labels[{ASKS_LABEL}]: must be gpu-share" in refusal(as_mutated, {ASKS_LABEL: "nothing"})
    assert "hostNetwork" in refusal(pod_object("p", hostNetwork=True, **served), label)
    assert refusal(as_mutated, label) == ""
    installation.apply_manifests(cluster)
