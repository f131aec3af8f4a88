"""The jobs of a cluster under one policy, and what it came to. Pure; a run says nothing of where it ran."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cotenant_api import packingpolicy, pod
from cotenant_api.names import GPUModel, PodUID
from cotenant_api.packingpolicy import PackingPolicy
from cotenant_extender.packing import policies
from cotenant_predictor import devices
from cotenant_predictor.models import store
from cotenant_simulator.cluster import cases, drawing, figures, needing, paces
from cotenant_simulator.engine import conditions as under_conditions
from cotenant_simulator.engine import history, interference, jobs, ways, world
from cotenant_simulator.live import snapshot
from cotenant_simulator.twin import refusals, sites

_NOBODY: Final = PodUID("what-if")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One way to run the cluster.

    Attributes:
        policy: None: every job has whole GPUs, as without Cotenant.
    """

    name: str
    policy: PackingPolicy | None

    @property
    def shares(self) -> bool:
        """Whether jobs share GPUs under it."""
        return self.policy is not None and self.policy.spec.mode is packingpolicy.Mode.PACK


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """A job that no GPU of the cluster would ever take.

    Attributes:
        reason: the extender's word, or the operator's.
        message: why.
    """

    name: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One run.

    Attributes:
        figures: what it came to.
        needed: the fewest GPUs on which nobody would wait, by model; None: no number is enough.
        history: the whole run, of the first seed only.
        slowdowns: of the jobs that ended, in percent, rising; likewise.
    """

    plan: Plan
    seed: int
    figures: figures.Figures
    rejected: Sequence[Rejected]
    needed: Mapping[GPUModel, int] | None
    history: history.History | None
    slowdowns: Sequence[float]

    @property
    def needed_gpus(self) -> int | None:
        """Of all models."""
        return None if self.needed is None else sum(self.needed.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a run is of; it can be pickled.

    Attributes:
        nodes: the cluster.
        found: its jobs.
        model: folder of the model; None: the one that ships.
        assumed_percent: see `drawing.drawn`.
        keep: whether the history is wanted.
    """

    nodes: tuple[sites.Node, ...]
    found: tuple[cases.Case, ...]
    window: drawing.Window
    model: Path | None
    seed: int
    assumed_percent: float | None = None
    keep: bool = False


class Operator(ways.Predicted):
    """As the operator books; what is no DLJob, or is exclusive, by what it asks for."""

    def booking(self, job: jobs.Job, past: ways.Past, policy: policies.InForce) -> ways.Booking | None:
        """See `ways.Way`."""
        if isinstance(job.kind, drawing.Fixed) and job.gpus == 1:
            return ways.Booking(job.kind.share, None, job.kind.memory_mib)
        return super().booking(job, past, policy)

    def measured(self, job: jobs.Job, past: ways.Past, policy: policies.InForce) -> ways.Then:
        """See `ways.Way`."""
        if isinstance(job.kind, drawing.Fixed):
            return ways.Then.NOTHING
        return super().measured(job, past, policy)


def run(plan: Plan, setting: Setting) -> Result:
    """One run; the same arguments give the same result."""
    memory = memory_of(setting.nodes)
    speeds = interference.Interference(store.load(setting.model).colocation, interference.MPS)
    found = paces.told(setting.found, memory, speeds, until=setting.window.taken)
    given = drawing.drawn(found, memory, setting.window, seed=setting.seed, assumed_percent=setting.assumed_percent)
    policy, way = in_force(plan), way_of(plan)
    rejected = refused(given, setting.nodes, way, policy)
    named = {id(job) for job, _ in rejected}
    fits = [job for job in given if id(job) not in named]
    once = needing.Replay(jobs=fits, way=way, policy=policy, speeds=speeds)
    under = under_conditions.Conditions(spans=True)
    ran = world.World(setting.nodes, fits, way=way, policy=policy, speeds=speeds).run(under=under)
    alone = alone_of(ran, fits, setting.nodes)
    return Result(
        plan=plan,
        seed=setting.seed,
        figures=figures.of(ran, alone, until=setting.window.seconds),
        rejected=[why for _, why in rejected],
        needed=needing.fewest(once, setting.nodes),
        history=ran if setting.keep else None,
        slowdowns=sorted(figures.slowdowns(ran, alone)) if setting.keep else (),
    )


def alone_of(ran: history.History, given: Sequence[jobs.Job], nodes: Sequence[sites.Node]) -> Mapping[int, float]:
    """Return how long each job runs alone on the GPU model that it had last, by its place among those given."""
    models = {gpu.uuid: gpu.model for node in nodes for gpu in node.gpus}
    last = {span.place: span for span in sorted(ran.spans or (), key=lambda one: one.end)}
    return {place: given[place].seconds[models[span.gpu]] for place, span in last.items()}


def in_force(plan: Plan) -> policies.InForce:
    """Return the policy that the extender has. Where nothing is shared, one that places whole GPUs first fit.

    `tenancy: Label` is taken for SameNamespace: no snapshot holds labels of pods.
    """
    if not plan.shares or plan.policy is None:
        return policies.InForce(PackingPolicy(generation=0, spec=packingpolicy.Spec()))
    spec = plan.policy.spec
    if spec.tenancy is packingpolicy.Tenancy.LABEL:
        spec = spec.model_copy(update={"tenancy": packingpolicy.Tenancy.SAME_NAMESPACE, "tenancy_label": None})
    return policies.InForce(plan.policy.model_copy(update={"spec": spec}))


def way_of(plan: Plan) -> ways.Way:
    """Return how jobs are booked."""
    return Operator() if plan.shares else ways.Slot()


def nodes_of(whole: snapshot.Snapshot) -> tuple[sites.Node, ...]:
    """Return the nodes that take jobs. Where Cotenant packs, only those that its agents tell of."""
    packs = whole.policy is not None and whole.policy.spec.mode is packingpolicy.Mode.PACK
    found = []
    for node in whole.nodes:
        gpus = tuple(
            sites.GPU(uuid=gpu.uuid, model=gpu.model, memory_mib=gpu.memory_mib or devices.load()[gpu.model].memory_mib)
            for gpu in node.gpus
            if gpu.usable
        )
        if node.ready and gpus and (node.served or not packs):
            found.append(sites.Node(name=node.name, gpus=gpus))
    return tuple(found)


def memory_of(nodes: Sequence[sites.Node]) -> Mapping[GPUModel, int]:
    """Return the memory of each GPU model, in MiB; the least where GPUs of one name differ."""
    found: dict[GPUModel, int] = {}
    for gpu in (gpu for node in nodes for gpu in node.gpus):
        found[gpu.model] = min(found.get(gpu.model, gpu.memory_mib), gpu.memory_mib)
    return dict(sorted(found.items()))


def refused(
    given: Sequence[jobs.Job], nodes: Sequence[sites.Node], way: ways.Way, policy: policies.InForce
) -> list[tuple[jobs.Job, Rejected]]:
    """Who would never be placed, though the cluster were empty."""
    empty, memory = refusals.Empty(nodes, policy), memory_of(nodes)
    known: dict[object, tuple[str, str] | None] = {}
    found = []
    for job in given:
        usable = {model: memory[model] for model in job.seconds if model in memory}
        asked = way.booking(job, ways.Past(usable=usable), policy)
        key = job.kind, job.gpus, frozenset(job.seconds)
        if key not in known:
            known[key] = _why(job, asked, empty)
        why = known[key]
        if why is not None:
            found.append((job, Rejected(name=f"{job.namespace}/{job.name}", reason=why[0], message=why[1])))
    return found


def _why(job: jobs.Job, asked: ways.Booking | None, empty: refusals.Empty) -> tuple[str, str] | None:
    if asked is None:
        reason, _, message = ways.HELD.partition(": ")
        return reason, message
    demand = pod.Demand(
        uid=_NOBODY,
        namespace=job.namespace,
        name=job.name,
        container="main",
        share=asked.share,
        predicted=asked.predicted,
        memory_mib=asked.memory_mib,
        gpu_models=asked.gpu_models or frozenset(job.seconds),
        workload_type=job.workload_type,
        processes_per_gpu=1,
        gang=None,
        queued_since=None,
        minimum_run_seconds=0,
    )
    return empty.refuses(demand)
