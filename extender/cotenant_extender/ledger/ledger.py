"""The ledger itself: events in, views and the set of waiting pods out.

A claim ends by evidence. A bound pod's: it finished, or it is gone and no GPUNode lists it, or its Node is gone. A
reservation's: the pod is seen bound or gone, or the binder read that the Binding failed. An earmark's: see `earmarks`.
"""

import bisect
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from cotenant_api import gpunode, packingpolicy, placement
from cotenant_api.names import GPUUID, NodeName, PodUID
from cotenant_extender import records
from cotenant_extender.ledger import claims, earmarks, fleets, graves, hosts, index, nodes, runs, usage
from cotenant_extender.packing import fleet, knowledge, mix, policies, view
from cotenant_extender.steps import Steps

Held = Mapping[NodeName, frozenset[GPUUID]]

GONE_LIMIT = 20_000
"""Deleted pods whose late events are still recognised."""


class Ledger:
    """Pods, nodes, GPUs and what counts where.

    Attributes:
        policy: the policy in force; None until one was read.
        pods: every living pod that asks for a share or is bound.
        graves: pods that are gone but not yet known to have ended on their nodes.
        index: pods that wait, gangs, and placed pods whose condition does not say so yet.
        nodes: what is known of each node.
        order: names of the nodes that have a GPUNode, sorted.
        holds: which GPUs are kept for whom.
        touched: pods of which something changed since whoever looks at them cleared it.
        version: grows with every event after which something may fit, or must be decided, that did not before.
        equipment: grows whenever a Node or a GPUNode is another.
        known: what was learned of the pods that came.
        hosts: where waiting pods may go beside what their spec says.
        usage: what namespaces have booked, and for how long.
        runs: how long pods ran that have finished.
    """

    def __init__(self) -> None:
        self.policy: policies.InForce | None = None
        self.pods: dict[PodUID, records.Pod] = {}
        self.graves = graves.Graves()
        self.index = index.Index()
        self.earmarks = earmarks.Earmarks()
        self.reserved: dict[PodUID, placement.Placement] = {}
        self.claims: dict[PodUID, claims.Claim] = {}
        self.nodes: dict[NodeName, nodes.NodeState] = {}
        self.leases: dict[NodeName, float] = {}
        self.order: list[NodeName] = []
        self.holds: dict[view.Hold, Held] = {}
        self.touched: set[PodUID] = set()
        self.version = self.equipment = 0
        self.known = knowledge.Knowledge()
        self.hosts = hosts.Hosts()
        self.usage = usage.Usage()
        self.runs = runs.Runs()
        self._gone: OrderedDict[PodUID, None] = OrderedDict()
        self._fleets = fleets.Fleets(self.nodes, self.order, self.finished, self._describe)
        self._no_expiry_before = 0.0

    def seen(self) -> fleet.Fleet:
        """What packing sees of all nodes that have a GPUNode; true until the ledger changes.

        Raises:
            ValueError: there is no policy.
        """
        if self.policy is None:
            raise ValueError("without a PackingPolicy there is nothing to be seen")
        return self._fleets.current(self.policy)

    @property
    def behind(self) -> int:
        """How many nodes have to be read before `seen` can answer; 0 without a policy."""
        return 0 if self.policy is None else self._fleets.behind(self.policy)

    def advance(self) -> None:
        """Do one step of what `seen` would have to do."""
        if self.policy is not None:
            self._fleets.advance(self.policy)

    def pod(self, record: records.Pod, *, now: float) -> None:
        """A pod as it is. What is older than what is known, or of a pod that is gone, changes nothing."""
        known = self.pods.get(record.uid)
        if record.uid in self._gone or (known is not None and record.version < known.version):
            return
        if known is None and not record.asks and record.node is None:
            return
        record = self.pods[record.uid] = self.hosts.observe(known, record)
        self.runs.learn(record, known)
        if known is None and record.pending and record.request is not None:
            self.known.mix.add(mix.demand_of(record.request))
        if record.node is not None:
            self.reserved.pop(record.uid, None)
        self.earmarks.observe(record, now=now)
        promised = record.uid in self.reserved or self.earmarks.get(record.uid) is not None
        if record.pending and not promised and (known is None or known.waiting != record.waiting):
            self.version += 1
        self.index.put(record)
        self._settle(record)

    def pod_gone(self, uid: PodUID, *, last: records.Pod | None = None) -> None:
        """A pod is gone; `last` is its last state, where the event carried it."""
        record = last or self.pods.get(uid)
        if uid in self._gone:
            return
        self._gone[uid] = None
        while len(self._gone) > GONE_LIMIT:
            self._gone.popitem(last=False)
        known = self.pods.pop(uid, None)
        self.index.remove(uid)
        self.touched.add(uid)
        self.earmarks.forget(uid)
        self.hosts.gone(uid, record)
        reserved = self.reserved.pop(uid, None)
        if record is None:
            return
        self.runs.learn(record, known)
        if record.node is None and reserved is not None:
            # Its Binding may have arrived just before it was deleted.
            record = replace(record, node=reserved.node, placement=reserved)
        self._bury(record)

    def reconsider(self, uids: Iterable[PodUID]) -> None:
        """What is known of where these pods may go is another."""
        for record in [self.pods[uid] for uid in uids if uid in self.pods]:
            again = self.hosts.constrained(record)
            if again is not record:
                self.pods[record.uid] = again
                self.index.put(again)
                self.touched.add(record.uid)
                self.version += 1

    def node(self, record: records.Node) -> None:
        """A Node as it is."""
        state = self._state(record.name)
        if state.record != record:
            state.record = record
            self.equipment += 1
            self._changed(state)

    def node_gone(self, name: NodeName) -> None:
        """A Node is gone, and whatever ran there with it."""
        state = self._state(name)
        state.record = None
        self.equipment += 1
        self._changed(state)
        self._unearth(state, fresh=True)

    def gpunode(self, record: records.GPUNode, *, now: float, fresh: bool = False) -> None:
        """A GPUNode as it is; `fresh`: it was read just now, and so tells of every pod that is gone.

        What is older than what is known changes nothing, but confirms that what is known is fresh, too.
        """
        state = self._state(record.name)
        if state.agent is None:
            bisect.insort(self.order, record.name)
        if state.agent is None or record.version >= state.agent.version:
            before = state.openness(self.finished)
            state.agent = record
            self.equipment += 1
            state.changed()
            self.version += 1 if state.openness(self.finished) != before else 0
            self._judge_liveness(record.name, now=now)
        self._unearth(state, fresh=fresh)

    def gpunode_gone(self, name: NodeName) -> None:
        """A GPUNode is gone: nothing is listed there any more."""
        state = self._state(name)
        if state.agent is not None:
            self.order.remove(name)
        state.agent = None
        self.equipment += 1
        self._changed(state)
        self._unearth(state, fresh=True)

    def lease(self, name: NodeName, renewed: float, *, now: float) -> None:
        """The Lease of a node's agent. A clock that runs ahead counts as ours."""
        self.leases[name] = min(renewed, now)
        self._judge_liveness(name, now=now)

    def lease_gone(self, name: NodeName, *, now: float) -> None:
        """The Lease of a node's agent is gone."""
        self.leases.pop(name, None)
        self._judge_liveness(name, now=now)

    def tick(self, *, now: float) -> None:
        """Time has passed: Leases may have expired."""
        if now < self._no_expiry_before:
            return
        for name in self.order:
            self._judge_liveness(name, now=now)
        alive = (self.leases.get(name, 0.0) for name in self.order if self.nodes[name].alive)
        # Renewals only put expiries off; a Lease that comes alive later is judged when it comes.
        self._no_expiry_before = min(alive, default=now) + gpunode.LEASE_SECONDS

    def policy_changed(self, policy: policies.InForce) -> None:
        """Another policy is in force, whole, from the next placement on."""
        self.policy = policy
        for state in self.nodes.values():
            state.changed()
        self.version += 1

    def earmark(self, uid: PodUID, placed: placement.Placement, *, now: float) -> earmarks.Earmark:
        """Promise GPUs to a pod that waits."""
        record = self.pods[uid]
        made = self.earmarks.put(record, placed, now=now)
        self.hosts.tries.began(uid)
        self._settle(record)
        return made

    def adopt(self, uid: PodUID, placed: placement.Placement, *, now: float) -> None:
        """Take over the earmark that a former leader wrote on a pod."""
        record = self.pods[uid]
        self.earmarks.adopt(record, placed, now=now)
        self._settle(record)

    def end_earmark(self, uid: PodUID, *, now: float | None = None) -> None:
        """An earmark ends; with a time, as a setback of the pod's."""
        if now is None:
            self.earmarks.drop(uid)
        else:
            self.earmarks.fail(uid, now=now)
            self.hosts.tries.ended(uid)
        if uid in self.pods:
            self._settle(self.pods[uid])

    def end_all_earmarks(self) -> None:
        """Another leader promises now."""
        held = [uid for uid, _ in self.earmarks.items()]
        self.earmarks.clear()
        for uid in held:
            if uid in self.pods:
                self._settle(self.pods[uid])

    def reserve(self, uid: PodUID, placed: placement.Placement) -> None:
        """A Binding is about to be sent. An earmark of anything else ends: others may get that meanwhile."""
        standing = self.earmarks.get(uid)
        if standing is not None and not earmarks.books_the_same(standing.placed, placed):
            self.earmarks.drop(uid)
        self.reserved[uid] = placed
        if uid in self.pods:
            self._settle(self.pods[uid])

    def release(self, uid: PodUID) -> None:
        """It is known that the Binding did not and will not happen."""
        self.reserved.pop(uid, None)
        if uid in self.pods:
            self._settle(self.pods[uid])

    def set_hold(self, hold: view.Hold, gpus: Mapping[NodeName, Collection[GPUUID]]) -> None:
        """Keep GPUs for a job: these, and no longer those that were kept for it; another's are taken from it."""
        self.end_hold(hold)
        for other, held in self.holds.items():
            self.holds[other] = {name: uuids.difference(gpus.get(name, ())) for name, uuids in held.items()}
        self.holds[hold] = {name: frozenset(uuids) for name, uuids in gpus.items()}
        for name, uuids in self.holds[hold].items():
            state = self._state(name)
            state.holds.update(dict.fromkeys(uuids, hold))
            self._changed(state)

    def end_hold(self, hold: view.Hold) -> None:
        """Its GPUs are free again."""
        for name, uuids in self.holds.pop(hold, {}).items():
            state = self.nodes.get(name)
            if state is not None:
                for uuid in uuids:
                    state.holds.pop(uuid, None)
                self._changed(state)

    def end_all_holds(self) -> None:
        """Another leader decides now."""
        for hold in list(self.holds):
            self.end_hold(hold)

    def offers(self, name: NodeName) -> bool:
        """Whether a node has a GPUNode."""
        state = self.nodes.get(name)
        return state is not None and state.agent is not None

    def finished(self, uid: PodUID) -> bool:
        """Whether a pod is known to have finished, so that its being listed means nothing."""
        known = self.pods.get(uid)
        return self.graves.has_finished(uid) if known is None else known.finished

    def _describe(self, made: fleet.Fleet) -> Steps[None]:
        """Find out what the placement in force asks for at every node, in steps."""
        if made.policy.spec.placement is packingpolicy.Placement.INTERFERENCE:
            yield from self.known.situations.prepare(made)

    def _bury(self, record: records.Pod) -> None:
        """What becomes of a deleted pod's claim."""
        state = None if record.node is None else self.nodes.get(record.node)
        if state is not None and record.finished and state.lists(record.uid):
            self.graves.finished(record.uid, state.name)
        if state is None or state.record is None or record.placement is None or record.finished:
            self._set_claim(record.uid, None)
        else:
            self.graves.vanished(record, listed=state.lists(record.uid))
            self._settle(record)

    def _unearth(self, state: nodes.NodeState, *, fresh: bool) -> None:
        """Pods that are gone, and that have ended on this node as its agent tells."""
        listed = None if state.record is None else state.lists
        for uid in self.graves.ended(state.name, listed=listed, fresh=fresh):
            self._set_claim(uid, None)
        if state.forgettable:
            self.nodes.pop(state.name, None)

    def _settle(self, record: records.Pod) -> None:
        self.touched.add(record.uid)
        if record.finished and record.node in self.nodes:
            # Its agent may list it still: that closes the GPU no longer.
            self._changed(self.nodes[record.node])
        standing = self.earmarks.get(record.uid)
        self._set_claim(
            record.uid,
            claims.claim(
                record,
                reserved=self.reserved.get(record.uid),
                earmarked=None if standing is None else standing.placed,
            ),
        )

    def _set_claim(self, uid: PodUID, claim: claims.Claim | None) -> None:
        before = self.claims.get(uid)
        if before == claim:
            return
        self.claims.pop(uid, None)
        if before is not None:
            self.usage.count(before, -1)
        if claim is not None:
            self.usage.count(claim, 1)
        if before is not None and (claim is None or not before.counts_like(claim)):
            self.version += 1
        if before is not None:
            state = self._state(before.node)
            state.drop(before)
            if state.forgettable and (claim is None or claim.node != before.node):
                del self.nodes[state.name]
        if claim is not None:
            self.claims[uid] = claim
            self._state(claim.node).add(claim)

    def _state(self, name: NodeName) -> nodes.NodeState:
        found = self.nodes.get(name)
        if found is None:
            found = self.nodes[name] = nodes.NodeState(name, self._fleets.stale)
        return found

    def _changed(self, state: nodes.NodeState) -> None:
        state.changed()
        self.version += 1

    def _judge_liveness(self, name: NodeName, *, now: float) -> None:
        state = self.nodes.get(name)
        if state is None:
            return
        alive = now < self.leases.get(name, 0.0) + gpunode.LEASE_SECONDS
        if state.alive is not alive:
            state.alive = alive
            self._no_expiry_before = min(self._no_expiry_before, now)
            self._changed(state)
