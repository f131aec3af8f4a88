"""The command line: one seed with its history, or many over several processes with progress."""

import argparse
import concurrent.futures
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from cotenant_api import sections
from simulation import runs

SECTION = "make soak"
COMMAND = "PYTHONPATH=tests .venv/bin/python -m simulation --seed {seed} --trace"
PROGRESS_SECONDS = 10.0


def main(arguments: Sequence[str]) -> int:
    """Returns 1 where a seed fails."""
    parser = argparse.ArgumentParser(prog="simulation", description="Worlds of extenders in virtual time.")
    parser.add_argument("--seed", type=int, help="run this one")
    parser.add_argument("--trace", action="store_true", help="print its history")
    parser.add_argument("--seeds", default="0-199", help="run these, as FIRST-LAST")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put what came of it into this page")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: all cores)")
    options = parser.parse_args(arguments)
    if options.seed is not None:
        return _one(options.seed, trace=options.trace)
    first, _, last = options.seeds.partition("-")
    if options.write is not None:
        sections.require(options.write, command=SECTION)
    seeds = range(int(first), int(last or first) + 1)
    lines, failing = _many(seeds, jobs=options.jobs)
    if options.write is not None:
        sections.replace(options.write, lines, command=SECTION)
    return 1 if failing else 0


def _one(seed: int, *, trace: bool) -> int:
    result = runs.run(seed, echo=trace)
    for line in result.violations:
        sys.stdout.write(f"seed {seed}: {line}\n")
    told = f"{len(result.lines)} lines, {result.virtual_seconds:.0f} virtual seconds in {result.seconds:.2f} s"
    sys.stdout.write(f"seed {seed}: {len(result.violations)} violations, {told}, {result.digest[:16]}\n")
    return 1 if result.violations else 0


def _many(seeds: range, *, jobs: int) -> tuple[list[str], int]:
    """A table of what came of them, and how many failed."""
    began = told = time.monotonic()
    failing = done = steps = 0
    lived = 0.0
    with concurrent.futures.ProcessPoolExecutor(max_workers=jobs) as pool:
        for result in pool.map(_briefly, seeds, chunksize=4):
            done += 1
            steps, lived = steps + result.steps, lived + result.virtual_seconds
            if result.violation:
                failing += 1
                sys.stdout.write(f"seed {result.seed}: {result.violation}\n  {COMMAND.format(seed=result.seed)}\n")
            if time.monotonic() - told > PROGRESS_SECONDS:
                told = time.monotonic()
                sys.stdout.write(f"{done} of {len(seeds)} seeds, {failing} failing, {told - began:.0f} s\n")
            sys.stdout.flush()
    took = time.monotonic() - began
    sys.stdout.write(f"{len(seeds)} seeds, {failing} failing, {took:.0f} s with {jobs} processes\n")
    table = [
        "| seeds | failing | steps of history | virtual hours | minutes | processes |",
        "|---|---:|---:|---:|---:|---:|",
        f"| {seeds[0]}-{seeds[-1]} | {failing} | {steps:,} | {lived / 3600:.0f} | {took / 60:.0f} | {jobs} |",
    ]
    return table, failing


class _Brief(NamedTuple):
    """What is told of one world."""

    seed: int
    violation: str
    steps: int
    virtual_seconds: float


def _briefly(seed: int) -> _Brief:
    found = runs.run(seed)
    return _Brief(seed, (*found.violations, "")[0], len(found.lines), found.virtual_seconds)
