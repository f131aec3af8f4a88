"""A thousand DLJobs at once: until all are gated, while all run, and until all are settled after their pods.

Packing is paused until all are gated, and no pod ends until all run: each time is measured by itself, and the last,
where all pods end within seconds, is the worst case.
"""

import datetime as dt
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cotenant_api import conditions, dljob
from cotenant_e2e import audit, waiting
from cotenant_e2e import client as clients
from cotenant_e2e.audit import Request
from cotenant_e2e.benchmark import field, usage
from cotenant_e2e.benchmark.dljobs import objects
from cotenant_e2e.benchmark.dljobs.place import Place
from cotenant_e2e.client import Json

STATUS = "patch dljobs/status"


@dataclass(frozen=True, kw_only=True)
class Span:
    """A while. `cpu_seconds`: of each process; `requests`: of the operator, by verb and resource."""

    seconds: float
    cpu_seconds: Mapping[str, float]
    requests: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class Crowd:
    """What a thousand DLJobs took.

    Attributes:
        jobs: how many.
        gated: from the first creation until the last DLJob was predicted and the last gated pod was there.
        running: all run, nothing is created and nothing ends.
        settled: from the last pod's end until the last DLJob had its last status.
        requests: of the operator from the first creation to the end, by verb and resource; watches aside.
        most_for_one: the most that one DLJob took.
        peak_mib: of the operator's memory.
    """

    jobs: int
    gated: Span
    placed_seconds: float
    running: Span
    settled: Span
    requests: Mapping[str, int]
    most_for_one: int
    peak_mib: float


class _Meter:
    """Measures a span from its making on."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._cpu, self._since, self.began = place.cpu_seconds(), audit.size(place.log), time.time()

    def asked(self) -> list[Request]:
        """Return what the operator has asked since."""
        return self._place.asked(self._since)

    def span(self, seconds: float) -> Span:
        """Return the span until now, of which so many seconds count."""
        cpu = usage.spent(self._cpu, self._place.cpu_seconds())
        return Span(seconds=seconds, cpu_seconds=cpu, requests=audit.counted(self.asked()))


def measure(place: Place, *, jobs: int, idle_seconds: float, report: Callable[[str], None]) -> Crowd:
    """All of it."""
    _pause(place, paused=True)
    place.settle()
    whole = _Meter(place)
    gated = _gate(place, jobs)
    report(f"{jobs} DLJobs gated after {gated.seconds:.1f} s")
    place.settle()
    placed = _place(place)
    report(f"all run {placed:.1f} s after packing began")
    place.settle()
    running = _watch(place, idle_seconds)
    settled = _end(place)
    report(f"all settled {settled.seconds:.1f} s after their pods")
    asked = [one for one in whole.asked() if one.verb != "watch"]
    return Crowd(
        jobs=jobs,
        gated=gated,
        placed_seconds=placed,
        running=running,
        settled=settled,
        requests=audit.counted(asked),
        most_for_one=most_for_one(asked),
        peak_mib=place.weigh().peak_mib,
    )


def most_for_one(asked: Sequence[Request]) -> int:
    """Return the most requests that name one DLJob, its Job or an event of it; graphs are shared and aside."""
    counts: Counter[tuple[str, str]] = Counter()
    for one in asked:
        if one.resource != "configmaps" and one.name:
            counts[one.namespace, "-".join(one.name.partition(".")[0].split("-")[:2])] += 1
    return max(counts.values(), default=0)


def _gate(place: Place, jobs: int) -> Span:
    meter = _Meter(place)
    place.traffic.create_each(objects.dljobs(jobs))

    def done() -> bool:
        return len(_pods(place)) == jobs and objects.all_true(place.dljobs(), dljob.PREDICTED)

    place.wait(done, f"{jobs} DLJobs predicted and gated")
    first: dict[tuple[str, str], float] = {}
    for one in meter.asked():
        if one.what == STATUS and one.code == 200:
            first.setdefault((one.namespace, one.name), one.seconds)
    # Times of creation are cut to whole seconds.
    last_pod = 1 + max(_seconds(pod["metadata"]["creationTimestamp"]) for pod in _pods(place))
    return meter.span(max(last_pod, *first.values()) - meter.began)


def _place(place: Place) -> float:
    began = time.time()
    _pause(place, paused=False)

    def done() -> bool:
        return all(item["status"]["phase"] == dljob.Phase.RUNNING for item in place.dljobs())

    place.wait(done, "all DLJobs running")
    return max(_since(item, dljob.PLACED) for item in place.dljobs()) - began


def _watch(place: Place, seconds: float) -> Span:
    meter = _Meter(place)
    time.sleep(seconds)
    return meter.span(seconds)


def _end(place: Place) -> Span:
    """Every pod ends, as kubelets would say it."""
    paths = [
        clients.path_of("pods", namespace=pod["metadata"]["namespace"], name=pod["metadata"]["name"])
        for pod in _pods(place)
    ]
    meter = _Meter(place)
    place.traffic.merge((f"{path}/status", objects.ended_pod()) for path in paths)
    last_end = time.time()
    place.wait(lambda: objects.all_true(place.dljobs(), dljob.COMPLETE), "all DLJobs complete")
    last = max(one.seconds for one in meter.asked() if one.what == STATUS and one.code == 200)
    return meter.span(last - last_end)


def _pause(place: Place, *, paused: bool) -> None:
    place.cluster.client.patch(field.POLICY, {"spec": {"paused": paused}})


def _pods(place: Place) -> list[Json]:
    client = place.cluster.client
    return [
        pod for namespace in objects.NAMESPACES for pod in client.items(clients.path_of("pods", namespace=namespace))
    ]


def _since(item: Json, condition_type: str) -> float:
    found = conditions.find(
        tuple(conditions.Condition.model_validate(one) for one in item["status"]["conditions"]), condition_type
    )
    if found is None:
        raise waiting.NotReadyError(f"{item['metadata']['name']} has no condition {condition_type}")
    return _seconds(found.last_transition_time)


def _seconds(text: str) -> float:
    return dt.datetime.fromisoformat(text).timestamp()
