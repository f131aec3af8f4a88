"""Late binding: Allocate gives a name that resolves to nothing; PreStart proves whose it is and lets it resolve.

What is proven is on disk before the container can start with it, so each step may be the last before a crash:
the next call goes on from there. Nothing is inferred from the order or the time of calls.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass

from cotenant_api import errors, packingpolicy
from cotenant_api.names import GPUUID, NodeName, PodUID
from cotenant_deviceplugin.binding import decision, ledger, owner, recovery, tokens
from cotenant_deviceplugin.binding.book import Book
from cotenant_deviceplugin.binding.disk import Disk
from cotenant_deviceplugin.binding.grants import (
    Evidence,
    Gate,
    Grant,
    Numbers,
    PodReader,
    Processes,
    Publisher,
    ServedGPU,
)
from cotenant_deviceplugin.binding.ledger import Allocation, Nonce
from cotenant_deviceplugin.binding.owner import Owner
from cotenant_deviceplugin.binding.specifications import Specifications
from cotenant_deviceplugin.clock import Clock
from cotenant_deviceplugin.kubelet.owners import Kubelet, Listed, Recorded
from cotenant_deviceplugin.kubelet.plugin import CDIName, Token, Tokens
from cotenant_deviceplugin.mps.backend import Edits

DELAY_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What late binding works with.

    Attributes:
        nonces: a new one at each call, never one twice, of letters and digits.
        tenant_user: whom pods on shared GPUs may run as; None: that is not known yet.
    """

    disk: Disk
    kubelet: Kubelet
    pods: PodReader
    processes: Processes
    gate: Gate
    publisher: Publisher
    specifications: Specifications
    clock: Clock
    nonces: Callable[[], Nonce]
    tenant_user: Callable[[], packingpolicy.TenantUser | None]


class LateBinding:
    """The tokens of one node and what becomes of them: `kubelet.plugin.Shares` and `grants.Tenants`."""

    def __init__(self, node: NodeName, surroundings: Surroundings) -> None:
        self._node = node
        self._with = surroundings
        self._changed = asyncio.Event()
        self._book = Book(surroundings.disk, self._wake)
        self._starting: dict[Tokens, asyncio.Lock] = {}
        self._waiting: Counter[Tokens] = Counter()
        self._proving: dict[PodUID, Grant] = {}
        self._gpus: Mapping[GPUUID, ServedGPU] = {}
        self._suspended: str | None = "the node's GPUs are not known yet"
        self._withdrawn: Tokens = frozenset()
        self._revised: Mapping[GPUUID, Numbers] | None = None

    async def open(self) -> None:
        """Read the ledger, if it has not been. Raises TemporaryError, and UnsupportedVersionError."""
        await self._book.open()

    async def recover(self) -> None:
        """Learn from kubelet and the API server what the ledger has lost. May be called again.

        Raises TemporaryError while that cannot be; a PreStart that needs it tries the same.
        """
        await self.open()
        listed, recorded = await self._kubelet_says()
        await self._recover(listed, recorded, besides=None)

    def serve(self, gpus: Mapping[GPUUID, ServedGPU], *, suspended: str | None) -> None:
        """Say what GPUs there are now. Until then nothing is served.

        Args:
            gpus: all of the node, the closed ones and the lost ones too: a pod with another one is refused for good.
            suspended: why none may be shared now (no CDI, another device plugin, no driver); None: they may.
        """
        self._gpus = dict(gpus)
        self._suspended = suspended
        self._wake()

    async def revise(self) -> None:
        """Have no name resolve any more that gives other GPUs than its grant's, where the GPUs' numbers have changed.

        kubelet starts containers without asking for a PreStart while it waits for this plugin. So this comes before
        the plugin registers, and a PreStart lets a name resolve again. Raises TemporaryError.
        """
        numbers = {gpu: each.numbers for gpu, each in self._gpus.items()}
        if numbers == self._revised:
            return
        await self.open()
        # The names first: a PreStart has its grant stand before it lets a new one resolve.
        names = await self._with.specifications.names()
        granted = {each.nonce: each.grant for each in self._book.ledger.granted}
        await self._with.specifications.restrict(
            {nonce: decision.minors(granted.get(nonce), numbers) for nonce in names}
        )
        self._revised = numbers

    def tenants(self, gpu: GPUUID) -> tuple[Grant, ...]:
        """Return the grants that stand on a GPU, and those that are being made ready for it."""
        if not self._proving:
            return self.granted(gpu)
        return tuple(grant for grant in self._given_away() if any(booking.uuid == gpu for booking in grant.booked.gpus))

    def granted(self, gpu: GPUUID) -> tuple[Grant, ...]:
        """Return the grants that stand on a GPU."""
        return self._book.ledger.tenants.get(gpu, ())

    def grants(self) -> tuple[Grant, ...]:
        """All grants that stand."""
        return self._book.ledger.grants

    async def offers(self) -> AsyncIterator[Mapping[Token, bool]]:
        """All tokens, and whether each may be handed out: what stands now, then after each change."""
        await self.open()
        told: Mapping[Token, bool] | None = None
        while True:
            changed = self._changed
            if (offer := self._offer()) != told:
                told = offer
                yield offer
            await changed.wait()

    async def allocate(self, tokens: Tokens) -> CDIName:
        """Mint a name for what these tokens will turn out to be. It resolves to nothing yet."""
        if not tokens:
            raise errors.PermanentError("kubelet allocates no token")
        nonce = self._with.nonces()
        await self._allocated(nonce, tokens)
        return ledger.cdi_name(nonce)

    async def pre_start(self, tokens: Tokens) -> None:
        """Prove whose the tokens are, and have their name resolve to that pod's GPUs and limits."""
        async with self._alone(tokens):
            await self.open()
            listed, recorded = await self._kubelet_says()
            holder = await self._owner(tokens, listed, recorded)
            self._check_known(holder, tokens)
            standing = self._book.ledger.of_pod(holder.pod_uid)
            try:
                if standing is None or standing.grant is None:
                    await self._recover(listed, recorded, besides=holder.nonce)
                    grant, edits = await self._prove(holder, tokens)
                else:
                    grant, edits = await self._renew(holder, tokens, standing.grant)
            except errors.PermanentError as error:
                reason = decision.reason_of(error)
                self._with.publisher.refuse(holder.pod_uid, reason)
                raise errors.PermanentError(reason) from error
            await self._write(holder.nonce, grant, edits)

    async def collect(self) -> tuple[Grant, ...]:
        """Drop what is proven to have ended, and files of what nobody knows. Returns the grants that ended."""
        await self.open()
        evidence = await self._evidence()
        now = self._with.clock.now()
        garbage = self._book.ledger.garbage(evidence, now=now)
        nonces = frozenset(each.nonce for each in garbage)
        # The names first: what has no grant must not resolve, wherever this is cut short.
        await self._with.specifications.remove(nonces)
        await self._book.commit(lambda before: before.not_after(now).without(nonces))
        await self._sweep(evidence)
        return tuple(each.grant for each in garbage if each.grant is not None)

    async def _write(self, nonce: Nonce, grant: Grant, edits: Edits) -> None:
        numbers = self._numbers(grant)
        await self._with.specifications.write(nonce, numbers, edits)
        if self._numbers(grant) != numbers:
            await self._with.specifications.remove({nonce})
            raise _not_now("the GPUs' numbers have changed meanwhile")

    async def _evidence(self) -> Evidence:
        """Collect the evidence.

        The API server is asked first: of who has ended there, kubelet and the host show what is left.
        """
        granted = [grant.pod_uid for grant in self._book.ledger.grants]
        living = {each.uid for each in await self._with.pods.bound() if not each.finished}
        listed, recorded = await self._kubelet_says()
        return Evidence(
            ended=frozenset(granted) - living,
            listed=listed,
            recorded=recorded,
            alive=await self._with.processes.alive(),
        )

    async def _sweep(self, evidence: Evidence) -> None:
        """Remove names without a grant, as a late call leaves them; not those that tell of a ledger that was lost."""
        names = await self._with.specifications.names()
        recorded = {nonce for each in evidence.recorded for nonce in ledger.nonces_of(each)}
        known = {each.nonce for each in self._book.ledger.allocations}
        granted = {each.nonce for each in self._book.ledger.granted}
        await self._with.specifications.remove(names - granted - (recorded - known))

    async def _kubelet_says(self) -> tuple[tuple[Listed, ...], tuple[Recorded, ...]]:
        listed = await self._with.kubelet.listed()
        return listed, await self._with.kubelet.recorded()

    async def _owner(self, tokens: Tokens, listed: tuple[Listed, ...], recorded: tuple[Recorded, ...]) -> Owner:
        shown = owner.shown(tokens, listed)
        if not owner.ambiguous(tokens, recorded):
            return owner.of(tokens, shown, recorded)
        bound = await self._with.pods.read(shown.namespace, shown.pod)
        if bound is None:
            raise _not_now("kubelet has recorded several owners of these tokens, and the API server knows none")
        return owner.of(tokens, shown, recorded, pod_uid=bound.uid)

    def _check_known(self, holder: Owner, tokens: Tokens) -> None:
        known = self._book.ledger.of(holder.nonce)
        if known is not None and known.tokens != tokens:
            raise _not_now("kubelet has another answer for these tokens than it was given")

    async def _recover(
        self, listed: tuple[Listed, ...], recorded: tuple[Recorded, ...], *, besides: Nonce | None
    ) -> None:
        """Learn again what the ledger has lost, before anything new is given away."""
        lost = recovery.unknown(self._book.ledger, recorded, besides=besides)
        if not lost:
            return
        known = recovery.Known(
            listed=listed,
            bound={each.uid: each for each in await self._with.pods.bound()},
            resolvable=await self._with.specifications.names(),
        )
        now = self._with.clock.now()
        found = [recovery.of(each, known, node=self._node, now=now) for each in lost]
        adopted = [each for each in found if each is not None]
        for each in adopted:
            if each.grant is not None:
                await self._with.publisher.list_tenant(each.grant)
        await self._book.commit(lambda before: recovery.adopted(before, adopted))

    async def _renew(self, holder: Owner, tokens: Tokens, standing: Grant) -> tuple[Grant, Edits]:
        """Return what was granted stands for as long as the pod lives, whatever has become of its placement.

        A GPU that takes no new tenant keeps this one; whether a container may start on it now, the gate knows.
        """
        if standing.container != holder.container:
            raise _not_now(f"container {standing.container!r} has the grant, and {holder.container!r} the tokens")
        self._numbers(standing)
        edits = await self._with.gate.admit(standing, new=False)
        await self._commit(holder.nonce, tokens, standing)
        return standing, edits

    async def _prove(self, holder: Owner, tokens: Tokens) -> tuple[Grant, Edits]:
        """Return a new grant, if everything that it needs is so."""
        bound = await self._with.pods.read(holder.namespace, holder.pod)
        grant = decision.grant(holder, bound, tokens=len(tokens), node=self._node, known=self._gpus)
        decision.check_user(grant, holder, bound, self._with.tenant_user())
        self._numbers(grant)
        decision.check_open(grant, self._gpus)
        if not decision.has_room(grant, self._given_away()):
            await self.collect()
        with self._room(grant):
            edits = await self._with.gate.admit(grant, new=True)
            await self._with.publisher.list_tenant(grant)
            # Now that the tenant is listed, nobody takes its share for free when the pod vanishes.
            decision.check_unchanged(grant, holder, await self._with.pods.read(holder.namespace, holder.pod))
            await self._commit(holder.nonce, tokens, grant)
        return grant, edits

    async def _commit(self, nonce: Nonce, tokens: Tokens, grant: Grant) -> None:
        new = Allocation(nonce=nonce, tokens=tokens, minted_at=self._with.clock.now(), grant=grant)
        await self._book.commit(lambda before: before.grant(new))

    async def _allocated(self, nonce: Nonce, tokens: Tokens) -> None:
        now = self._with.clock.now()
        await self._book.commit(lambda before: before.allocate(nonce, tokens, now=now))

    def _numbers(self, grant: Grant) -> Mapping[GPUUID, Numbers]:
        """Return the GPUs of a grant, if any may be used now."""
        if self._suspended is not None:
            raise _not_now(f"no GPU is shared on this node now: {self._suspended}")
        return decision.numbers(grant, self._gpus)

    def _given_away(self) -> tuple[Grant, ...]:
        everybody = {grant.pod_uid: grant for grant in (*self._proving.values(), *self._book.ledger.grants)}
        return tuple(everybody.values())

    @contextlib.contextmanager
    def _room(self, grant: Grant) -> Iterator[None]:
        """Reserve the grant's hundredths while it is being proven. Nothing is awaited between check and reservation."""
        if grant.pod_uid in self._proving:
            raise _not_now("another start of this pod is under way")
        decision.check_room(grant, self._given_away())
        self._proving[grant.pod_uid] = grant
        try:
            yield
        finally:
            del self._proving[grant.pod_uid]

    @contextlib.asynccontextmanager
    async def _alone(self, tokens: Tokens) -> AsyncIterator[None]:
        """One at a time for these tokens: kubelet may ask again while an earlier call goes on."""
        lock = self._starting.setdefault(tokens, asyncio.Lock())
        self._waiting[tokens] += 1
        try:
            async with lock:
                yield
        finally:
            self._waiting[tokens] -= 1
            if not self._waiting[tokens]:
                del self._waiting[tokens], self._starting[tokens]

    def _offer(self) -> Mapping[Token, bool]:
        held = self._book.ledger.held
        self._withdrawn = tokens.withdrawn(
            self._gpus,
            ledger.shares(self._book.ledger.grants),
            held=held,
            before=self._withdrawn,
            suspended=self._suspended is not None,
        )
        return tokens.offer(len(self._gpus), held=held, withdrawn=self._withdrawn)

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def _not_now(why: str) -> errors.TemporaryError:
    return errors.TemporaryError(why, delay_seconds=DELAY_SECONDS)
