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
)


@pytest.mark.parametrize(("spec", "says"), FORGED, ids=["days", "longer", "renewed", "acquired"])
def test_the_operators_lease_lasts_no_longer_than_its_programs_write(
    operator: Client, refused: Refused, spec: Json, says: str
) -> None:
    path = f"{LEASES}/{leading.NAME}?dryRun=All"
    operator.patch(path, {"spec": {"holderIdentity": "one", "leaseDurationSeconds": leading.DURATION_SECONDS}})
    assert says in refused(lambda: operator.patch(path, {"spec": {"holderIdentity": "thief", **spec}}))


@pytest.fixture
def lease(cluster: Cluster) -> Iterator[str]:
    """The path of the scheduler's Lease, which kube-scheduler makes elsewhere."""
    path = f"{LEASES}/{names.SCHEDULER_LEASE}"
    metadata = {"name": names.SCHEDULER_LEASE}
    cluster.client.create(LEASES, {"metadata": metadata, "spec": {"holderIdentity": "one"}})
    yield path
    cluster.client.delete(path)


@pytest.mark.parametrize(("spec", "says"), FORGED, ids=["days", "longer", "renewed", "acquired"])
def test_the_schedulers_lease_lasts_no_longer_than_its_programs_write(
    scheduler: Client, lease: str, refused: Refused, spec: Json, says: str
) -> None:
    found = scheduler.get(lease)
    scheduler.replace(f"{lease}?dryRun=All", found)
    found["spec"] |= {"holderIdentity": "thief", **spec}
    assert says in refused(lambda: scheduler.replace(f"{lease}?dryRun=All", found))
