"""Random histories: pods come, are packed, bound, finish and vanish; events are repeated and lists replace watches.

After every step the ledger equals its recount, and no GPU holds more than it may.
"""

import copy
from typing import Any

import hypothesis
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from cotenant_api import booking, names, packingpolicy
from cotenant_api.names import NodeName, PodUID
from cotenant_extender import records, steps
from cotenant_extender.ledger import drift, lists, views
from cotenant_extender.packing import causes, placing, rules
from cotenant_extender.queue import earmarking, order, planning, preempting
from extender import builders
from extender.builders import H200, NOW, T4

Object = dict[str, Any]

NODES = {"n0": (2, H200), "n1": (1, T4), "n2": (4, H200)}
PREDICTED = builders.prediction(h200=(35.0, 30_000, 50), t4=(70.0, 9_000, 80))


class Histories(RuleBasedStateMachine):
    """`truth` is what the API server holds; the ledger hears of it, more than once."""

    pods = Bundle("pods")

    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.version = 1
        self.truth: dict[str, Object] = {}
        self.heard: list[Object] = []
        self.listed: dict[str, set[str]] = {name: set() for name in NODES}
        self.source = builders.cluster(nodes=0)
        self.queue = planning.Queue()

    @initialize(placement=st.sampled_from(packingpolicy.Placement))
    def start(self, placement: packingpolicy.Placement) -> None:
        """Nodes of two models, and any of the placements."""
        self.source.policy_changed(builders.in_force(placement=placement))
        for name, (gpus, model) in NODES.items():
            builders.add_node(self.source, name, gpus=gpus, model=model)

    def tell(self, raw: Object) -> None:
        """The API server changes a pod, and says so."""
        self.version += 1
        raw["metadata"]["resourceVersion"] = str(self.version)
        self.heard.append(copy.deepcopy(raw))
        builders.put(self.source, raw, now=self.now)

    @rule(
        target=pods,
        share=st.sampled_from([5, 30, 40, 60, 100, 200]),
        namespace=st.sampled_from(["team", "others"]),
        notes=st.sampled_from([{}, {names.GPU_MEMORY: "60Gi"}, {names.PREDICTION: PREDICTED}, {names.GPU_MODELS: T4}]),
        priority=st.sampled_from([0, 0, 5]),
    )
    def create(self, share: int, namespace: str, notes: Object, priority: int) -> str:
        """A pod comes."""
        name = f"p{self.version}"
        self.truth[name] = builders.pod(
            name, share, namespace=namespace, annotations=dict(notes), priority=priority, created=self.now
        )
        self.tell(self.truth[name])
        return name

    @rule(refuses=st.booleans())
    def run_queue(self, refuses: bool) -> None:
        """Passes over the queue until nothing is left to do; what they want is done, or evictions are refused."""
        assert self.source.policy is not None
        for _ in range(50):
            plan = self.queue.plan(self.source, self.source.policy, now=self.now)
            for lift in plan.lifts:
                self.lift(lift)
            for eviction in plan.evictions:
                self.evict(eviction, refuses=refuses)
            if not (plan.lifts or plan.evictions or plan.cut):
                break
        self.nobody_who_fits_is_left()

    def lift(self, lift: earmarking.Lift) -> None:
        """The patch of a lift is applied, if its pod is there."""
        raw = self.truth.get(lift.record.name)
        if raw is None:
            self.source.pod_gone(lift.record.uid)
            return
        raw["spec"].pop("schedulingGates", None)
        if lift.earmark is not None:
            raw["metadata"]["annotations"][names.EARMARK] = lift.earmark.note().to_json()
        self.tell(raw)

    def evict(self, eviction: preempting.Eviction, *, refuses: bool) -> None:
        """Victims begin to leave, or a budget is against the first."""
        for victim in eviction.victims:
            assert victim.priority < eviction.preemptor.priority
            raw = self.truth.get(victim.name)
            if refuses:
                self.queue.refused(self.source, victim.uid, now=self.now)
                return
            if raw is not None:
                raw["metadata"]["deletionTimestamp"] = builders.timestamp(self.now)
                self.tell(raw)

    def nobody_who_fits_is_left(self) -> None:
        """What the queue did not try again because it failed before would have failed again."""
        for entry in self.queue.line.entries:
            (record,) = entry.members
            if record.name not in self.truth:
                continue
            if self.source.earmarks.get(record.uid) or planning.obstacle(self.source, entry, now=self.now):
                continue
            assert not rules.offers(self.source.seen(), order.request_of(record), check_host=True).fits.any()

    @rule(name=pods, confirmed=st.booleans())
    def bind(self, name: str, confirmed: bool) -> None:
        """A lifted pod is bound where it fits; perhaps its event comes later."""
        raw, uid = self.truth.get(name), PodUID(f"uid-{name}")
        if raw is None or "schedulingGates" in raw["spec"] or "nodeName" in raw["spec"]:
            return
        assert self.source.policy is not None
        record = self.source.pods[uid]
        assert record.request is not None
        with views.without(self.source, uid) as seen:
            found = placing.place(seen, record.request, self.source.known, check_host=False)
        placed = self.source.reserved.get(uid) or found
        if isinstance(placed, causes.Rejection):
            return
        self.source.reserve(uid, placed)
        if confirmed:
            raw["spec"]["nodeName"] = placed.node
            raw["metadata"]["annotations"][names.PLACEMENT] = placed.to_json()
            self.tell(raw)

    @rule(name=pods)
    def bind_fails(self, name: str) -> None:
        """It is read that a Binding did not take effect."""
        if name in self.truth and "nodeName" not in self.truth[name]["spec"]:
            self.source.release(PodUID(f"uid-{name}"))

    @rule(name=pods, message=st.sampled_from(["no port", "no volume"]))
    def report_unschedulable(self, name: str, message: str) -> None:
        """The scheduler finds no node."""
        raw = self.truth.get(name)
        if raw is not None and "schedulingGates" not in raw["spec"] and "nodeName" not in raw["spec"]:
            report = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
            raw["status"]["conditions"] = [report]
            self.tell(raw)

    @rule(name=pods, listed=st.booleans())
    def run(self, name: str, listed: bool) -> None:
        """It runs; its agent perhaps lists it."""
        raw = self.truth.get(name)
        if raw is not None and "nodeName" in raw["spec"] and raw["status"]["phase"] == "Pending":
            if listed:
                self.listed[raw["spec"]["nodeName"]].add(name)
                self.tell_agents()
            raw["status"]["phase"] = "Running"
            self.tell(raw)

    @rule(name=pods, phase=st.sampled_from(["Succeeded", "Failed"]))
    def finish(self, name: str, phase: str) -> None:
        """It ends."""
        raw = self.truth.get(name)
        if raw is not None and raw["status"]["phase"] == "Running":
            raw["status"]["phase"] = phase
            self.tell(raw)

    @rule(name=pods, missed=st.booleans())
    def delete(self, name: str, missed: bool) -> None:
        """It is gone; its event may be missed."""
        raw = self.truth.pop(name, None)
        if raw is not None and not missed:
            self.source.pod_gone(PodUID(f"uid-{name}"), last=records.pod_record(raw))

    @rule(data=st.data())
    def hear_again(self, data: st.DataObject) -> None:
        """An old event comes again."""
        if self.heard:
            builders.put(self.source, data.draw(st.sampled_from(self.heard[-20:])), now=self.now)

    @rule()
    def relist(self) -> None:
        """A list replaces what was missed."""
        self.version += 1
        found = [records.pod_record(raw) for raw in self.truth.values()]
        steps.finish(lists.pods(self.source, found, version=self.version, now=self.now))
        known = {record.name for record in self.source.pods.values()}
        assert known == set(self.truth)

    @rule()
    def tell_agents(self) -> None:
        """Agents publish whom they have: what finished or is gone, they drop."""
        for raw in self.gpunodes():
            self.source.gpunode(records.gpunode_record(raw), now=self.now)

    def gpunodes(self) -> list[Object]:
        """What the agents say now."""
        found = []
        for name, (gpus, model) in NODES.items():
            alive = {pod for pod in self.listed[name] if self.alive(pod)}
            self.listed[name] = alive
            tenants: dict[int, list[str]] = {}
            for pod in sorted(alive):
                for uuid in self.gpus_of(pod):
                    tenants.setdefault(int(uuid[-1]), []).append(pod)
            found.append(builders.gpunode(name, gpus=gpus, model=model, tenants=tenants))
        return found

    @rule()
    def read_gpunodes(self) -> None:
        """GPUNodes are read, after which nothing is in doubt."""
        found = [records.gpunode_record(raw) for raw in self.gpunodes()]
        steps.finish(lists.gpunodes(self.source, found, now=self.now))
        assert self.source.graves.doubtful == {}

    def alive(self, name: str) -> bool:
        """Whether a pod runs."""
        raw = self.truth.get(name)
        return raw is not None and raw["status"]["phase"] in ("Pending", "Running")

    def gpus_of(self, name: str) -> list[str]:
        """The GPUs of a bound pod."""
        record = records.pod_record(self.truth[name])
        return [] if record.placement is None else [gpu.uuid for gpu in record.placement.gpus]

    @rule(seconds=st.sampled_from([1.0, 25.0, 400.0]))
    def wait(self, seconds: float) -> None:
        """Time passes; agents renew their Leases."""
        self.now += seconds
        for name in NODES:
            self.source.lease(NodeName(name), self.now, now=self.now)
        self.source.tick(now=self.now)

    @rule(name=st.sampled_from(sorted(NODES)), cordoned=st.booleans())
    def cordon(self, name: str, cordoned: bool) -> None:
        """A node is cordoned or not."""
        raw = builders.node(name, gpus=NODES[name][0], unschedulable=cordoned)
        self.source.node(records.node_record(raw))

    @rule(
        utilization=st.sampled_from([70, 100, 150]),
        tenants=st.sampled_from([2, 3]),
        placement=st.sampled_from(packingpolicy.Placement),
    )
    def change_policy(self, utilization: int, tenants: int, placement: packingpolicy.Placement) -> None:
        """Another policy is in force."""
        self.source.policy_changed(
            builders.in_force(placement=placement, maxUtilizationPercent=utilization, maxTenantsPerGPU=tenants)
        )

    @invariant()
    def the_ledger_equals_its_recount(self) -> None:
        """Incremental and recomputed sums agree."""
        assert drift.differences(self.source) == []

    @invariant()
    def no_gpu_holds_more_than_it_may(self) -> None:
        """Hundredths, memory, tenants, one namespace."""
        for state in self.source.nodes.values():
            memory = {} if state.agent is None else {gpu.uuid: gpu for gpu in state.agent.gpus}
            for uuid, tenants in state.tenants.items():
                entries = [entry for claim in tenants.values() for entry in claim.bookings if entry.uuid == uuid]
                assert sum(entry.share for entry in entries) <= 100
                assert len(tenants) <= 3
                assert len({claim.namespace for claim in tenants.values()}) == 1
                assert self.source.policy is not None
                gpu = memory[uuid]
                may = booking.bookable_mib(gpu.memory_mib, self.source.policy.packing(gpu.model))
                assert sum(entry.memory_mib for entry in entries) <= may

    @invariant()
    def cached_views_are_what_a_fresh_one_would_be(self) -> None:
        """A change that forgets to drop what was built shows here."""
        before = list(self.source.seen().nodes)
        for state in self.source.nodes.values():
            state.changed()
        assert list(self.source.seen().nodes) == before


Histories.TestCase.settings = hypothesis.settings(max_examples=60, stateful_step_count=40, deadline=None)
TestHistories = Histories.TestCase


@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(
    pods=st.lists(st.tuples(st.integers(1, 100), st.sampled_from(["team", "others"]), st.integers(1, 40)), max_size=30),
    placement=st.sampled_from(packingpolicy.Placement),
)
def test_a_pod_is_refused_only_where_no_gpu_takes_it(
    pods: list[tuple[int, str, int]], placement: packingpolicy.Placement
) -> None:
    source = builders.cluster(nodes=2, gpus=2, placement=placement)
    for number, (share, namespace, gib) in enumerate(pods):
        raw = builders.pod(f"p{number}", share, namespace=namespace, annotations={names.GPU_MEMORY: f"{gib}Gi"})
        record = records.pod_record(raw)
        assert record.request is not None
        assert source.policy is not None
        found = placing.place(source.seen(), record.request, source.known)
        takes = any(
            gpu.share + share <= 100
            and gpu.booked_mib + gib * 1024 <= 143771 * 95 // 100
            and len(gpu.tenants) < 3
            and all(tenant.namespace == namespace for tenant in gpu.tenants)
            for node in source.seen().nodes
            for gpu in node.gpus
        )
        assert isinstance(found, causes.Rejection) is not takes
        if not isinstance(found, causes.Rejection):
            builders.put(source, raw)
            source.reserve(record.uid, found)
        else:
            assert sum(found.counts.values()) == 4
