"""What was measured, as a table. Pure."""

import statistics
from collections.abc import Mapping, Sequence

from cotenant_e2e.hostile.soak import GPUS_PER_NAMESPACE, Soaked


def lines(found: Soaked, *, cores: int) -> list[str]:
    """Return the tables and their conditions."""
    rows = [f"| {name} | {peak:.0f} | {found.ends[name]} |" for name, peak in sorted(found.peaks_mib.items())]
    return [
        "",
        "| honest DLJobs, seconds from the request until the pod was bound | jobs | median | 9 of 10 | longest |",
        "|---|---:|---:|---:|---:|",
        _waits("alone", found.alone),
        _waits("beside a hostile namespace", found.beside),
        "",
        "| process | most memory with all its children, MiB | how often it ended |",
        "|---|---:|---:|",
        *rows,
        "",
        (
            f"{found.minutes:g} minutes, at most {found.rate:g} attacks a second; the median wait was "
            f"{found.ratio:.2f} times as long; {found.failed} honest DLJobs were not bound within two minutes. "
            "With the role `edit` the hostile namespace sent "
            f"{_counted(found.taken)}; refused were {_counted(found.refused)}; {found.unanswered} were not answered. "
            f"{found.halves} half requests to operator and extender. `maxGPUsPerNamespace: {GPUS_PER_NAMESPACE}` of 20 "
            f"simulated GPUs; one real kube-apiserver and etcd, {cores} cores for everything, the attacker included."
        ),
    ]


def _waits(what: str, waits: Sequence[float]) -> str:
    ordered = sorted(waits)
    most = ordered[min(len(ordered) * 9 // 10, len(ordered) - 1)]
    return f"| {what} | {len(ordered)} | {statistics.median(ordered):.2f} | {most:.2f} | {ordered[-1]:.2f} |"


def _counted(found: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in sorted(found.items())) or "none"
