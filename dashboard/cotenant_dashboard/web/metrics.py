"""What namespaces had of GPUs, as Prometheus reads it: counters since this process began."""

from collections.abc import Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import CollectorRegistry

Seconds = Mapping[str, tuple[float, float, float]]


class _Namespaces:
    def __init__(self, seconds: Seconds) -> None:
        self._seconds = seconds

    def collect(self) -> Iterator[Metric]:
        """By namespace."""
        share = CounterMetricFamily(
            "cotenant_share_seconds",
            "Hundredths of a GPU, times seconds: allotted, and used where pods of one namespace alone have the GPU",
            labels=["namespace", "kind"],
        )
        memory = CounterMetricFamily(
            "cotenant_memory_mib_seconds", "GPU memory that was booked, in MiB, times seconds", labels=["namespace"]
        )
        for namespace, (allotted, used, mib) in self._seconds.items():
            share.add_metric([namespace, "allotted"], allotted)
            share.add_metric([namespace, "used"], used)
            memory.add_metric([namespace], mib)
        yield share
        yield memory


def text(seconds: Seconds) -> bytes:
    """The exposition."""
    registry = CollectorRegistry()
    registry.register(_Namespaces(seconds))
    return generate_latest(registry)
