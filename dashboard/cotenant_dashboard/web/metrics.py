"""What namespaces used of GPUs, as Prometheus reads it: counters since this process began.

What is booked, the extender counts.
"""

from collections.abc import Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import CollectorRegistry

Seconds = Mapping[str, tuple[float, float]]


class _Namespaces:
    def __init__(self, seconds: Seconds) -> None:
        self._seconds = seconds

    def collect(self) -> Iterator[Metric]:
        """By namespace."""
        used = CounterMetricFamily(
            "cotenant_used_share_seconds",
            "Utilization of GPUs that pods of one namespace alone have, in hundredths of a GPU, times seconds",
            labels=["namespace"],
        )
        known = CounterMetricFamily(
            "cotenant_attributed_share_seconds",
            "Booked hundredths of those GPUs, times seconds: what the other is to be compared with",
            labels=["namespace"],
        )
        for namespace, (of_use, of_shares) in self._seconds.items():
            used.add_metric([namespace], of_use)
            known.add_metric([namespace], of_shares)
        yield used
        yield known


def text(seconds: Seconds) -> bytes:
    """Return the exposition."""
    registry = CollectorRegistry()
    registry.register(_Namespaces(seconds))
    return generate_latest(registry)
