"""A tenant has a daemon tell of a fault that was none, and the whole agent leaves its neighbour alone.

The daemon and what it says are those of each driver. Without a GPU no server of NVIDIA's gets ACTIVE: that there is
one, with a client of each of two tenants, is what the backend here says.
"""

import pytest

from cotenant_api import gpunode, placement
from cotenant_api.names import GPUUID
from cotenant_deviceplugin.mps import layout, proof, v2
from cotenant_deviceplugin.mps.backend import Edits, Properties, Server
from mps_kit.exchanges import FORGED
from mps_kit.place import GPU, Place
from node_kit import quick
from node_kit.whole_node import CONTAINER_UID, SERVER_PID, MemoryMPS, WholeNode, started

CLIENTS = (51, 52)
COUNTER = "cotenant_mps_unproven_faults_total"


class Occupied(MemoryMPS):
    """The product's backend over a daemon, of a server that is ACTIVE. Nothing is to be done to it."""

    def __init__(self, backend: v2.MPSv2) -> None:
        super().__init__()
        self.backend = backend
        self.clients: tuple[int, ...] = ()
        self.done: list[str] = []

    @property
    def properties(self) -> Properties:
        """Of the product's."""
        return self.backend.properties

    def stirred(self, _: GPUUID) -> bool:
        """As the product's."""
        return self.backend.stirred(GPU)

    async def observe(self, _: GPUUID) -> Server:
        """What the daemon says, beside a server."""
        said = (await self.backend.observe(GPU)).faults
        return Server(state=gpunode.MPS.ACTIVE, pid=SERVER_PID, clients=self.clients, faults=said)

    async def start(self, _: GPUUID) -> None:
        """It is told."""
        self.done.append("start")

    async def stop(self, _: GPUUID) -> None:
        """It is told."""
        self.done.append("stop")

    async def terminate(self, _: GPUUID, pid: int) -> None:
        """It is told."""
        self.done.append(f"terminate {pid}")

    def edits(self, _: GPUUID, booking: placement.GPUBooking, *, processes: int) -> Edits:
        """As the product's."""
        return self.backend.edits(GPU, booking, processes=processes)


async def said(place: Place, count: int) -> None:
    """Wait until the daemon has said so many times what was forged."""
    await quick.until(lambda: place.said().count(FORGED) == count)


async def test_fault_that_a_tenant_has_made_up_does_nothing_to_its_neighbour(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    (place.folder / "node").mkdir()
    node = WholeNode(place.folder / "node", gpus=1)
    with place.daemon() as daemon:
        node.mps = mps = Occupied(place.backend())
        async with node.offering() as agent:
            for number, pid in enumerate(CLIENTS, start=1):
                await started(node, node.bind(number))
                node.run_process(pid, CONTAINER_UID.format(number))
            mps.clients = CLIENTS
            for count in range(1, proof.LOOKS + 3):
                daemon.program.give(layout.client_pipe(place.root, GPU), f"x\n{FORGED}\n")
                await said(place, count)
                await quick.until(lambda: not mps.stirred(node.first))
            labels: dict[str, str] = {"gpu_uuid": node.first}
            await quick.until(lambda: agent.metrics.registry.get_sample_value(COUNTER, labels))
            agent.agent.publish_soon()
            gpu = node.gpu()
            assert (gpu["health"], gpu["mps"], gpu.get("lastFault")) == ("Healthy", "Active", None)
            assert [tenant.get("evict") for tenant in gpu["tenants"]] == [None, None]
            assert mps.done == []
    assert caplog.text.count("a tenant may have written") == 1
