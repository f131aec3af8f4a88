"""What a new leader fences, and what it reserves for pods that a former one may be binding."""

from typing import Any

from cotenant_api import names
from cotenant_api.names import PodUID
from cotenant_extender import records, service, steps, takeover
from cotenant_extender.kube import pods
from cotenant_extender.ledger import overbooked
from extender import builders, queueing, running, virtual
from extender.builders import NOW


def predicted(name: str, **changes: Any) -> dict[str, Any]:
    """A pod that is predicted to keep 40 % of a GPU busy."""
    notes = {names.PREDICTION: builders.prediction(h200=(40.0, 1000, 40)), **changes.pop("annotations", {})}
    return builders.pod(name, 40, annotations=notes, **changes)


def test_a_late_binding_of_a_pod_that_could_not_be_marked_overbooks_no_gpu_after_the_policy_changed() -> None:
    former, fresh = (builders.cluster(gpus=1, maxUtilizationPercent=percent) for percent in (50, 100))
    builders.put(former, predicted("a"))
    assert queueing.lifted(former) == ["a"]
    promise = former.earmarks.get(PodUID("uid-a"))
    assert promise is not None
    note = {names.EARMARK: promise.note().to_json()}
    builders.put(fresh, predicted("a", gates=(), version=2, annotations=note))
    fresh.earmarks.unmarked.add(PodUID("uid-a"))
    steps.finish(takeover.adopting(fresh, lambda: NOW))
    builders.put(fresh, builders.pod("b", 60))
    assert queueing.lifted(fresh) == []
    late = predicted("a", gates=(), version=3, node="n0", phase="Running")
    late["metadata"]["annotations"][names.PLACEMENT] = promise.placed.to_json()
    builders.put(fresh, late)
    assert queueing.booked(fresh) == {"GPU-n0-0": 80}
    assert steps.finish(overbooked.overbooked(fresh)) == []


@virtual.time
async def test_each_pod_that_may_be_being_bound_is_fenced_once() -> None:
    server = running.server()
    settings = service.Settings(identity=running.IDENTITY, assume_leader=True)
    found = service.Extender(settings, server, clock=running.clock, stopwatch=running.clock)
    found.ledger.earmarks.leader = "host_1@1"
    for name, gates in {"a": (), "b": (), "waits": ("cotenant.dev/packing",)}.items():
        server.put(pods.PODS, builders.pod(name, gates=gates))
        found.ledger.pod(records.pod_record(server.pod(name)), now=NOW)
    rounds = iter(range(9))
    assert await found.leader._fencing.fence_all(lambda: next(rounds, None) is not None)
    assert [server.sent("PATCH", f"/pods/{name}") for name in ("a", "b", "waits")] == [1, 1, 0]
    assert next(rounds) == 2
