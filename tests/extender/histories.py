"""Random histories: pods come, are packed, bound, finish and vanish; events are repeated and lists replace watches.

After every step the ledger equals its recount, no GPU holds more than it may, and the queue holds nobody back whom it
would place if it remembered nothing.
"""

import copy
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, MultipleResults, RuleBasedStateMachine, initialize, invariant, multiple, rule

from cotenant_api import booking, names, packingpolicy
from cotenant_api.names import NodeName, PodUID
from cotenant_extender import records, steps
from cotenant_extender.ledger import drift, lists, views
from cotenant_extender.packing import causes, fleet, placing, rules
from cotenant_extender.queue import earmarking, obstacles, order, passes, planning, preempting, scene
from extender import builders, forgetful, together
from extender.builders import H200, NOW, T4

Object = dict[str, Any]

SHARES = (1, 5, 7, 23, 30, 33, 40, 47, 60, 67, 99, 100, 100, 200, 300)
MODELS = st.sampled_from([{}, {names.GPU_MODELS: T4}])
MATES = st.tuples(st.sampled_from(SHARES), MODELS, st.sampled_from([0.0, 0.0, 61.0]), st.sampled_from([0, 0, 0, 5]))
"""Of a pod beside the last of its gang: hundredths, models, and by how many seconds and levels it is before that."""
HOSTS: tuple[Object, ...] = ({}, {}, {"cpu": "8"}, {"pods": "3"}, {"memory": "32Gi"})
"""What nodes have, where it is less than ever matters."""
REQUESTS: tuple[Object, ...] = ({}, {}, {}, {"cpu": "3"}, {"cpu": "6"}, {"memory": "20Gi"})
"""What a pod requests of its node, where it is more."""
OTHERS = st.lists(st.sampled_from([None, ("1", "Always"), ("3", "Always"), ("1", "Never")]), min_size=1, max_size=4)
"""CPUs that a pod without a share has of a node, and its restart policy; None: there is no such pod."""
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
        self.nodes: dict[str, tuple[int, str]] = {}
        self.listed: dict[str, set[str]] = {}
        self.services: set[str] = set()
        self.hosts: dict[str, Object] = {}
        self.spec: Object = {"tenancy": "SameNamespace"}
        self.source = builders.cluster(nodes=0)
        self.queue = planning.Queue()

    @initialize(
        spec=st.fixed_dictionaries(
            {
                "placement": st.sampled_from(packingpolicy.Placement),
                "maxGPUsPerNamespace": st.sampled_from([None, None, 1, 2, 4]),
                "tenancy": st.sampled_from(["SameNamespace", "SameNamespace", "Any"]),
                "queue": st.fixed_dictionaries(
                    {"maxWaitSeconds": st.sampled_from([10, 60, 3600]), "order": st.sampled_from(packingpolicy.Order)}
                ),
            }
        ),
        nodes=st.lists(st.tuples(st.integers(1, 4), st.sampled_from([H200, H200, T4])), min_size=1, max_size=12),
        hosts=st.lists(st.sampled_from(HOSTS), min_size=1, max_size=4),
        others=OTHERS,
    )
    def start(
        self, spec: Object, nodes: list[tuple[int, str]], hosts: list[Object], others: list[tuple[str, str] | None]
    ) -> None:
        """Nodes of two models, of some of which CPU, memory or pods are scarce; any of the placements and orders."""
        self.spec = spec
        self.source.policy_changed(builders.in_force(**spec))
        for number, (gpus, model) in enumerate(nodes):
            self.nodes[f"n{number}"] = gpus, model
            self.listed[f"n{number}"] = set()
            builders.add_node(self.source, f"n{number}", gpus=gpus, model=model)
            self.hosts[f"n{number}"] = hosts[number % len(hosts)]
            self.cordon(number, False)
        self.put_beside(others)

    def put_beside(self, others: list[tuple[str, str] | None]) -> None:
        """Pods without a share run on nodes, of which nobody knows when they end, or that never do."""
        for number in range(len(self.nodes)):
            other = others[number % len(others)]
            if other is not None:
                name, (cpu, restarts) = f"o{number}", other
                raw = builders.pod(name, 0, node=f"n{number}", phase="Running", gates=(), restartPolicy=restarts)
                raw["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
                self.truth[name] = raw
                self.tell(raw)

    def tell(self, raw: Object) -> None:
        """The API server changes a pod, and says so."""
        self.version += 1
        raw["metadata"]["resourceVersion"] = str(self.version)
        self.heard.append(copy.deepcopy(raw))
        builders.put(self.source, raw, now=self.now)

    @rule(
        target=pods,
        share=st.sampled_from(SHARES),
        namespace=st.sampled_from(["team", "team", "others"]),
        notes=st.sampled_from(
            [
                {},
                {},
                {names.GPU_MEMORY: "60Gi"},
                {names.PREDICTION: PREDICTED},
                {names.GPU_MODELS: T4},
                {names.MINIMUM_RUN_SECONDS: "30"},
                {names.SUSPECT_SECONDS: "20"},
            ]
        ),
        priority=st.sampled_from([0, 0, 0, 5, -3]),
        waited=st.sampled_from([0.0, 0.0, 9.0, 61.0]),
        size=st.sampled_from([1, 1, 1, 2, 3, 5]),
        others=st.lists(MATES, max_size=2),
        service=st.booleans(),
        spec=st.sampled_from([{}, {}, {"preemptionPolicy": "Never"}]),
        requests=st.sampled_from((*REQUESTS, {"cpu": "8"})),
    )
    def create(
        self,
        share: int,
        namespace: str,
        notes: Object,
        priority: int,
        waited: float,
        size: int,
        others: list[tuple[int, Object, float, int]],
        service: bool,
        spec: Object,
        requests: Object,
    ) -> MultipleResults[str]:
        """A pod comes, or all pods of a gang, alike or not (see `MATES`); perhaps it joined the queue some time ago."""
        name = f"p{self.version}"
        notes = notes | builders.gang(name, size) if size > 1 else notes
        made = [name if size == 1 else f"{name}-{index}" for index in range(size)]
        alike: list[tuple[int, Object, float, int]] = [(share, {}, 0.0, 0)] * size
        for each, (wanted, models, older, above) in zip(made, [*others[: size - 1], *alike], strict=False):
            since = {names.QUEUED_SINCE: builders.timestamp(self.now - waited - older)}
            self.truth[each] = builders.pod(
                each,
                wanted,
                namespace=namespace,
                annotations={**notes, **models, **since},
                priority=priority + above,
                created=self.now,
                **spec,
            )
            self.truth[each]["spec"]["containers"][0]["resources"]["requests"] |= requests
            self.tell(self.truth[each])
        if service:
            self.services.update(made)
        return multiple(*made)

    @rule(refuses=st.booleans())
    def run_queue(self, refuses: bool) -> None:
        """Passes over the queue until nothing is left to do; what they want is done, or evictions are refused."""
        assert self.source.policy is not None
        for _ in range(50):
            before, holds, seen = self.source.version, dict(self.source.holds), scene.copied(self.source.seen())
            plan = self.queue.plan(self.source, self.source.policy, now=self.now)
            if self.source.holds == holds:
                self.higher_priorities_go_first(plan, seen)
            for lift in plan.lifts:
                self.lift(lift)
            for eviction in plan.evictions:
                self.evict(eviction, refuses=refuses)
            if not (plan.lifts or plan.evictions or plan.cut) and self.source.version == before:
                break
        self.nobody_who_fits_is_left()
        most = self.source.policy.spec.queue.max_wait_seconds
        assert together.by_a_mate(self.queue.line.entries, max_wait_seconds=most, now=self.now) == []

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
                self.queue.refused(self.source, victim, now=self.now)
                return
            if raw is not None:
                raw["metadata"]["deletionTimestamp"] = builders.timestamp(self.now)
                self.tell(raw)

    def higher_priorities_go_first(self, plan: passes.Plan, seen: fleet.Fleet) -> None:
        """Who has a higher priority than all that a pass placed, and still waits, did not fit before that pass."""
        placed = [lift.record.priority for lift in plan.lifts if lift.earmark is not None]
        for entry in self.queue.line.entries if placed else ():
            (first, *others), promised = entry.members, self.source.earmarks.get(entry.members[0].uid)
            if others or promised or first.priority <= max(placed):
                continue
            if obstacles.obstacle(self.source, entry, now=self.now) is None:
                assert not rules.offers(seen, order.request_of(first), check_host=True).fits.any()

    def nobody_who_fits_is_left(self) -> None:
        """What the queue did not try again because it failed before would have failed again."""
        for entry in self.queue.line.entries:
            if any(record.name not in self.truth or self.source.earmarks.get(record.uid) for record in entry.members):
                continue
            if obstacles.obstacle(self.source, entry, now=self.now):
                continue
            assert not together.fit(self.source, entry.requests)

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

    @rule(
        name=pods,
        reason=st.sampled_from(["Unschedulable", "SchedulerError"]),
        message=st.sampled_from(["no port", "no volume"]),
    )
    def report_unschedulable(self, name: str, reason: str, message: str) -> None:
        """The scheduler finds no node, or fails to bind."""
        raw = self.truth.get(name)
        if raw is not None and "schedulingGates" not in raw["spec"] and "nodeName" not in raw["spec"]:
            report = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
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
            raw["status"] |= {"phase": "Running", "startTime": builders.timestamp(self.now)}
            self.tell(raw)

    @rule(name=pods, phase=st.sampled_from(["Succeeded", "Failed"]))
    def finish(self, name: str, phase: str) -> None:
        """It ends."""
        raw = self.truth.get(name)
        if raw is not None and raw["status"]["phase"] == "Running" and name not in self.services:
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
        for name, (gpus, model) in self.nodes.items():
            alive = {pod for pod in self.listed[name] if self.alive(pod)}
            self.listed[name] = alive
            tenants: dict[int, list[str]] = {}
            for pod in sorted(alive):
                for uuid in self.gpus_of(pod):
                    if int(uuid[-1]) < gpus:
                        tenants.setdefault(int(uuid[-1]), []).append(pod)
            found.append(builders.gpunode(name, gpus=gpus, model=model, tenants=tenants))
        return found

    @rule()
    def read_gpunodes(self) -> None:
        """GPUNodes are read, after which nothing is in doubt."""
        self.source.graves.ask()
        found = [records.gpunode_record(raw) for raw in self.gpunodes()]
        steps.finish(lists.gpunodes(self.source, found, version=1, now=self.now))
        assert self.source.graves.doubtful == {}

    def alive(self, name: str) -> bool:
        """Whether a pod runs."""
        raw = self.truth.get(name)
        return raw is not None and raw["status"]["phase"] in ("Pending", "Running")

    def gpus_of(self, name: str) -> list[str]:
        """The GPUs of a bound pod."""
        record = records.pod_record(self.truth[name])
        return [] if record.placement is None else [gpu.uuid for gpu in record.placement.gpus]

    @rule(seconds=st.sampled_from([1.0, 11.0, 61.0, 400.0]))
    def wait(self, seconds: float) -> None:
        """Time passes; agents renew their Leases."""
        self.now += seconds
        for name in self.nodes:
            self.source.lease(NodeName(name), self.now, now=self.now)
        self.source.tick(now=self.now)

    @rule(number=st.integers(0, 11), cordoned=st.booleans())
    def cordon(self, number: int, cordoned: bool) -> None:
        """A node is cordoned or not."""
        name = f"n{number % len(self.nodes)}"
        offers = self.hosts.get(name, {})
        raw = builders.node(name, gpus=self.nodes[name][0], unschedulable=cordoned, allocatable=offers)
        self.source.node(records.node_record(raw))

    @rule(number=st.integers(0, 11))
    def lose_a_gpu(self, number: int) -> None:
        """The last GPU of a node is there no more, and never comes again."""
        name = f"n{number % len(self.nodes)}"
        gpus, model = self.nodes[name]
        if gpus > 1:
            self.nodes[name] = gpus - 1, model
            self.tell_agents()

    @rule(
        utilization=st.sampled_from([70, 100, 150]),
        tenants=st.sampled_from([2, 3]),
        placement=st.sampled_from(packingpolicy.Placement),
        wait=st.sampled_from([10, 60, 3600]),
    )
    def change_policy(self, utilization: int, tenants: int, placement: packingpolicy.Placement, wait: int) -> None:
        """Another policy is in force."""
        queue = {**self.spec["queue"], "maxWaitSeconds": wait}
        self.source.policy_changed(
            builders.in_force(
                placement=placement,
                maxUtilizationPercent=utilization,
                maxTenantsPerGPU=tenants,
                maxGPUsPerNamespace=self.spec["maxGPUsPerNamespace"],
                tenancy=self.spec["tenancy"],
                queue=queue,
            )
        )

    @invariant()
    def nothing_is_held_back(self) -> None:
        """What is remembered is so."""
        assert forgetful.held_back(self.source, self.queue, now=self.now) == []

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
                assert self.spec["tenancy"] == "Any" or len({claim.namespace for claim in tenants.values()}) == 1
                assert self.source.policy is not None
                gpu = memory.get(uuid)
                if gpu is None:
                    continue
                may = booking.bookable_mib(gpu.memory_mib, self.source.policy.packing(gpu.model))
                assert sum(entry.memory_mib for entry in entries) <= may

    @invariant()
    def no_namespace_is_on_more_gpus_than_it_may(self) -> None:
        """Each GPU that is there counts once for each namespace."""
        held: dict[str, set[str]] = {}
        for state in self.source.nodes.values():
            there = [] if state.agent is None else [gpu.uuid for gpu in state.agent.gpus]
            for uuid, tenants in [(uuid, state.tenants[uuid]) for uuid in there if uuid in state.tenants]:
                for claim in tenants.values():
                    held.setdefault(claim.namespace, set()).add(uuid)
        most = self.spec.get("maxGPUsPerNamespace") or len(self.nodes) * 4
        assert all(len(uuids) <= most for uuids in held.values())

    @invariant()
    def cached_views_are_what_a_fresh_one_would_be(self) -> None:
        """A change that forgets to drop what was built shows here."""
        before = list(self.source.seen().nodes)
        for state in self.source.nodes.values():
            state.changed()
        assert list(self.source.seen().nodes) == before
