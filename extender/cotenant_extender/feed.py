"""From watches into the ledger: raw objects become records, and records events. It decides nothing."""

import functools
import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import Any

from cotenant_api import errors, names, packingpolicy
from cotenant_api.names import NodeName, PodUID
from cotenant_extender import leadership, reading, records, steps, storage
from cotenant_extender.ledger import ledger, lists
from cotenant_extender.packing import jobs, policies, threads

LOG = logging.getLogger(__name__)

Object = dict[str, Any]
Clock = Callable[[], float]
Changed = Callable[[], None]


class Pods:
    """Pods of all namespaces."""

    def __init__(self, target: ledger.Ledger, clock: Clock, changed: Changed) -> None:
        self._ledger, self._clock, self._changed = target, clock, changed

    def asked(self) -> None:
        """Note that a list is about to be asked for."""
        self._ledger.news_of_pods.begin()

    def take(self, items: Iterable[records.Pod], version: int) -> steps.Steps[None]:
        """Take in all pods, in steps."""
        yield from lists.pods(self._ledger, items, version=version, now=self._clock())
        self._changed()

    def changed(self, item: Object) -> None:
        """One pod."""
        self._ledger.pod(reading.pod(item, self._ledger.pods.get), now=self._clock())
        self._changed()

    def gone(self, item: Object) -> None:
        """Take out a pod that is gone."""
        record = reading.pod(item)
        self._ledger.pod_gone(record.uid, last=record)
        self._changed()


class Nodes:
    """Nodes."""

    def __init__(self, target: ledger.Ledger, changed: Changed) -> None:
        self._ledger, self._changed = target, changed

    def take(self, items: Iterable[records.Node], _version: int) -> steps.Steps[None]:
        """Take in all nodes, in steps."""
        yield from lists.nodes(self._ledger, items)
        self._changed()

    def changed(self, item: Object) -> None:
        """One node."""
        self._ledger.node(reading.node(item))
        self._changed()

    def gone(self, item: Object) -> None:
        """Take out a Node that is gone."""
        self._ledger.node_gone(NodeName(reading.name(item)))
        self._changed()


class GPUNodes:
    """GPUNodes; one that cannot be read counts as not ready, without GPUs. The clock is that of `Leases`."""

    def __init__(self, target: ledger.Ledger, clock: Clock, changed: Changed) -> None:
        self._ledger, self._clock, self._changed = target, clock, changed

    def asked(self) -> None:
        """Note that a list is about to be asked for."""
        self._ledger.news_of_gpunodes.begin()
        self._ledger.graves.ask()

    def take(self, items: Iterable[records.GPUNode], version: int) -> steps.Steps[None]:
        """Take in all GPUNodes, in steps."""
        yield from lists.gpunodes(self._ledger, items, version=version, now=self._clock())
        self._changed()

    def changed(self, item: Object) -> None:
        """One GPUNode."""
        self._ledger.gpunode(reading.gpunode(item), now=self._clock())
        self._changed()

    def gone(self, item: Object) -> None:
        """Take out a GPUNode that is gone."""
        self._ledger.gpunode_gone(NodeName(reading.name(item)))
        self._changed()


class Storage:
    """PersistentVolumeClaims, PersistentVolumes or StorageClasses.

    Args:
        kind: which of them.
        read: makes their records.
    """

    def __init__(
        self,
        target: ledger.Ledger,
        kind: type[storage.Stored],
        read: Callable[[Object], storage.Stored],
        changed: Changed,
    ) -> None:
        self._ledger, self._kind, self._read, self._changed = target, kind, read, changed

    def take(self, items: Iterable[storage.Stored], _version: int) -> steps.Steps[None]:
        """Take in all objects of the kind, in steps; what the list lacks is gone."""
        volumes, keys = self._ledger.hosts.volumes, set()
        for count, item in enumerate(items, start=1):
            keys.add(item.key)
            self._concerns(volumes.put(item))
            if count % lists.PER_STEP == 0:
                yield
        self._concerns(volumes.retain(self._kind, keys))

    def changed(self, item: Object) -> None:
        """One object."""
        self._concerns(self._ledger.hosts.volumes.put(self._read(item)))

    def gone(self, item: Object) -> None:
        """Take out an object that is gone."""
        self._concerns(self._ledger.hosts.volumes.remove(self._kind, self._read(item).key))

    def _concerns(self, uids: Collection[PodUID]) -> None:
        """Most objects concern no pod that waits."""
        if uids:
            self._ledger.reconsider(uids)
            self._changed()


class Leases:
    """Leases of the release namespace: kube-scheduler's, and those of the node agents.

    The clock says when a renewal was observed, and never goes back.
    """

    def __init__(self, target: ledger.Ledger, leader: leadership.Leadership, clock: Clock, changed: Changed) -> None:
        self._ledger, self._leader, self._clock, self._changed = target, leader, clock, changed

    def take(self, items: Iterable[records.Lease], _version: int) -> steps.Steps[None]:
        """Take in all Leases, in steps; that of kube-scheduler last."""
        found = list(items)
        agents = {name: lease.renewed for lease in found if (name := _agent_of(lease)) is not None}
        yield from lists.leases(self._ledger, agents, now=self._clock())
        self._leader.observe(next((lease for lease in found if lease.name == names.SCHEDULER_LEASE), None))
        self._changed()

    def changed(self, item: Object) -> None:
        """One Lease."""
        lease = reading.lease(item)
        name = _agent_of(lease)
        if name is not None:
            self._ledger.lease(name, lease.renewed, now=self._clock())
        elif lease.name == names.SCHEDULER_LEASE:
            self._leader.observe(lease)
            self._changed()

    def gone(self, item: Object) -> None:
        """Take out a Lease that is gone."""
        lease = reading.lease(item)
        name = _agent_of(lease)
        if name is not None:
            self._ledger.lease_gone(name, now=self._clock())
        elif lease.name == names.SCHEDULER_LEASE:
            self._leader.observe(None)
        self._changed()


class Policies:
    """The PackingPolicy. One that cannot be read leaves the one before in force, whole.

    Args:
        learned: reads what was learned of jobs together; asked once, when a policy needs it first. By default, what
            ships.

    Attributes:
        raw: the object as it stands.
        error: why it is not in force.
    """

    def __init__(
        self, target: ledger.Ledger, changed: Changed, *, learned: Callable[[], jobs.Speeds] | None = None
    ) -> None:
        self._ledger, self._changed, self._learned = target, changed, learned or shipped
        self.raw: Object | None = None
        self.error: errors.InvalidInputError | None = None

    def take(self, items: Iterable[Object], _version: int) -> steps.Steps[None]:
        """Take in all policies, at once: there is one name that counts."""
        yield from ()
        found = next((item for item in items if reading.name(item) == packingpolicy.NAME), None)
        if found is None:
            self._forget()
        else:
            self.changed(found)

    def changed(self, item: Object) -> None:
        """One policy."""
        if reading.name(item) != packingpolicy.NAME:
            return
        self.raw, self.error = item, None
        try:
            policy = reading.policy(item)
            self._know(policy.spec)
        except errors.InvalidInputError as error:
            self.error = error
            LOG.warning("PackingPolicy %s is not applied: %s", packingpolicy.NAME, error)
        else:
            standing = self._ledger.policy
            if standing is None or standing.generation != policy.generation or standing.spec != policy.spec:
                self._ledger.policy_changed(policies.InForce(policy))
                LOG.info("PackingPolicy %s: generation %d in force", packingpolicy.NAME, policy.generation)
        self._changed()

    def gone(self, item: Object) -> None:
        """Take in that a policy is gone."""
        if reading.name(item) == packingpolicy.NAME:
            self._forget()

    def _know(self, spec: packingpolicy.Spec) -> None:
        """Have what a policy needs to know.

        Raises:
            InvalidInputError: what was learned cannot be read.
        """
        if self._ledger.known.speeds is None and threads.needs_speeds(spec):
            self._ledger.known = replace(self._ledger.known, speeds=self._learned())

    def _forget(self) -> None:
        self.raw, self.error = None, None
        self._ledger.policy = None
        self._changed()


@functools.cache
def shipped() -> jobs.Speeds:
    """Return what ships. Imported here: most policies never need it, and reading it takes long."""
    from cotenant_extender.packing import speeds
    from cotenant_predictor.models import store

    return speeds.Predicted(store.load().colocation)


def _agent_of(lease: records.Lease) -> NodeName | None:
    prefix = names.AGENT_LEASE_PREFIX
    return NodeName(lease.name.removeprefix(prefix)) if lease.name.startswith(prefix) else None
