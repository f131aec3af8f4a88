"""What the extender counts, in a registry of its own."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from cotenant_api import exposition, pod
from cotenant_api.names import HUNDREDTHS, GPUModel, Namespace
from cotenant_extender.ledger import usage
from cotenant_extender.packing import occupancy

_PREFIX = "cotenant_extender"
_VERB_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_PLACEMENT_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_WAIT_BUCKETS = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0)


class Metrics:
    """Every metric; names follow Prometheus' rules. README.md lists them."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._used: dict[Namespace, tuple[float, float]] = {}
        self.verb_seconds = self._histogram("verb_seconds", "Time to answer a request.", _VERB_BUCKETS, ["verb"])
        self.requests = self._counter("requests_total", "Requests by result.", ["verb", "result"])
        self.rejections = self._counter("rejections_total", "Pods that filter refused, by reason.", ["reason"])
        self.binds = self._counter("binds_total", "Binds by result.", ["result"])
        self.binds_in_flight = self._gauge("binds_in_flight", "Bindings sent and not yet answered.")
        self.fences = self._counter("fences_total", "Writes that made requests without a reply ineffective.", [])
        self.queue_pods = self._gauge("queue_pods", "Pods that wait for a GPU.")
        self.queue_oldest_seconds = self._gauge("queue_oldest_seconds", "Age of the pod that has waited longest.")
        self.lifts = self._counter("lifts_total", "Gates lifted and earmarks renewed, by result.", ["kind", "result"])
        for kind in ("gate", "earmark", "scale-up", "question"):
            # From the start, so that the first one is an increase.
            self.lifts.labels(kind, "ok")
        self.earmarks = self._gauge("earmarks", "GPUs promised to pods that are not yet bound, in pods.")
        self.removals = self._counter("removals_total", "Pods deleted or evicted, by reason.", ["reason", "result"])
        self.evictions = self._counter("evictions_total", "Evictions for higher priorities, by result.", ["result"])
        self.scale_up_lifts = self._counter("scale_up_lifts_total", "Gates lifted for the autoscaler to see.", [])
        self.ledger_drift = self._gauge("ledger_drift", "Differences between the ledger and a recount; must be 0.")
        self.ledger_recounts = self._counter("ledger_recounts_total", "Recounts of the ledger.", [])
        self.leading = self._gauge("leading", "1 while this extender serves.")
        self.gpus = self._gauge("gpus", "GPUs by state: in_use, free, closed.", ["state"])
        self.overbooked_gpus = self._gauge(
            "overbooked_gpus", "GPUs booked beyond what they have or the policy lets; must be 0."
        )
        self.packing_efficiency = self._gauge("packing_efficiency_ratio", "Booked part of the GPUs that are in use.")
        self.share_seconds = Counter(
            "cotenant_share_seconds_total",
            "Booked hundredths of a GPU times seconds: 360,000 are a GPU-hour.",
            ["namespace"],
            registry=self.registry,
        )
        self.memory_mib_seconds = Counter(
            "cotenant_memory_mib_seconds_total",
            "Booked MiB of GPU memory times seconds.",
            ["namespace"],
            registry=self.registry,
        )
        self.placed_share = self._counter(
            "placed_share_hundredths_total",
            "Shares of predicted pods when bound: predicted (q50) and booked.",
            ["figure"],
        )
        self.pass_seconds = self._histogram("queue_pass_seconds", "Time of one pass over the queue.", _VERB_BUCKETS, [])
        self.queue_wait_seconds = self._histogram(
            "queue_wait_seconds", "From joining the queue to the lifted gate.", _WAIT_BUCKETS, []
        )
        self.placement_seconds = self._histogram(
            "placement_seconds", "From the lifted gate to the binding.", _PLACEMENT_BUCKETS, []
        )

    def occupied(self, found: occupancy.Occupancy) -> None:
        """How full the GPUs are."""
        for state, count in (("in_use", found.in_use), ("free", found.free), ("closed", found.closed)):
            self.gpus.labels(state).set(count)
        self.packing_efficiency.set(found.efficiency)

    def nobody_serves(self) -> None:
        """Take back what this extender said of the cluster: another says it now."""
        for gauge in (
            self.leading,
            self.ledger_drift,
            self.overbooked_gpus,
            self.queue_oldest_seconds,
            self.earmarks,
            self.packing_efficiency,
        ):
            gauge.set(0)
        self.gpus.clear()

    def used(self, found: usage.Usage) -> None:
        """Count what namespaces have used up to now."""
        for namespace in found.grown:
            account = found.accounts[namespace]
            gpu_seconds, byte_seconds = self._used.get(namespace, (0.0, 0.0))
            self.share_seconds.labels(namespace).inc((account.gpu_seconds - gpu_seconds) * HUNDREDTHS)
            self.memory_mib_seconds.labels(namespace).inc((account.byte_seconds - byte_seconds) / usage.BYTES_PER_MIB)
            self._used[namespace] = account.gpu_seconds, account.byte_seconds
        for namespace in found.forgotten:
            if self._used.pop(namespace, None) is not None:
                self.share_seconds.remove(namespace)
                self.memory_mib_seconds.remove(namespace)

    def placed(self, demand: pod.Demand, model: GPUModel, share: int) -> None:
        """Count a pod that was bound to a GPU of this model."""
        predicted = None if demand.predicted is None else demand.predicted.by_gpu.get(model)
        if predicted is not None:
            self.placed_share.labels("predicted").inc(predicted.utilization.q50)
            self.placed_share.labels("booked").inc(share)

    def text(self, audience: exposition.Audience) -> bytes:
        """In the text format, as far as this audience may read them."""
        return exposition.text(self.registry, audience)

    def _counter(self, name: str, text: str, labels: list[str]) -> Counter:
        return Counter(f"{_PREFIX}_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, labels: tuple[str, ...] | list[str] = ()) -> Gauge:
        return Gauge(f"{_PREFIX}_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...], labels: list[str]) -> Histogram:
        return Histogram(f"{_PREFIX}_{name}", text, labels, buckets=buckets, registry=self.registry)
