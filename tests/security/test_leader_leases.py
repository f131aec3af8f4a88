"""The Leases of the operator and of kube-scheduler: whoever stole a token keeps nobody waiting once it is changed."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cotenant_api import names
from cotenant_e2e import client as clients
from cotenant_e2e.client import Client, Json
from cotenant_e2e.cluster import Cluster
from cotenant_operator.loop import leading

Refused = Callable[[Callable[[], Any]], str]
LEASES = clients.path_of("leases", group="coordination.k8s.io", namespace=names.RELEASE_NAMESPACE)
FORGED: tuple[tuple[Json, str], ...] = (
    ({"leaseDurationSeconds": 1_000_000}, "spec.leaseDurationSeconds: 1000000: a leader asks others to wait"),
    ({"leaseDurationSeconds": 121}, "spec.leaseDurationSeconds: 121: a leader asks others to wait"),
    ({"renewTime": "9999-12-31T23:59:59.000000-12:00"}, "spec.renewTime, spec.acquireTime: not in the years"),
    ({"acquireTime": "9999-12-31T23:59:59.000000-12:00"}, "spec.renewTime, spec.acquireTime: not in the years"),
    ({"leaseTransitions": 2**31 - 1}, "spec.leaseTransitions: a leader counts one change more"),
    ({"holderIdentity": "x" * 257}, "spec.holderIdentity: a leader is called by"),
)
NAMES = ["days", "longer", "renewed", "acquired", "transitions", "identity"]
METADATA: Json = {
    "labels": {"example.org/a": "b"},
    "annotations": {"example.org/a": "b"},
    "finalizers": ["example.org/kept"],
    "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": "none"}],
}
"""By an owner that is not there, the garbage collector deletes the Lease."""


@pytest.mark.parametrize(("spec", "says"), FORGED, ids=NAMES)
def test_the_operators_lease_lasts_no_longer_than_its_programs_write(
    operator: Client, refused: Refused, spec: Json, says: str
) -> None:
    path = f"{LEASES}/{leading.NAME}?dryRun=All"
    operator.patch(path, {"spec": {"holderIdentity": "one", "leaseDurationSeconds": leading.DURATION_SECONDS}})
    assert says in refused(lambda: operator.patch(path, {"spec": {"holderIdentity": "thief", **spec}}))


@pytest.mark.parametrize("field", METADATA)
def test_the_operator_changes_nothing_else_of_its_lease(operator: Client, refused: Refused, field: str) -> None:
    path = f"{LEASES}/{leading.NAME}?dryRun=All"
    message = refused(lambda: operator.patch(path, {"metadata": {field: METADATA[field]}}))
    assert "metadata: a leader changes no labels" in message


def test_a_change_of_leaders_is_counted(operator: Client) -> None:
    operator.patch(f"{LEASES}/{leading.NAME}?dryRun=All", {"spec": {"holderIdentity": "two", "leaseTransitions": 1}})


@pytest.fixture
def lease(cluster: Cluster) -> Iterator[str]:
    """The path of the scheduler's Lease, which kube-scheduler makes elsewhere."""
    path = f"{LEASES}/{names.SCHEDULER_LEASE}"
    metadata = {"name": names.SCHEDULER_LEASE}
    cluster.client.create(LEASES, {"metadata": metadata, "spec": {"holderIdentity": "one"}})
    yield path
    cluster.client.delete(path)


@pytest.mark.parametrize(("spec", "says"), FORGED, ids=NAMES)
def test_the_schedulers_lease_lasts_no_longer_than_its_programs_write(
    scheduler: Client, lease: str, refused: Refused, spec: Json, says: str
) -> None:
    found = scheduler.get(lease)
    scheduler.replace(f"{lease}?dryRun=All", found)
    found["spec"] |= {"holderIdentity": "thief", **spec}
    assert says in refused(lambda: scheduler.replace(f"{lease}?dryRun=All", found))
