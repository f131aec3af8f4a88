"""One node in the ledger: the sums of its claims, and its view, built when asked for and kept until it changes."""

from collections.abc import Callable, Sequence

from cotenant_api import booking, gpunode
from cotenant_api.names import GPUUID, NodeName, PodUID
from cotenant_extender import records
from cotenant_extender.ledger import claims
from cotenant_extender.packing import policies, view
from cotenant_extender.packing.causes import Cause

Explains = Callable[[PodUID], bool]


class NodeState:
    """What is known of one node and what its pods claim. Sums change by one claim at a time.

    Args:
        stale: where it notes its name when what was built of it no longer holds.

    Attributes:
        changes: how often it has changed.
        record: the Node, if it exists.
        agent: the GPUNode, if it exists.
        alive: whether the agent's Lease has not expired.
        lasting: what pods without a share that never end have of it.
        tenants: claims by GPU; only GPUs that have some.
        holds: GPUs held for jobs that wait.
        kept: what is kept of its CPU, memory and pods for these jobs.
    """

    __slots__ = (
        "_gpus", "_stale", "_view", "agent", "alive", "changes", "cpu_millis", "holds", "kept", "lasting",
        "memory_bytes", "name", "pods", "record", "share", "tenants", "unreadable",
    )  # fmt: skip

    def __init__(self, name: NodeName, stale: set[NodeName]) -> None:
        self.name, self._stale = name, stale
        self.changes = 0
        self.record: records.Node | None = None
        self.agent: records.GPUNode | None = None
        self.alive = False
        self.share = self.cpu_millis = self.memory_bytes = self.pods = 0
        self.lasting = view.NONE_LASTING
        self.tenants: dict[GPUUID, dict[PodUID, claims.Claim]] = {}
        self.unreadable: set[PodUID] = set()
        self.holds: dict[GPUUID, view.Hold] = {}
        self.kept: dict[view.Hold, view.Kept] = {}
        self._view: view.Node | None = None
        self._gpus: dict[GPUUID, view.GPU] = {}

    @property
    def forgettable(self) -> bool:
        """Whether nothing is known of it any more."""
        return self.record is None and self.agent is None and self.pods == 0

    def changed(self) -> None:
        """Drop what was built: it no longer holds."""
        self._gpus.clear()
        self._outdated()

    def _outdated(self) -> None:
        self._view = None
        self.changes += 1
        self._stale.add(self.name)

    def add(self, claim: claims.Claim) -> None:
        """Count a claim."""
        self._count(claim, 1)
        for entry in claim.bookings:
            self.tenants.setdefault(entry.uuid, {})[claim.uid] = claim
        if claim.kind is claims.Kind.UNREADABLE:
            self.unreadable.add(claim.uid)

    def drop(self, claim: claims.Claim) -> None:
        """Count it no longer."""
        self._count(claim, -1)
        for entry in claim.bookings:
            here = self.tenants.get(entry.uuid, {})
            here.pop(claim.uid, None)
            if not here:
                self.tenants.pop(entry.uuid, None)
        self.unreadable.discard(claim.uid)

    def keep(self, hold: view.Hold, needs: Sequence[view.HostNeed]) -> None:
        """Keep what pods need of it for a job for which GPUs of it are held; nothing where there are none."""
        self.kept.pop(hold, None)
        if needs:
            self.kept[hold] = view.Kept(
                hold=hold,
                cpu_millis=sum(need.cpu_millis for need in needs),
                memory_bytes=sum(need.memory_bytes for need in needs),
                pods=len(needs),
            )

    def _count(self, claim: claims.Claim, sign: int) -> None:
        self.share += sign * claim.share
        self.cpu_millis += sign * claim.host.cpu_millis
        self.memory_bytes += sign * claim.host.memory_bytes
        self.pods += sign
        self.lasting = self.lasting.plus(claim.host, sign) if claim.lasts else self.lasting
        for entry in claim.bookings:
            self._gpus.pop(entry.uuid, None)
        self._outdated()

    def openness(self, explains: Explains) -> tuple[object, ...]:
        """Which GPUs there are, and what is closed."""
        known = () if self.agent is None else self.agent.gpus
        return self._closed(), tuple(
            (gpu.uuid, gpu.model, gpu.memory_mib, self._gpu_closed(gpu, self.tenants.get(gpu.uuid, {}), explains))
            for gpu in known
        )

    def lists(self, uid: PodUID) -> bool:
        """Return whether its agent lists a pod as tenant of a GPU."""
        return self.agent is not None and any(uid in gpu.tenants for gpu in self.agent.gpus)

    def seen(self, policy: policies.InForce, explains: Explains, *, without: claims.Claim | None = None) -> view.Node:
        """Return the node as packing sees it, without one claim: the pod's own.

        `explains` tells whether a pod is known to have finished, so that its being listed closes nothing.
        """
        if without is not None:
            return self._built(policy, explains, without)
        if self._view is None:
            self._view = self._built(policy, explains, None)
        return self._view

    def seen_anew(self, policy: policies.InForce, explains: Explains) -> view.Node:
        """As `seen`, without what was built before."""
        self._gpus.clear()
        return self._built(policy, explains, None)

    def _built(self, policy: policies.InForce, explains: Explains, without: claims.Claim | None) -> view.Node:
        known, standing = () if self.agent is None else self.agent.gpus, self._gpus if without is None else {}
        gpus = tuple([standing.get(gpu.uuid) or self._gpu_seen(gpu, policy, explains, without) for gpu in known])
        return view.Node(
            name=self.name,
            gpus=gpus,
            closed=self._closed(),
            host=self._host(without),
            # Whom the queue has let in is not refused for the sake of others.
            kept=tuple(self.kept.values()) if without is None else (),
        )

    def _closed(self) -> Cause | None:
        if self.record is None:
            return Cause.NODE_GONE
        if self.agent is None or not self.agent.ready:
            return Cause.AGENT_NOT_READY
        if not self.alive:
            return Cause.AGENT_SILENT
        return Cause.UNREADABLE if self.unreadable else None

    def _host(self, without: claims.Claim | None) -> view.Host:
        record = self.record or _NOTHING
        own = without.host if without else records.NO_NEED
        return view.Host(
            free_share=record.share - self.share + (without.share if without else 0),
            free_cpu_millis=record.cpu_millis - self.cpu_millis + own.cpu_millis,
            free_memory_bytes=record.memory_bytes - self.memory_bytes + own.memory_bytes,
            free_pods=record.pods - self.pods + (1 if without else 0),
            cpu_millis=record.cpu_millis,
            memory_bytes=record.memory_bytes,
            pods=record.pods,
            schedulable=record.schedulable,
            labels=record.labels,
            taints=record.taints,
            lasting=self.lasting,
        )

    def _gpu_seen(
        self, gpu: records.GPU, policy: policies.InForce, explains: Explains, without: claims.Claim | None
    ) -> view.GPU:
        """One GPU, as built before if nothing of it has changed."""
        if without is not None and any(entry.uuid == gpu.uuid for entry in without.bookings):
            return self._gpu(gpu, policy, explains, without)
        found = self._gpus.get(gpu.uuid)
        if found is None:
            found = self._gpus[gpu.uuid] = self._gpu(gpu, policy, explains, None)
        return found

    def _gpu(
        self, gpu: records.GPU, policy: policies.InForce, explains: Explains, without: claims.Claim | None
    ) -> view.GPU:
        claimed = self.tenants.get(gpu.uuid, {})
        own = None if without is None else without.uid
        tenants = tuple([_tenant(claim, gpu, policy) for uid, claim in claimed.items() if uid != own])
        return view.GPU(
            uuid=gpu.uuid,
            index=gpu.index,
            model=gpu.model,
            memory_mib=gpu.memory_mib,
            closed=self._gpu_closed(gpu, claimed, explains),
            tenants=tenants,
            share=sum([tenant.share for tenant in tenants]),
            booked_mib=sum([tenant.memory_mib for tenant in tenants]),
            # Whom the queue has let in is not refused for the sake of others.
            hold=self.holds.get(gpu.uuid) if without is None else None,
        )

    def _gpu_closed(self, gpu: records.GPU, claimed: dict[PodUID, claims.Claim], explains: Explains) -> Cause | None:
        excluded = self.agent is not None and gpu.uuid in self.agent.excluded
        if gpu.mode is gpunode.Mode.EXCLUDED or excluded:
            return Cause.EXCLUDED
        if gpu.mode is gpunode.Mode.MIG:
            return Cause.MIG
        if gpu.health is not gpunode.Health.HEALTHY:
            return Cause.UNHEALTHY
        if gpu.foreign_processes > 0:
            return Cause.FOREIGN_USE
        if any(uid not in claimed and not explains(uid) for uid in gpu.tenants):
            return Cause.UNEXPLAINED
        return Cause.OVERBOOKED if self.excess(gpu) is not None else None

    def excess(self, gpu: records.GPU) -> str | None:
        """Return what bound pods book on a GPU beyond what it has, in words; None: nothing."""
        here = self.tenants.get(gpu.uuid, {}).values()
        booked = [
            entry
            for claim in here
            if claim.kind is claims.Kind.BOUND
            for entry in claim.bookings
            if entry.uuid == gpu.uuid
        ]
        return booking.excess(
            shares=[entry.share for entry in booked],
            memory_mib=[entry.memory_mib for entry in booked],
            gpu_memory_mib=gpu.memory_mib,
        )


_NOTHING = records.Node(
    name=NodeName(""), share=0, cpu_millis=0, memory_bytes=0, pods=0, schedulable=False, labels={}, taints=()
)


def _tenant(claim: claims.Claim, gpu: records.GPU, policy: policies.InForce) -> view.Tenant:
    """Return a claim on this GPU. A policy that now counts the pod for more than was booked does so at once."""
    mine = next(entry for entry in claim.bookings if entry.uuid == gpu.uuid)
    predicted = None if claim.predicted is None else claim.predicted.by_gpu.get(gpu.model)
    source = None if claim.predicted is None else claim.predicted.source
    share = booking.cost(share=mine.share, predicted=predicted, packing=policy.packing(gpu.model), source=source)
    return view.Tenant(
        uid=claim.uid,
        namespace=claim.namespace,
        labels=claim.labels,
        workload_type=claim.workload_type,
        share=share,
        memory_mib=mine.memory_mib,
        predicted=predicted,
        thread_percentage=mine.thread_percentage,
        client_priority=mine.client_priority,
        promised=claim.kind is claims.Kind.EARMARK,
        suspect=claim.suspect,
    )
