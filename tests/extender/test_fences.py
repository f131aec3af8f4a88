"""Pods are read one after the other; whoever cannot be read keeps no other from it."""

from api_server.faults import Fault
from cotenant_extender.kube import pods, transport
from extender import builders, running, virtual
from extender.running import until


@virtual.time
async def test_a_pod_that_cannot_be_read_keeps_no_other_from_being_given_back_after_a_restore() -> None:
    def fault(request: transport.Request) -> Fault | None:
        if "/binding" in request.path:
            return Fault.ANSWERED
        return Fault.NOT_SENT if request.path.endswith("/pods/a") else None

    server = running.server()
    async with running.extender(server) as rig:
        await rig.serving()
        for name in "ab":
            server.put(pods.PODS, builders.pod(name))
        await until(lambda: not any("schedulingGates" in server.pod(name)["spec"] for name in "ab"), "lifted")
        server.fault = fault
        assert [await rig.bound(name, "n0") for name in "ab"] == ["", ""]
        await until(lambda: set(rig.extender.ledger.reserved) == {"uid-a"}, "the other is given back")
