"""The measurement as Markdown: figures beside their bars, then who worked, then what was asked. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final

from cotenant_e2e.benchmark.dljobs import results
from cotenant_e2e.benchmark.dljobs.results import AtOnce, AtRest, Figure

PURPOSES: Final = {
    "watch": "a watch begins anew every 5 minutes, and where nothing was heard of it for 75 s",
    "list": "how many there are, every 30 minutes: as many as are known, or a deletion was missed",
    "get packingpolicies": "which model predicts, and which one waits: every 5 minutes",
    "patch packingpolicies/status": "the same, where it changed",
    "get configmaps": "measurements of jobs that have just ended, at most every 30 s for a namespace",
    "create configmaps": "the same",
    "patch configmaps": "the same",
}
"""What an operator asks that has nothing to do, by verb and resource, or by verb alone."""


def at_once(measured: AtOnce) -> list[str]:
    """Of many DLJobs at once."""
    return [
        *_figures(measured.figures()),
        "",
        f"| CPU seconds of | {' | '.join(results.PROCESSES)} | others |",
        f"|---|{'---:|' * (len(results.PROCESSES) + 1)}",
        *(_span(name, span.cpu_seconds) for name, span in measured.spans()),
        "",
        "| the operator's requests | for each DLJob |",
        "|---|---:|",
        *(
            f"| `{what}` | {count / measured.crowd.jobs:.2f} |"
            for what, count in sorted(measured.crowd.requests.items(), key=lambda item: (-item[1], item[0]))
        ),
        "",
        _of_many(measured),
    ]


def at_rest(measured: AtRest) -> list[str]:
    """Of many DLJobs that are over."""
    finished = measured.finished
    return [
        *_figures(measured.figures()),
        "",
        f"| the operator's requests at rest | in {finished.idle_seconds:.0f} s | for |",
        "|---|---:|---|",
        *(_purpose(what, count) for what, count in sorted(finished.requests.items())),
        "",
        _of_rest(measured),
    ]


def _of_many(measured: AtOnce) -> str:
    return (
        f"Kubernetes 1.36 on {results.CORES} cores for everything: control plane, extender, our kube-scheduler, the "
        f"agents of {measured.nodes} simulated nodes and the client that creates {measured.crowd.jobs:,} DLJobs, 64 at "
        "a time. Packing is paused until all are gated and no pod ends before all run "
        f"({measured.crowd.placed_seconds:.0f} s later); then all pods end at the same time, the worst case. Requests "
        "are counted by the API server's audit log, which is on. Here each DLJob waits in the queue and says so: the "
        "bar of 8 requests is for one placed at once (`tests/cluster/test_ends.py`)."
    )


def _of_rest(measured: AtRest) -> str:
    finished = measured.finished
    start = ", ".join(f"{count} `{what}`" for what, count in sorted(finished.start_requests.items())) or "nothing"
    return (
        f"Kubernetes 1.36 on {results.CORES} cores for everything, with the agents of {measured.nodes} simulated "
        f"nodes and {finished.jobs:,} DLJobs that are over, {measured.lately} of them lately. The operator is started "
        f"anew; its start took {finished.start_cpu_seconds:.1f} s of its CPU, and until it was at rest it asked: "
        f"{start}. The API server took {finished.api_server_cpu_seconds:.1f} s of CPU at rest, for all its clients."
    )


def _figures(figures: Sequence[Figure]) -> list[str]:
    return ["| | measured | bar |", "|---|---:|---:|", *(_figure(figure) for figure in figures)]


def _purpose(what: str, count: int) -> str:
    return f"| `{what}` | {count} | {PURPOSES.get(what) or PURPOSES.get(what.partition(' ')[0], 'not expected')} |"


def _figure(figure: Figure) -> str:
    value = f"{figure.value:.1f}" if figure.value < 100 else f"{figure.value:.0f}"
    shown = f"{value} {figure.unit}".strip()
    bar = "" if figure.bar is None else f"at most {figure.bar:g} {figure.unit}".strip()
    return f"| {figure.what} | {shown if figure.holds else f'**{shown}**'} | {bar} |"


def _span(name: str, cpu_seconds: Mapping[str, float]) -> str:
    spent = dict(cpu_seconds)
    named = [spent.pop(process, 0.0) for process in results.PROCESSES]
    cells = [*named, sum(spent.values())]
    return f"| {name} | {' | '.join(f'{value:.1f}' for value in cells)} |"
