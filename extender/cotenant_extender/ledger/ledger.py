"""The ledger itself: events in, views and the set of waiting pods out.

A claim ends by evidence. A bound pod's: it finished, or it is gone and no GPUNode lists it, or its Node is gone. A
reservation's: the pod is seen bound or gone, or the binder read that the Binding failed. An earmark's: see `earmarks`.
"""

import bisect
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from cotenant_api import gpunode, placement
from cotenant_api.names import GPUUID, NodeName, PodUID
from cotenant_extender import records
from cotenant_extender.ledger import (
    claims,
    earmarks,
    fleets,
    graves,
    hosts,
    index,
    liveness,
    nodes,
    recency,
    runs,
    suspects,
    usage,
    waits,
)
from cotenant_extender.packing import fleet, knowledge, mix, policies, registry, view
from cotenant_extender.steps import Steps

Held = Mapping[NodeName, frozenset[GPUUID]]
NOTHING: Mapping[NodeName, Sequence[view.HostNeed]] = {}


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
        heartbeats: renewals of the agents' Leases.
        suspects: how long pods have run that may have caused a fault.
        waits: since when pods count as waiting.
        news_of_pods: which news of pods to believe.
        news_of_gpunodes: which news of GPUNodes to believe.
        asked: whom the agents of nodes want evicted, and why; an agent may name anybody.
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
        self.order: list[NodeName] = []
        self.holds: dict[view.Hold, Held] = {}
        self.touched: set[PodUID] = set()
        self.version = self.equipment = 0
        self.known = knowledge.Knowledge()
        self.hosts = hosts.Hosts()
        self.usage = usage.Usage()
        self.runs = runs.Runs()
        self.heartbeats = liveness.Heartbeats()
        self.suspects = suspects.Suspects()
        self.waits = waits.Waits()
        self.news_of_pods: recency.Recency[PodUID] = recency.Recency(gone_limit=recency.GONE_PODS)
        self.news_of_gpunodes: recency.Recency[NodeName] = recency.Recency()
        self.asked: dict[NodeName, dict[PodUID, gpunode.EvictionReason]] = {}
        self._fleets = fleets.Fleets(self.nodes, self.order, self.finished, self._describe)

    def seen(self) -> fleet.Fleet:
        """Return what packing sees of all nodes that have a GPUNode; true until the ledger changes.

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
        """Take in a pod as it is. What is older than what is known, or of a pod that is gone, changes nothing."""
        if self.news_of_pods.believes(record.uid, record, known=self.pods.get(record.uid)):
            self._take(record, now=now)

    def pod_listed(self, record: records.Pod, *, version: int, now: float) -> None:
        """Take in a pod as a list of this version has it, unless something younger was learned meanwhile."""
        if self.news_of_pods.lists(record.uid, version, known=self.pods.get(record.uid)):
            if self.graves.back(record.uid):
                self._set_claim(record.uid, None)
            self._take(record, now=now)

    def _take(self, record: records.Pod, *, now: float) -> None:
        known = self.pods.get(record.uid)
        if known is None and not record.asks and record.node is None:
            return
        record = self.hosts.observe(known, self.waits.observe(known, record, now=now))
        if known is not None and record == known:
            record = known
        self.pods[record.uid] = record
        self.runs.learn(record, known)
        self.suspects.observe(record, now=now)
        if known is None and record.pending and record.request is not None:
            self.known.mix.add(mix.demand_of(record.request))
        if record.node is not None:
            self.reserved.pop(record.uid, None)
        self.earmarks.observe(known, record, now=now)
        if record is known and self.claims.get(record.uid) == self.claim_of(record):
            # A list has all pods, and most of them are as they were: what follows would look at each again.
            return
        promised = record.uid in self.reserved or self.earmarks.get(record.uid) is not None
        if record.pending and not promised and (known is None or known.waiting != record.waiting):
            self.version += 1
        self._regroup(self.index.put(record))
        self._settle(record)
        if record.deleting or record.finished:
            self._follow(self.waits.left(record))

    def pod_gone(self, uid: PodUID, *, last: records.Pod | None = None) -> None:
        """Take out a pod that is gone; `last` is its last state, where the event carried it."""
        record = last or self.pods.get(uid)
        if not self.news_of_pods.forget(uid):
            return
        known = self.pods.pop(uid, None)
        self._regroup(self.index.remove(uid))
        self.touched.add(uid)
        self.earmarks.forget(uid)
        self.hosts.gone(uid, record)
        if known is not None:
            self._follow(self.waits.left(known))
        self.waits.gone(uid)
        reserved = self.reserved.pop(uid, None)
        if record is None:
            return
        self.runs.learn(record, known)
        if record.node is None and reserved is not None:
            # Its Binding may have arrived just before it was deleted.
            record = replace(record, node=reserved.node, placement=reserved)
        self._bury(record)

    def reconsider(self, uids: Iterable[PodUID]) -> None:
        """Look again where these pods may go: what is known of that is another."""
        for record in [self.pods[uid] for uid in uids if uid in self.pods]:
            again = self.hosts.constrained(record)
            if again is not record:
                self._replace(again)

    def _follow(self, heir: tuple[PodUID, float] | None) -> None:
        """Let a pod that waits take the place of one that leaves."""
        if heir is not None and heir[0] in self.pods:
            self._replace(waits.waiting_since(self.pods[heir[0]], heir[1]))

    def _replace(self, record: records.Pod) -> None:
        """Know another thing of a pod that waits."""
        self.pods[record.uid] = record
        self._regroup(self.index.put(record))
        self.touched.add(record.uid)
        self.version += 1

    def _regroup(self, moved: Collection[PodUID]) -> None:
        """Decide again on pods that count for their gang now, or do so no longer."""
        if moved:
            self.touched.update(moved)
            self.version += 1

    def node(self, record: records.Node) -> None:
        """Take in a Node as it is."""
        state = self._state(record.name)
        if state.record != record:
            state.record = record
            self.equipment += 1
            self._changed(state)

    def node_gone(self, name: NodeName) -> None:
        """Take out a Node that is gone, and whatever ran there with it."""
        state = self._state(name)
        state.record = None
        self.equipment += 1
        self._changed(state)
        self._unearth(state)

    def gpunode(self, record: records.GPUNode, *, now: float, tells_of: Collection[PodUID] = ()) -> None:
        """Take in a GPUNode as it is; `tells_of`: pods that were gone when it was asked for.

        What is older than what is known tells of nobody: what is known may be from before etcd was restored.
        """
        known = self._state(record.name).agent
        believed = self.news_of_gpunodes.believes(record.name, record, known=known)
        self._tell(record, believed=believed, tells_of=tells_of, now=now)

    def gpunode_listed(self, record: records.GPUNode, *, version: int, now: float) -> None:
        """Take in a GPUNode as a list of this version has it, unless something younger was learned meanwhile."""
        believed = self.news_of_gpunodes.lists(record.name, version, known=self._state(record.name).agent)
        self._tell(record, believed=believed, tells_of=self.graves.asked_on(record.name), now=now)

    def _tell(self, record: records.GPUNode, *, believed: bool, tells_of: Collection[PodUID], now: float) -> None:
        state = self._state(record.name)
        if believed:
            self.graves.told(tells_of)
            if state.agent != record:
                self._equip(state, record)
            self._judge_liveness(record.name, now=now)
        self._unearth(state)

    def _equip(self, state: nodes.NodeState, record: records.GPUNode) -> None:
        if state.agent is None:
            bisect.insort(self.order, record.name)
        before = state.openness(self.finished)
        state.agent = record
        self._ask(record)
        self.equipment += 1
        state.changed()
        self.version += 1 if state.openness(self.finished) != before else 0

    def _ask(self, record: records.GPUNode) -> None:
        asked = {uid: reason for gpu in record.gpus for uid, reason in gpu.evict}
        if asked:
            self.asked[record.name] = asked
        else:
            self.asked.pop(record.name, None)

    def gpunode_gone(self, name: NodeName, *, tells_of: Collection[PodUID] = ()) -> None:
        """Take out a GPUNode that is gone: nothing is listed there any more. `tells_of`: as for `gpunode`."""
        self.graves.told(tells_of)
        state = self._state(name)
        if state.agent is not None:
            self.order.remove(name)
        state.agent = None
        self.asked.pop(name, None)
        self.equipment += 1
        self._changed(state)
        self._unearth(state)

    def lease(self, name: NodeName, renewed: float, *, now: float) -> None:
        """Take in the Lease of a node's agent; `renewed` is by the agent's clock."""
        self.heartbeats.observe(name, renewed, now=now)
        self._judge_liveness(name, now=now)

    def lease_gone(self, name: NodeName, *, now: float) -> None:
        """Forget the Lease of a node's agent: it is gone."""
        self.heartbeats.forget(name)
        self._judge_liveness(name, now=now)

    def tick(self, *, now: float) -> None:
        """Close the nodes whose agents have fallen silent, and clear suspects that have run for long enough."""
        for name in self.heartbeats.expired(now=now):
            self._judge_liveness(name, now=now)
        for uid in self.suspects.cleared(now=now):
            if uid in self.pods:
                self._settle(self.pods[uid])

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
        self._settle(record)
        return made

    def adopt(self, uid: PodUID, placed: placement.Placement, *, now: float) -> None:
        """Take over the earmark that a former leader wrote on a pod."""
        record = self.pods[uid]
        self.earmarks.adopt(record, placed, now=now)
        self._settle(record)

    def end_earmark(self, uid: PodUID, *, now: float | None = None) -> None:
        """End an earmark; with a time, as a setback of the pod's."""
        if now is None:
            self.earmarks.drop(uid)
        else:
            self.earmarks.fail(uid, now=now)
        if uid in self.pods:
            self._settle(self.pods[uid])

    def leave(self, uid: PodUID) -> None:
        """End the earmark of a pod that kube-scheduler leaves alone."""
        self.earmarks.leave(uid)
        self._settle(self.pods[uid])

    def end_all_earmarks(self) -> None:
        """Another leader promises now."""
        held = [uid for uid, _ in self.earmarks.items()]
        self.earmarks.clear()
        for uid in held:
            if uid in self.pods:
                self._settle(self.pods[uid])

    def reserve(self, uid: PodUID, placed: placement.Placement) -> None:
        """Reserve for a Binding that is about to be sent.

        An earmark of anything else ends: others may get that meanwhile.
        """
        standing = self.earmarks.get(uid)
        if standing is not None and not claims.books_the_same(standing.placed, placed):
            self.earmarks.drop(uid)
        self.reserved[uid] = placed
        if uid in self.pods:
            self._settle(self.pods[uid])

    def release(self, uid: PodUID) -> None:
        """Give up a reservation: it is known that the Binding did not and will not happen."""
        self.reserved.pop(uid, None)
        if uid in self.pods:
            self._settle(self.pods[uid])

    def set_hold(
        self,
        hold: view.Hold,
        gpus: Mapping[NodeName, Collection[GPUUID]],
        needs: Mapping[NodeName, Sequence[view.HostNeed]] = NOTHING,
    ) -> None:
        """Keep GPUs for a job: these, and no longer those that were kept for it; another's are taken from it.

        `needs`: what its pods need of the nodes beside GPUs, which is kept, too.
        """
        self.end_hold(hold)
        for other, held in self.holds.items():
            self.holds[other] = {name: uuids.difference(gpus.get(name, ())) for name, uuids in held.items()}
        self.holds[hold] = {name: frozenset(uuids) for name, uuids in gpus.items()}
        for name, uuids in self.holds[hold].items():
            state = self._state(name)
            state.holds.update(dict.fromkeys(uuids, hold))
            state.keep(hold, needs.get(name, ()))
            self._changed(state)

    def end_hold(self, hold: view.Hold) -> None:
        """Its GPUs are free again."""
        for name, uuids in self.holds.pop(hold, {}).items():
            state = self.nodes.get(name)
            if state is not None:
                for uuid in uuids:
                    state.holds.pop(uuid, None)
                state.keep(hold, ())
                self._changed(state)

    def end_all_holds(self) -> None:
        """Another leader decides now."""
        for hold in list(self.holds):
            self.end_hold(hold)

    def offers(self, name: NodeName) -> bool:
        """Return whether a node has a GPUNode."""
        return self.agent(name) is not None

    def agent(self, name: NodeName) -> records.GPUNode | None:
        """Return the GPUNode of a node."""
        state = self.nodes.get(name)
        return None if state is None else state.agent

    def finished(self, uid: PodUID) -> bool:
        """Return whether a pod is known to have finished, so that its being listed means nothing."""
        known = self.pods.get(uid)
        return self.graves.has_finished(uid) if known is None else known.finished

    def _describe(self, made: fleet.Fleet) -> Steps[None]:
        """Find out what the placement in force asks for at every node, in steps."""
        if made.policy.spec.placement in registry.BY_SITUATION:
            yield from self.known.situations.prepare(made)

    def _bury(self, record: records.Pod) -> None:
        """Decide what becomes of a deleted pod's claim."""
        state = None if record.node is None else self.nodes.get(record.node)
        if state is not None and record.finished and state.lists(record.uid):
            self.graves.finished(record.uid, state.name)
        if state is None or state.record is None or record.placement is None or record.finished:
            self._set_claim(record.uid, None)
        else:
            self.graves.vanished(record, listed=state.lists(record.uid))
            self._settle(record)

    def _unearth(self, state: nodes.NodeState) -> None:
        """Pods that are gone, and that have ended on this node as its agent tells."""
        listed = None if state.record is None else state.lists
        for uid in self.graves.ended(state.name, listed=listed):
            self._set_claim(uid, None)
        if state.forgettable:
            self.nodes.pop(state.name, None)

    def _settle(self, record: records.Pod) -> None:
        self.touched.add(record.uid)
        if record.finished and record.node in self.nodes:
            # Its agent may list it still: that closes the GPU no longer.
            self._changed(self.nodes[record.node])
        self._set_claim(record.uid, self.claim_of(record))

    def claim_of(self, record: records.Pod) -> claims.Claim | None:
        """Return what a pod counts by all that is known of it."""
        standing = self.earmarks.get(record.uid)
        return claims.claim(
            record,
            reserved=self.reserved.get(record.uid),
            earmarked=None if standing is None else standing.placed,
            suspect=self.suspects.of(record),
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
        elif before is not None and uid not in self.pods:
            self.suspects.forget(uid)
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
        state, alive = self.nodes.get(name), self.heartbeats.alive(name, now=now)
        if state is not None and state.alive is not alive:
            state.alive = alive
            self._changed(state)
