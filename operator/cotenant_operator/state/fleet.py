"""The GPU nodes, what their agents say of each GPU, and which pods hold it. No I/O."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from cotenant_api import gpunode
from cotenant_api.names import GPUUID, GPUModel, NodeName, PodUID
from cotenant_operator.state import views
from cotenant_operator.state.observed import GPU
from cotenant_operator.state.views import Key

Keys = frozenset[Key]


class Change(NamedTuple):
    """What another state of a node changes.

    Attributes:
        holders: the DLJobs on its GPUs that changed.
        told: its pods that are refused, or refused for another reason.
        models: whether there are other GPU models in the cluster than before.
    """

    holders: Keys
    told: tuple[PodUID, ...]
    models: bool


class _Holder(NamedTuple):
    dljob: Key
    pod: Key


class Fleet:
    """The GPU nodes by name, and the pods by the GPUs that they were placed on."""

    def __init__(self) -> None:
        self._nodes: dict[NodeName, views.GPUNode] = {}
        self._holders: dict[GPUUID, dict[PodUID, _Holder]] = {}
        self._models: Counter[tuple[GPUModel, int]] = Counter()

    def take(self, node: views.GPUNode) -> Change:
        """Keep what the agent of a node says of it."""
        before, models = self._nodes.get(node.name), self.models()
        self._nodes[node.name] = node
        self._count_models(before, node)
        changed = [uuid for uuid, gpu in node.gpus.items() if before is None or before.gpus.get(uuid) != gpu]
        return Change(self.neighbours(changed), _refused_anew(before, node), self.models() != models)

    def drop(self, uid: str, name: NodeName) -> Keys:
        """Forget a node; the DLJobs on its GPUs."""
        node = self._nodes.get(name)
        if node is None or node.uid != uid:
            return frozenset()
        del self._nodes[name]
        self._count_models(node, None)
        return self.neighbours(node.gpus)

    def hold(self, key: Key, pod: views.Pod) -> None:
        """Note that a pod of a DLJob holds the GPUs that it was placed on."""
        for uuid in uuids(pod):
            self._holders.setdefault(uuid, {})[views.pod_uid(pod)] = _Holder(key, pod.meta.key)

    def release(self, pod: views.Pod) -> None:
        """Forget that a pod holds its GPUs."""
        for uuid in uuids(pod):
            held = self._holders.get(uuid, {})
            held.pop(views.pod_uid(pod), None)
            if not held:
                self._holders.pop(uuid, None)

    def neighbours(self, of: Iterable[GPUUID]) -> Keys:
        """Return the DLJobs whose pods hold these GPUs."""
        return frozenset(holder.dljob for uuid in of for holder in self._holders.get(uuid, {}).values())

    def gpus(self, pods: Iterable[views.Pod]) -> dict[GPUUID, GPU]:
        """Return what is known of the GPUs of these pods, by UUID."""
        return {uuid: self._gpu(uuid, pod.node) for pod in pods for uuid in uuids(pod)}

    def refused(self, pods: Iterable[views.Pod]) -> dict[PodUID, str]:
        """Return those of these pods that the agent of their node refuses for good, and why."""
        bound = ((views.pod_uid(pod), self._nodes.get(pod.node)) for pod in pods if pod.node is not None)
        return {uid: node.refused[uid] for uid, node in bound if node is not None and uid in node.refused}

    def models(self) -> frozenset[GPUModel]:
        """Return the GPU models in the cluster."""
        return frozenset(model for model, _ in self._models)

    def memory_of_models(self) -> dict[GPUModel, int]:
        """Return what most GPUs of a model have: an agent says nothing of others' GPUs. Of equally many, less."""
        by_number = sorted(self._models.items(), key=lambda item: (item[1], -item[0][1]))
        return {model: mib for (model, mib), _ in by_number if mib}

    def _gpu(self, uuid: GPUUID, on: NodeName | None) -> GPU:
        # What another node says of a GPU with this UUID is not believed.
        node = None if on is None else self._nodes.get(on)
        seen = None if node is None else node.gpus.get(uuid)
        listed = {} if seen is None else {tenant.pod_uid: f"{tenant.namespace}/{tenant.pod}" for tenant in seen.tenants}
        placed = {uid: str(holder.pod) for uid, holder in self._holders.get(uuid, {}).items()}
        holders = {**listed, **placed}
        if node is None:
            return GPU(seen=seen, holders=holders)
        return GPU(seen=seen, holders=holders, simulated=node.simulated, driver=node.driver, cuda=node.cuda)

    def _count_models(self, before: views.GPUNode | None, after: views.GPUNode | None) -> None:
        self._models.update(() if after is None else map(_size, after.gpus.values()))
        self._models.subtract(() if before is None else map(_size, before.gpus.values()))
        # Zero and less away: what is left is what there is.
        self._models = +self._models


def uuids(pod: views.Pod) -> tuple[GPUUID, ...]:
    """Return the GPUs that a pod was placed on."""
    return () if pod.placement is None else tuple(gpu.uuid for gpu in pod.placement.gpus)


def _refused_anew(before: views.GPUNode | None, after: views.GPUNode) -> tuple[PodUID, ...]:
    old = {} if before is None else before.refused
    return tuple(uid for uid, why in after.refused.items() if old.get(uid) != why)


def _size(gpu: gpunode.GPU) -> tuple[GPUModel, int]:
    """Return a GPU's model and memory; no memory of one that takes no pods of ours."""
    usable = gpu.mode in (gpunode.Mode.SHARED, gpunode.Mode.WHOLE)
    return gpu.model, gpu.memory_mib if usable else 0
