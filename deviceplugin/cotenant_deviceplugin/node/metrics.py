"""The node agent's Prometheus metrics: what the GPUs and their tenants do, and how kubelet's calls went.

Units are Prometheus's: bytes, seconds, ratios. Everything about GPUs is read from the status when it is scraped. A
registry of its own: nothing is registered when this module is imported.
"""

from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum

import prometheus_client
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from cotenant_api import conditions, exposition, gpunode
from cotenant_api.names import GPUUID, NodeName

MIB = 1 << 20
_GPU = ("gpu_uuid", "gpu_index", "gpu_model")
_TENANT = ("namespace", "pod", "uid", "gpu_uuid")
_RPC_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """All metrics of one agent.

    Args:
        node: the node.
        version: of the agent.
        status: the newest status; None: there is none yet.
    """

    def __init__(self, node: NodeName, version: str, status: Callable[[], gpunode.Status | None]) -> None:
        self.registry = prometheus_client.CollectorRegistry()
        self._rpc = prometheus_client.Histogram(
            "cotenant_device_plugin_rpc_duration_seconds",
            "How long kubelet's calls took, by method and gRPC status",
            ("method", "result"),
            buckets=_RPC_SECONDS,
            registry=self.registry,
        )
        self._xids = prometheus_client.Counter(
            "cotenant_gpu_xid_errors",
            "Critical events that the driver told of",
            ("gpu_uuid", "xid"),
            registry=self.registry,
        )
        self._unproven = prometheus_client.Counter(
            "cotenant_mps_unproven_faults",
            "Fatal errors that the output of a GPU's MPS daemon told of and that nothing proved",
            ("gpu_uuid",),
            registry=self.registry,
        )
        self._evictions = prometheus_client.Counter(
            "cotenant_evictions",
            "Pods that the agent asked to have evicted, by reason",
            ("reason",),
            registry=self.registry,
        )
        prometheus_client.ProcessCollector(registry=self.registry)
        self.registry.register(_Status(node, version, status))

    def called(self, name: str, *, seconds: float, result: str) -> None:
        """One call of kubelet's has ended."""
        self._rpc.labels(name, result).observe(seconds)

    def xid(self, gpu: GPUUID | None, xid: int) -> None:
        """One critical event; without a GPU it is about all."""
        self._xids.labels(gpu or "", str(xid)).inc()

    def unproven_fault(self, gpu: GPUUID) -> None:
        """One fatal error more that nothing proved: no fault, or a tenant's words."""
        self._unproven.labels(gpu).inc()

    def asked_eviction(self, reason: str) -> None:
        """One pod more is to be evicted."""
        self._evictions.labels(reason).inc()

    def text(self, audience: exposition.Audience) -> bytes:
        """As Prometheus reads it, as far as this audience may."""
        return exposition.text(self.registry, audience)


class _Status(Collector):
    """The newest status as metrics."""

    def __init__(self, node: NodeName, version: str, status: Callable[[], gpunode.Status | None]) -> None:
        self._node, self._version, self._status = node, version, status

    def collect(self) -> Iterator[Metric]:
        """All families, also while there is no status: their names do not come and go."""
        status = self._status() or gpunode.Status()
        yield self._info(status)
        ready = GaugeMetricFamily("cotenant_node_ready", "Whether the node may offer shares", labels=("reason",))
        found = conditions.find(status.conditions, gpunode.READY)
        if found is not None:
            ready.add_metric((found.reason,), float(found.status is conditions.Status.TRUE))
        yield ready
        yield from _usage(status.gpus)
        health = [(gpu, gpu.health) for gpu in status.gpus]
        yield _states("cotenant_gpu_health", "Health of the GPU", health, states=gpunode.Health)
        modes = [(gpu, gpu.mode) for gpu in status.gpus]
        yield _states("cotenant_gpu_mode", "How the GPU is used", modes, states=gpunode.Mode)
        servers = [(gpu, gpu.mps) for gpu in status.gpus]
        yield _states("cotenant_gpu_mps", "State of the GPU's MPS server", servers, states=gpunode.MPS)
        yield from _tenants(status.gpus)

    def _info(self, status: gpunode.Status) -> Metric:
        info = InfoMetricFamily("cotenant_node_agent", "The agent; simulated GPUs are named as such")
        values = {
            "node": self._node,
            "version": self._version,
            "driver_version": status.driver_version or "",
            "cuda_version": status.cuda_version or "",
            "simulated": str(status.simulated).lower(),
        }
        info.add_metric((), values)
        return info


def _usage(gpus: Iterable[gpunode.GPU]) -> Iterator[Metric]:
    utilization = GaugeMetricFamily("cotenant_gpu_utilization_ratio", "Time in which any kernel ran", labels=_GPU)
    used = GaugeMetricFamily("cotenant_gpu_memory_used_bytes", "Memory in use", labels=_GPU)
    total = GaugeMetricFamily("cotenant_gpu_memory_bytes", "Memory of the GPU", labels=_GPU)
    tenants = GaugeMetricFamily("cotenant_gpu_tenants", "Pods that hold the GPU", labels=_GPU)
    foreign = GaugeMetricFamily("cotenant_gpu_foreign_processes", "Processes that no tenant explains", labels=_GPU)
    for gpu in gpus:
        labels = _labels(gpu)
        if gpu.utilization_percent is not None:
            utilization.add_metric(labels, gpu.utilization_percent / 100)
        if gpu.memory_used_mib is not None:
            used.add_metric(labels, gpu.memory_used_mib * MIB)
        total.add_metric(labels, gpu.memory_mib * MIB)
        tenants.add_metric(labels, len(gpu.tenants))
        foreign.add_metric(labels, gpu.foreign_processes)
    yield from (utilization, used, total, tenants, foreign)


def _states(name: str, text: str, found: Iterable[tuple[gpunode.GPU, StrEnum]], *, states: type[StrEnum]) -> Metric:
    """One series per state: 1 for the one that is, 0 for the others."""
    family = GaugeMetricFamily(name, text, labels=(*_GPU, "state"))
    for gpu, current in found:
        for state in states:
            family.add_metric((*_labels(gpu), state), float(state is current))
    return family


def _tenants(gpus: Iterable[gpunode.GPU]) -> Iterator[Metric]:
    info = GaugeMetricFamily(
        "cotenant_tenant_info", "Which pod holds which GPU; join others by gpu_uuid", labels=_TENANT
    )
    used = GaugeMetricFamily("cotenant_tenant_memory_used_bytes", "GPU memory of the pod's processes", labels=_TENANT)
    peak = GaugeMetricFamily("cotenant_tenant_memory_peak_bytes", "Most GPU memory that was seen", labels=_TENANT)
    limit = GaugeMetricFamily("cotenant_tenant_memory_limit_bytes", "GPU memory booked for the pod", labels=_TENANT)
    for gpu in gpus:
        for tenant in gpu.tenants:
            labels = (tenant.namespace, tenant.pod, tenant.pod_uid, gpu.uuid)
            info.add_metric(labels, 1)
            used.add_metric(labels, tenant.memory_used_mib * MIB)
            peak.add_metric(labels, tenant.memory_peak_mib * MIB)
            if tenant.memory_limit_mib is not None:
                limit.add_metric(labels, tenant.memory_limit_mib * MIB)
    yield from (info, used, peak, limit)


def _labels(gpu: gpunode.GPU) -> tuple[str, str, str]:
    return (gpu.uuid, str(gpu.index), gpu.model)
