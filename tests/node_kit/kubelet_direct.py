"""kubelet's calls made straight into `Shares`, without sockets and messages on the way: thousands of runs a minute."""

import asyncio

from cotenant_deviceplugin.kubelet import statuses
from cotenant_deviceplugin.kubelet.plugin import Shares, Token
from cotenant_deviceplugin.kubelet.protos import deviceplugin_v1beta1_pb2 as messages
from node_kit.kubelet import Kubelet
from node_kit.kubelet_devices import KubeletError


class DirectEndpoint:
    """The plugin, in this process."""

    def __init__(self, shares: Shares) -> None:
        self._shares = shares

    async def allocate(self, ids: list[str]) -> bytes:
        """As Allocate is answered."""
        try:
            name = await self._shares.allocate(frozenset(map(Token, ids)))
        except Exception as error:
            raise _refused("Allocate", error) from error
        answer = messages.ContainerAllocateResponse(cdi_devices=[messages.CDIDevice(name=name)])
        return bytes(answer.SerializeToString())

    async def pre_start(self, ids: list[str]) -> None:
        """As PreStartContainer is answered."""
        try:
            await self._shares.pre_start(frozenset(map(Token, ids)))
        except Exception as error:
            raise _refused("PreStartContainer", error) from error


async def register(kubelet: Kubelet, shares: Shares) -> "asyncio.Task[None]":
    """Register: kubelet has the first list when this returns. Cancel the task to lose the stream."""
    offers, endpoint = aiter(shares.offers()), DirectEndpoint(shares)
    kubelet.connected(endpoint)
    kubelet.offered(await anext(offers))

    async def follow() -> None:
        async for offer in offers:
            if kubelet.endpoint is not endpoint:
                return
            kubelet.offered(offer)

    def ended(_following: "asyncio.Task[None]") -> None:
        # A later kubelet, or a later registration, has an endpoint of its own.
        if kubelet.endpoint is endpoint:
            kubelet.disconnected()

    following = asyncio.create_task(follow())
    following.add_done_callback(ended)
    return following


def _refused(method: str, error: Exception) -> KubeletError:
    code, text = statuses.of(error)
    return KubeletError(f"{method}: {code.name}: {text}")
