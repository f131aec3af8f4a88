"""A cluster that is made up, and goes on: usage changes, jobs end, others take their places. Seeded."""

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from cotenant_api import conditions, names, places
from cotenant_cli.reading import objects as reading
from cotenant_dashboard.watching import store as stores
from cotenant_e2e.dashboard import objects
from cotenant_e2e.dashboard.objects import Figures, Job, Object, Said

KINDS: Final = (("NVIDIA-H200", "h200", 143_771), ("NVIDIA-A10", "a10", 23_028), ("Tesla-T4", "t4", 15_360))
NAMESPACES: Final = ("vision", "language", "speech", "recommend", "research", "serving")
MODELS: Final = ("resnet50", "bert-base", "whisper", "dlrm", "swin-t", "gpt2", "unet", "vit-b16", "t5-small", "lstm")
REASONS: Final = (
    ("InsufficientShare", "{gpus} GPUs hold {held} jobs with too little left"),
    ("InsufficientMemory", "{held} GPUs lack 3.1 GiB"),
    ("TenancyConflict", "{held} GPUs are held by other namespaces"),
    ("GPUModelMismatch", "{gpus} GPUs are of other models"),
    ("WaitingForTurn", "others go first"),
)
_PERCENT: Final = 100


@dataclass(slots=True)
class _Tenant:
    job: Job
    used_mib: int
    alone: int | None

    @property
    def name(self) -> str:
        """Of its DLJob."""
        return f"{self.job.namespace}/{self.job.name}"


@dataclass(slots=True)
class _GPU:
    uuid: str
    utilization: int
    tenants: list[_Tenant] = field(default_factory=list)


class World:
    """Nodes of so many GPUs, with the jobs on them and those that wait.

    Args:
        fill: told of all of it, as a watch would.
    """

    def __init__(self, fill: stores.Store, *, nodes: int, gpus: int = 8, waiting: int = 6, seed: int = 1) -> None:
        self._random = random.Random(seed)  # noqa: S311 -- made up, and the same each time
        self._nodes, self._pods = fill.nodes(), fill.pods()
        self._dljobs, self._policies = fill.dljobs(), fill.policies()
        self._number, self._now = 0, datetime.now(UTC)
        self._known: dict[str, tuple[int, list[_GPU]]] = {}
        for place in range(nodes):
            kind = min(place * len(KINDS) // max(nodes, 1), len(KINDS) - 1)
            name = f"{KINDS[kind][1]}-{place}"
            self._known[name] = (kind, [_GPU(f"GPU-{name}-{index}", 0) for index in range(gpus)])
            for gpu in self._known[name][1]:
                self._populate(gpu)
        self._list(waiting)

    def names(self) -> list[str]:
        """Of its nodes."""
        return list(self._known)

    def stir(self, nodes: int) -> None:
        """So many nodes are told of again: every GPU is used otherwise, and one job ends and another begins."""
        for name in self._random.sample(list(self._known), min(nodes, len(self._known))):
            _, gpus = self._known[name]
            self._replace(name, self._random.choice(gpus))
            for gpu in gpus:
                gpu.utilization = self._utilization(gpu)
            self.tell(name)

    def tell(self, name: str, *, ready: bool = True) -> None:
        """Tell of a node, as its agent does."""
        self._nodes.changed(name, reading.node_of(self._gpunode(name, ready=ready)))

    def add(self, namespace: str, job: str, *, node: str, index: int) -> None:
        """Place a job."""
        gpu = self._known[node][1][index]
        gpu.tenants.append(self._tenant(namespace, job, room=_PERCENT))
        self._tell_pods(node, gpu)
        self.tell(node)

    def end(self, *, node: str, index: int) -> None:
        """All jobs on a GPU end."""
        gpu = self._known[node][1][index]
        for tenant in gpu.tenants:
            self._gone(tenant)
        gpu.tenants.clear()
        self.tell(node)

    def wait(self, namespace: str, name: str, *, position: int, said: Said, minutes: int = 4) -> None:
        """Have a DLJob wait, with these words."""
        reason, message = said
        job = Job(namespace=namespace, name=name, figures=self._figures(_PERCENT), since=self._since(minutes))
        words, model = (reason, places.told(message, position)), KINDS[0][0]
        notes = {names.PREDICTION: objects.prediction(job.figures, [model])}
        self._dljobs.changed(f"{namespace}/{name}", stores.dljob_of(objects.dljob(job, model=model, waits=words)))
        self._put(objects.pod(job, annotations=notes, waits=words))

    def _list(self, waiting: int) -> None:
        self._nodes.listed({name: reading.node_of(self._gpunode(name)) for name in self._known})
        self._pods.listed({})
        self._dljobs.listed({})
        policy = objects.policy(overrides=[{"gpuModels": ["Tesla-T4"], "maxTenantsPerGPU": 2}])
        self._policies.listed({"default": stores.policy_of(policy)})
        for name, (_, gpus) in self._known.items():
            for gpu in gpus:
                self._tell_pods(name, gpu)
        count = sum(len(gpus) for _, gpus in self._known.values())
        for position in range(1, waiting + 1):
            reason, message = self._random.choice(REASONS)
            words = message.format(gpus=count, held=self._random.randint(1, max(count - 1, 1)))
            minutes = 3 * (waiting - position) + 1
            self.wait(*self._named(), position=position, said=(reason, words), minutes=minutes)
        self._nodes.failed(None)
        self._pods.failed(None)
        self._dljobs.failed(None)
        self._policies.failed(None)

    def _populate(self, gpu: _GPU) -> None:
        namespace, room = self._random.choice(NAMESPACES), _PERCENT
        for _ in range(self._random.choice((0, 1, 1, 2, 2, 2, 3, 3))):
            if room >= 8:
                gpu.tenants.append(self._tenant(namespace, self._named()[1], room=room))
                room -= gpu.tenants[-1].job.figures.share
        gpu.utilization = self._utilization(gpu)

    def _replace(self, node: str, gpu: _GPU) -> None:
        if not gpu.tenants:
            return
        gone = gpu.tenants.pop(self._random.randrange(len(gpu.tenants)))
        self._gone(gone)
        new = self._tenant(gone.job.namespace, self._named()[1], room=gone.job.figures.share)
        gpu.tenants.append(new)
        self._tell_pods(node, gpu)

    def _tenant(self, namespace: str, job: str, *, room: int) -> _Tenant:
        figures = self._figures(room)
        alone = round(figures.percent + self._random.gauss(-1, 5)) if self._random.random() < 0.35 else None
        return _Tenant(
            job=Job(namespace=namespace, name=job, figures=figures, since=self._since(30)),
            used_mib=round(figures.memory_mib * 0.8),
            alone=None if alone is None else min(max(alone, 1), _PERCENT),
        )

    def _figures(self, room: int) -> Figures:
        upper = float(min(self._random.choice((12, 18, 24, 31, 38, 45, 57, 70)), room))
        return Figures(percent=round(upper * self._random.uniform(0.6, 0.85), 1), upper=upper, memory_mib=4096)

    def _utilization(self, gpu: _GPU) -> int:
        busy = sum(tenant.job.figures.percent for tenant in gpu.tenants) * self._random.uniform(0.8, 1.15)
        return min(round(busy), _PERCENT)

    def _named(self) -> tuple[str, str]:
        self._number += 1
        return self._random.choice(NAMESPACES), f"{self._random.choice(MODELS)}-{self._number}"

    def _gpunode(self, name: str, *, ready: bool = True) -> Object:
        kind, gpus = self._known[name]
        model, _, memory_mib = KINDS[kind]
        told = [
            objects.gpu(
                gpu.uuid,
                index,
                model=model,
                memory_mib=memory_mib,
                tenants=[self._seen(tenant) for tenant in gpu.tenants],
                utilizationPercent=gpu.utilization,
                memoryUsedMiB=sum(tenant.used_mib for tenant in gpu.tenants),
            )
            for index, gpu in enumerate(gpus)
        ]
        return objects.gpunode(name, told, ready=ready)

    @staticmethod
    def _seen(tenant: _Tenant) -> Object:
        alone = {} if tenant.alone is None else {"aloneSeconds": 300, "aloneUtilizationPercent": tenant.alone}
        return objects.tenant(tenant.job, used_mib=tenant.used_mib, **alone)

    def _tell_pods(self, node: str, gpu: _GPU) -> None:
        model = KINDS[self._known[node][0]][0]
        for tenant in gpu.tenants:
            notes = {
                names.PREDICTION: objects.prediction(tenant.job.figures, [model]),
                names.PLACEMENT: objects.placement(tenant.job, node, [gpu.uuid]),
            }
            self._put(objects.pod(tenant.job, annotations=notes, node=node))
            self._dljobs.changed(tenant.name, stores.dljob_of(objects.dljob(tenant.job, model=model)))

    def _gone(self, tenant: _Tenant) -> None:
        self._pods.gone(f"{tenant.job.namespace}/{tenant.job.pod}")
        self._dljobs.gone(tenant.name)

    def _put(self, raw: Object) -> None:
        found = reading.pod_of(raw)
        if found is not None:
            self._pods.changed(f"{found.namespace}/{found.name}", found)

    def _since(self, minutes: int) -> str:
        return conditions.timestamp(self._now - timedelta(minutes=minutes))
