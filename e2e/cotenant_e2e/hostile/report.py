"""What was measured, as tables. Pure."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from cotenant_e2e.hostile import measured, verdict
from cotenant_e2e.hostile.honest import Wait
from cotenant_e2e.hostile.measured import Soaked, Waits
from cotenant_e2e.hostile.soak import GPUS_PER_NAMESPACE

_BESIDE: Final = "beside a hostile namespace"


def lines(found: Soaked, *, cores: int) -> list[str]:
    """Return the tables and their conditions."""
    series = (
        ("DLJobs alone", found.alone.dljobs),
        (f"DLJobs {_BESIDE}", found.beside.dljobs),
        ("Jobs of Kubernetes alone", found.alone.plain),
        (f"Jobs of Kubernetes {_BESIDE}", found.beside.plain),
    )
    rows = [_weight(found, name) for name in sorted(found.peaks_mib)]
    return [
        "",
        "| honest jobs, seconds from the request until the pod was bound | jobs | median | 9 of 10 | longest |",
        "|---|---:|---:|---:|---:|",
        *(_bound(what, waits) for what, waits in series),
        "",
        "| where the time went: 9 of 10 took at most, seconds | answer | then pod made | then gate off | then bound |",
        "|---|---:|---:|---:|---:|",
        *(_parts(what, waits) for what, waits in series),
        "",
        "| process | most memory with all its children, MiB | limit of the chart, MiB | how often it ended |",
        "|---|---:|---:|---:|",
        *rows,
        "",
        _conditions(found, cores=cores),
        "",
        _verdict(found),
    ]


def _verdict(found: Soaked) -> str:
    missed = verdict.missed(found)
    if missed:
        return f"**Missed**: {'; '.join(missed)}."
    return (
        f"Held: no program of ours ended or was above its limit, the operator was below {verdict.OPERATOR_MIB:.0f} "
        f"MiB, every honest DLJob was bound, and the median waited at most {verdict.MOST_RATIO:g} times as long."
    )


def _conditions(found: Soaked, *, cores: int) -> str:
    sent = found.sent
    return (
        f"{found.minutes:g} minutes, at most {found.rate:g} attacks a second; the median wait of DLJobs was "
        f"{found.ratio:.2f} times as long; {_failed(found.alone, found.beside)} were not bound within two minutes. "
        f"With the role `edit` the hostile namespace sent {_counted(sent.taken)}; refused were "
        f"{_counted(sent.refused)}; {sent.unanswered} were not answered. {sent.halves} half requests to operator and "
        f"extender. `maxGPUsPerNamespace: {GPUS_PER_NAMESPACE}` of 20 simulated GPUs; one real kube-apiserver and "
        f"etcd, {cores} cores for everything, the attacker included."
    )


def _failed(*parts: Waits) -> str:
    dljobs, plain = sum(part.failed for part in parts), sum(part.plain_failed for part in parts)
    return f"{dljobs} honest DLJobs and {plain} Jobs of Kubernetes"


def _weight(found: Soaked, name: str) -> str:
    limit = found.limits_mib.get(name)
    told = "" if limit is None else f"{limit:.0f}"
    return f"| {name} | {found.peaks_mib[name]:.0f} | {told} | {found.ends[name]} |"


def _bound(what: str, waits: Sequence[Wait]) -> str:
    if not waits:
        return f"| {what} | 0 | | | |"
    seconds = sorted(wait.bound for wait in waits)
    most = measured.nine_of_ten(seconds)
    return f"| {what} | {len(seconds)} | {statistics.median(seconds):.2f} | {most:.2f} | {seconds[-1]:.2f} |"


def _parts(what: str, waits: Sequence[Wait]) -> str:
    if not waits:
        return f"| {what} | | | | |"
    parts: tuple[Callable[[Wait], float], ...] = (
        lambda wait: wait.stored,
        lambda wait: wait.made - wait.stored,
        lambda wait: wait.free - wait.made,
        lambda wait: wait.bound - wait.free,
    )
    told = (f"{max(measured.nine_of_ten([part(wait) for wait in waits]), 0):.2f}" for part in parts)
    return f"| {what} | {' | '.join(told)} |"


def _counted(found: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in sorted(found.items())) or "none"
