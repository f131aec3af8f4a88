"""Ten thousand DLJobs that are over: what they cost an operator that has nothing to do."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cotenant_api import dljob
from cotenant_e2e import audit, installation, waiting
from cotenant_e2e.benchmark import usage
from cotenant_e2e.benchmark.dljobs import objects
from cotenant_e2e.benchmark.dljobs.place import SECONDS, Place
from cotenant_e2e.client import Json

WAITS = "waits"
"""A DLJob that is not over, and that a starting operator finds among those that are."""
QUIET_SECONDS = 45.0
"""What an operator has to write after its start is written, when it has asked nothing for longer than it lets
measurements wait: 30 s, looked at every 5 s."""


@dataclass(frozen=True, kw_only=True)
class Finished:
    """What DLJobs that are over cost.

    Attributes:
        jobs: how many.
        start_seconds: from the operator's start until the Job of the one DLJob that waited was made.
        start_cpu_seconds: of the operator until then.
        start_requests: of the operator from its start until it was at rest, by verb and resource.
        rss_mib, peak_mib: of the operator's memory, at rest and at most.
        idle_seconds: watched at rest for so long; the next are of that time.
        cpu_seconds: of the operator; `api_server_cpu_seconds` of the API server.
        requests: of the operator, by verb and resource.
    """

    jobs: int
    start_seconds: float
    start_cpu_seconds: float
    start_requests: Mapping[str, int]
    rss_mib: float
    peak_mib: float
    idle_seconds: float
    cpu_seconds: float
    api_server_cpu_seconds: float
    requests: Mapping[str, int]


def measure(place: Place, *, jobs: int, idle_seconds: float, report: Callable[[str], None]) -> Finished:
    """Needs a cluster in which some DLJobs have ended; the operator is started again."""
    example = next(item for item in place.dljobs() if item["status"]["phase"] == dljob.Phase.SUCCEEDED)
    place.cluster.stop_process(installation.OPERATOR)
    _fill(place, jobs, status=example["status"])
    report(f"{jobs} DLJobs that are over")
    place.traffic.create(objects.path(objects.NAMESPACES[0]), [objects.dljob(WAITS, objects.GRAPHS[0])])
    place.settle()
    since, began = audit.size(place.log), time.time()
    installation.start_operator(place.cluster)
    start_seconds = _made(place, since) - began
    start_cpu = place.cpu_seconds()[installation.OPERATOR]
    report(f"the operator has begun after {start_seconds:.1f} s")
    _rest(place, since)
    start_requests = audit.counted(place.asked(since))
    report(f"the operator is at rest; it is watched for {idle_seconds:g} s")
    before, since = place.cpu_seconds(), audit.size(place.log)
    time.sleep(idle_seconds)
    cpu = usage.spent(before, place.cpu_seconds())
    weight = place.weigh()
    return Finished(
        jobs=jobs,
        start_seconds=start_seconds,
        start_cpu_seconds=start_cpu,
        start_requests=start_requests,
        rss_mib=weight.rss_mib,
        peak_mib=weight.peak_mib,
        idle_seconds=idle_seconds,
        cpu_seconds=cpu[installation.OPERATOR],
        api_server_cpu_seconds=cpu["kube-apiserver"],
        requests=audit.counted(place.asked(since)),
    )


def _fill(place: Place, jobs: int, *, status: Json) -> None:
    """So many in all, with those that are there already."""
    missing = list(objects.dljobs(jobs))[len(place.dljobs()) :]
    place.traffic.create_each(missing)
    patch = objects.finished_status(status)
    place.traffic.merge((f"{path}/{body['metadata']['name']}/status", patch) for path, body in missing)


def _rest(place: Place, since: int) -> None:
    """Wait until the operator asks nothing any more but for watches, which begin anew now and then."""
    place.settle()
    began = time.time()

    def quiet() -> bool:
        asked = (one.seconds for one in place.asked(since) if one.verb != "watch")
        return time.time() - max(asked, default=began) >= QUIET_SECONDS

    waiting.wait_until(quiet, "an operator at rest", SECONDS, every_seconds=1.0)


def _made(place: Place, since: int) -> float:
    def made() -> float | None:
        found = [one.seconds for one in place.asked(since) if one.what == "create jobs" and one.name == f"{WAITS}-1"]
        return found[0] if found else None

    return waiting.wait_until(made, "the Job of the DLJob that waited", SECONDS, every_seconds=0.2) or 0.0
