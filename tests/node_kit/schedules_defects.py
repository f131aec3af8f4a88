"""Late binding with one defect each, as peers have had them: seeds must find every one of them."""

import dataclasses
import sys
from collections.abc import Callable

from cotenant_api.names import Namespace, NodeName, PodUID
from cotenant_deviceplugin import pods
from cotenant_deviceplugin.binding import disk, ledger
from cotenant_deviceplugin.binding.grants import Gate, Grant, PodReader
from cotenant_deviceplugin.binding.late_binding import LateBinding, Surroundings
from cotenant_deviceplugin.binding.ledger import Ledger, Nonce
from cotenant_deviceplugin.binding.owner import Owner
from cotenant_deviceplugin.kubelet.owners import Kubelet, Listed, Recorded
from cotenant_deviceplugin.kubelet.plugin import CDIName, Tokens
from cotenant_deviceplugin.mps.backend import Edits
from node_kit import schedules


class Guessing:
    """Takes the oldest pod that asks for as many tokens and does not run, as plugins without late binding do."""

    def __init__(self, kubelet: Kubelet, reader: PodReader) -> None:
        self._kubelet, self._reader = kubelet, reader

    async def recorded(self) -> tuple[Recorded, ...]:
        """With the guessed UIDs."""
        found = await self._kubelet.recorded()
        return tuple([dataclasses.replace(each, pod_uid=(await self._guess(each.tokens)).uid) for each in found])

    async def listed(self) -> tuple[Listed, ...]:
        """With the guessed names."""
        found = await self._kubelet.listed()
        return tuple([dataclasses.replace(each, pod=(await self._guess(each.tokens)).name) for each in found])

    async def _guess(self, tokens: Tokens) -> pods.BoundPod:
        waiting = [each for each in await self._reader.bound() if not each.running and not each.finished]
        nobody = pods.BoundPod(uid=PodUID(""), namespace=Namespace(""), name="", running=False, finished=False)
        return next((each for each in waiting if each.requested_share == len(tokens)), nobody)


class NamesOnly:
    """Believes that the pod of that name at the API server is the one that kubelet starts."""

    def __init__(self, kubelet: Kubelet, reader: PodReader) -> None:
        self._kubelet, self._reader = kubelet, reader

    async def listed(self) -> tuple[Listed, ...]:
        """As it is."""
        return await self._kubelet.listed()

    async def recorded(self) -> tuple[Recorded, ...]:
        """With UIDs by name."""
        names = {each.tokens: each for each in await self._kubelet.listed()}
        result = []
        for each in await self._kubelet.recorded():
            shown = names.get(each.tokens)
            bound = await self._reader.read(shown.namespace, shown.pod) if shown else None
            result.append(each if bound is None else dataclasses.replace(each, pod_uid=bound.uid))
        return tuple(result)


class Late:
    """A disk that says that it has written, and has not yet."""

    def __init__(self, inner: disk.Disk) -> None:
        self._inner = inner
        self._last: Ledger | None = None

    async def read(self) -> Ledger:
        """What has arrived."""
        return await self._inner.read()

    async def write(self, ledger: Ledger) -> None:
        """The one before."""
        if self._last is not None:
            await self._inner.write(self._last)
        self._last = ledger


class Blind:
    """Sees no process."""

    async def alive(self) -> frozenset[PodUID]:
        """None."""
        return frozenset()


class Silent:
    """Publishes no tenant."""

    def __init__(self, inner: Surroundings) -> None:
        self._inner = inner

    async def list_tenant(self, grant: Grant) -> None:
        """Only later."""

    def refuse(self, pod_uid: PodUID, reason: str) -> None:
        """As it should be."""
        self._inner.publisher.refuse(pod_uid, reason)


class Trusting:
    """Gives away a GPU beside a process that no tenant explains."""

    def __init__(self, inner: Gate) -> None:
        self._inner = inner

    async def admit(self, grant: Grant, *, new: bool) -> Edits:  # noqa: ARG002
        """As if it stood."""
        return await self._inner.admit(grant, new=False)


class Impatient:
    """Takes every pod for ended when it collects."""

    def __init__(self, inner: PodReader) -> None:
        self._inner = inner
        self.read = inner.read

    async def bound(self) -> tuple[pods.BoundPod, ...]:
        """None."""
        return ()


class ByTokens(LateBinding):
    """Names an allocation by its tokens, so that the next pod with the same ones finds what the last one had."""

    async def allocate(self, tokens: Tokens) -> CDIName:
        """The same name for the same tokens."""
        nonce = Nonce("-".join(sorted(tokens)))
        if self._book.ledger.of(nonce) is None:
            await self._allocated(nonce, tokens)
        return ledger.cdi_name(nonce)


class Superseding(LateBinding):
    """Believes that whoever had a token before has ended."""

    async def allocate(self, tokens: Tokens) -> CDIName:
        """Drops whoever had one of them."""
        name = await super().allocate(tokens)
        stale = {
            each.nonce
            for each in self._book.ledger.granted
            if each.tokens & tokens and ledger.cdi_name(each.nonce) != name
        }
        await self._book.commit(lambda before: before.without(stale))
        return name


class Forgetful(LateBinding):
    """Learns nothing from kubelet when its ledger is lost, and trusts in what it sees on the GPUs."""

    def __init__(self, node: NodeName, surroundings: Surroundings) -> None:
        super().__init__(node, _trusting(surroundings))

    async def _recover(
        self, listed: tuple[Listed, ...], recorded: tuple[Recorded, ...], *, besides: Nonce | None
    ) -> None:
        """Nothing."""


class Fickle(LateBinding):
    """Asks for the placement at each start."""

    async def _renew(self, holder: Owner, tokens: Tokens, _standing: Grant) -> tuple[Grant, Edits]:
        return await self._prove(holder, tokens)


def _trusting(it: Surroundings) -> Surroundings:
    return dataclasses.replace(it, gate=Trusting(it.gate))


def _with(change: Callable[[Surroundings], Surroundings]) -> Callable[[NodeName, Surroundings], LateBinding]:
    return lambda node, surroundings: LateBinding(node, change(surroundings))


DEFECTS: dict[str, Callable[[NodeName, Surroundings], LateBinding]] = {
    "owner guessed by request": _with(lambda it: dataclasses.replace(it, kubelet=Guessing(it.kubelet, it.pods))),
    "no cross-check with the checkpoint": _with(
        lambda it: dataclasses.replace(it, kubelet=NamesOnly(it.kubelet, it.pods))
    ),
    "ledger not on disk when a container starts": _with(lambda it: dataclasses.replace(it, disk=Late(it.disk))),
    "end of a pod without looking for its processes": _with(lambda it: dataclasses.replace(it, processes=Blind())),
    "tenant not listed before it starts": _with(lambda it: dataclasses.replace(it, publisher=Silent(it))),
    "new tenant beside a process that none explains": _with(_trusting),
    "end of a pod without the API server": _with(lambda it: dataclasses.replace(it, pods=Impatient(it.pods))),
    "specification named by tokens": ByTokens,
    "grant dropped when its tokens are allocated again": Superseding,
    "no recovery of a lost ledger": Forgetful,
    "placement read at each start": Fickle,
}


def first_seed(defect: str, *, seeds: int) -> int | None:
    """The first seed of so many that shows a defect."""
    return next((seed for seed in range(seeds) if schedules.violation_of(seed, DEFECTS[defect])), None)


if __name__ == "__main__":
    for name in sorted(DEFECTS):
        sys.stdout.write(f'    "{name}": {first_seed(name, seeds=3000)},\n')
        sys.stdout.flush()
