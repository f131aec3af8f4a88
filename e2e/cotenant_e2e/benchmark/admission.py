"""What it takes to create a pod that asks for no share: without Cotenant, with all its objects, with some missing.

Nothing of ours runs: what is measured is what the API server does by our objects. Requests are dry runs, which
admission judges as it does others and which nobody has to clear up; so what etcd takes is not in the times.
"""

import contextlib
import http.client
import itertools
import json
import socket
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from cotenant_api import errors
from cotenant_e2e import client as clients
from cotenant_e2e import components, installation, missing
from cotenant_e2e.benchmark import usage
from cotenant_e2e.client import Json
from cotenant_e2e.cluster import Cluster

NOTHING: Final = "nothing of Cotenant"
EVERYTHING: Final = "everything"
ABSENT: Final[Mapping[str, Sequence[Json]]] = {
    NOTHING: list(itertools.chain.from_iterable(missing.GROUPS.values())),
    EVERYTHING: (),
    **{f"everything but the {group}": gone for group, gone in missing.GROUPS.items()},
}
"""What is gone in each case."""
WARM: Final = 200
"""Requests before the clock runs: the API server has just started."""
_PATH: Final = f"{clients.path_of('pods', namespace='default')}?dryRun=All"
_POD: Final = {"spec": {"containers": [{"name": "main", "image": "none"}]}}


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One case, measured once, in milliseconds a request. `cpu`: of the API server."""

    median: float
    p99: float
    cpu: float


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Every case, in turns.

    Attributes:
        turns: of each case, in the order in which all cases took theirs.
        requests: of each turn. `refused`: of all of them.
    """

    turns: Mapping[str, Sequence[Turn]]
    requests: int
    refused: int

    def to_object(self) -> Mapping[str, Any]:
        """Return it as JSON object."""
        return {"v": 1, **asdict(self)}

    def ratios(self, case: str, of: Callable[[Turn], float]) -> list[float]:
        """Return the figures of a case as parts of those with everything there, turn by turn."""
        pairs = zip(self.turns[case], self.turns[EVERYTHING], strict=True)
        return [of(turn) / of(whole) for turn, whole in pairs]


def measure(cluster: Cluster, *, requests: int, turns: int, report: Callable[[str], None]) -> Measured:
    """Measure all cases in turns on a control plane that has nothing of ours."""
    found: dict[str, list[Turn]] = {case: [] for case in ABSENT}
    refused = 0
    for number in range(1, turns + 1):
        for case, gone in ABSENT.items():
            installation.apply_manifests(cluster)
            missing.remove(cluster, gone)
            missing.wait_until_judged(cluster, gone)
            turn, failed = _turn(cluster, requests)
            found[case].append(turn)
            refused += failed
            report(f"turn {number} of {turns}: {case}: median {turn.median:.2f} ms")
    return Measured(turns=found, requests=requests, refused=refused)


def _turn(cluster: Cluster, requests: int) -> tuple[Turn, int]:
    pids = {components.API_SERVER: cluster.process(components.API_SERVER).pid}
    usage.settle(pids)
    with _asking(cluster) as ask:
        for _ in range(WARM):
            ask()
        before = usage.cpu_seconds(pids)
        answers = [ask() for _ in range(requests)]
        spent = usage.spent(before, usage.cpu_seconds(pids))[components.API_SERVER]
    times = sorted(milliseconds for milliseconds, _ in answers)
    turn = Turn(
        median=statistics.median(times), p99=times[int(0.99 * (len(times) - 1))], cpu=1e3 * spent / len(answers)
    )
    return turn, sum(not taken for _, taken in answers)


@contextlib.contextmanager
def _asking(cluster: Cluster) -> Iterator[Callable[[], tuple[float, bool]]]:
    """Yield what sends a request, always on one connection, and returns its milliseconds and if the pod was taken."""
    connection = http.client.HTTPSConnection(
        urlsplit(cluster.server).netloc, context=cluster.client.tls, timeout=cluster.client.timeout_seconds
    )
    headers = {"Content-Type": "application/json"}
    if cluster.client.token:
        headers["Authorization"] = f"Bearer {cluster.client.token}"
    numbers = itertools.count()

    def ask() -> tuple[float, bool]:
        body = json.dumps({"metadata": {"name": f"pod-{next(numbers)}"}, **_POD})
        began = time.perf_counter()
        try:
            connection.request("POST", _PATH, body, headers)
            answer = connection.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise errors.TemporaryError(f"POST {_PATH}: {error!r}", delay_seconds=1) from error
        return 1e3 * (time.perf_counter() - began), answer.status == http.client.CREATED

    with contextlib.closing(connection):
        connection.connect()
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield ask


def lines(measured: Measured, *, cores: int) -> list[str]:
    """Return the table, with its conditions."""
    turns = len(measured.turns[EVERYTHING])
    return [
        "| what is there | median ms | p99 ms | API server's CPU, ms | ratio of medians to everything | of CPU |",
        "|---|---:|---:|---:|---|---|",
        *(_row(measured, case) for case in ABSENT),
        "",
        (
            f"A pod that asks for no share, created {measured.requests} times as a dry run, one after the other. "
            f"Medians of {turns} turns, in which the API server is started again for each case; ratios within a turn: "
            f"median, least to most. {measured.refused} requests were refused. One real kube-apiserver and etcd, "
            f"nothing of ours runs, {cores} cores for everything."
        ),
    ]


def _row(measured: Measured, case: str) -> str:
    turns = measured.turns[case]
    figures = (
        statistics.median(turn.median for turn in turns),
        statistics.median(turn.p99 for turn in turns),
        statistics.median(turn.cpu for turn in turns),
    )
    ratios = (measured.ratios(case, lambda turn: turn.median), measured.ratios(case, lambda turn: turn.cpu))
    return f"| {case} | {' | '.join(f'{one:.2f}' for one in figures)} | {' | '.join(map(_spread, ratios))} |"


def _spread(ratios: Sequence[float]) -> str:
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
