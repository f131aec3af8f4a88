"""Fencing at the beginning of a term comes to an end."""

from cotenant_extender import records, service
from cotenant_extender.kube import pods
from extender import builders, running, virtual
from extender.builders import NOW


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
