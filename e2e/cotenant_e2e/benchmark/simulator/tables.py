"""Runs as Markdown. Pure."""

from collections.abc import Sequence
from typing import Final

from cotenant_e2e.benchmark.simulator import runs, workload

BAR_CPU_SECONDS: Final = 120
BAR_MEMORY_MIB: Final = 2048
"""For the largest size, on one core."""


def lines(measured: Sequence[runs.Measurement], *, core: str) -> list[str]:
    """Return a row for each size, then the conditions."""
    found = [
        "| GPUs | jobs | CPU s | CPU ms per job | memory MiB | hours | GPUs busy | most running | most waiting |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    found += [
        f"| {one.size.gpus:,} | {one.size.jobs:,} | {one.cpu_seconds:.1f} | {one.milliseconds_per_job:.2f} | "
        f"{one.memory_mib} | {one.simulated_seconds / 3600:.1f} | {one.utilization_percent:.0f} % | "
        f"{one.most_running:,} | {one.most_waiting:,} |"
        for one in measured
    ]
    low, high = workload.UTILIZATION_PERCENT
    shortest, longest = (seconds / 3600 for seconds in workload.SECONDS)
    note = (
        f"Simulated GPUs and hours. One run of each size, in a process of its own on one core ({core}); CPU seconds "
        f"are those of the whole process. {workload.KINDS} kinds of jobs that run alone for {shortest:.1f} to "
        f"{longest:.1f} hours and keep {low:.0f} to {high:.0f} % of a GPU busy arrive at random, at "
        f"{100 * workload.LOAD:.0f} % of what all GPUs could serve if nothing were wasted; predictions are true; the "
        f"policy that ships. Bars at the largest size: {BAR_CPU_SECONDS} s and {BAR_MEMORY_MIB} MiB."
    )
    return [*found, "", note]
