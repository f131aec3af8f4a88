"""The command line: one seed with its history, or many over several processes with progress."""

import argparse
import concurrent.futures
import contextlib
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import orjson

from cotenant_api import sections
from simulation import runs

SECTION = "make soak"
COMMAND = "PYTHONPATH=tests .venv/bin/python -m simulation --seed {seed} --trace"
PROGRESS_SECONDS = 10.0
HEADER = (
    "| seeds | failing | steps of history | virtual hours | minutes of a core |",
    "|---|---:|---:|---:|---:|",
)


def main(arguments: Sequence[str]) -> int:
    """Returns 1 where a seed fails."""
    parser = argparse.ArgumentParser(prog="simulation", description="Worlds of extenders in virtual time.")
    parser.add_argument("--seed", type=int, help="run this one")
    parser.add_argument("--trace", action="store_true", help="print its history")
    parser.add_argument("--seeds", default="0-199", help="run these, as FIRST-LAST")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put what came of it into this page")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: all cores)")
    parser.add_argument(
        "--keep", type=Path, metavar="FILE", help="note each seed here; what is noted already, by this code, is not run"
    )
    options = parser.parse_args(arguments)
    if options.seed is not None:
        return _one(options.seed, trace=options.trace)
    first, _, last = options.seeds.partition("-")
    if options.write is not None:
        sections.require(options.write, command=SECTION)
    seeds = range(int(first), int(last or first) + 1)
    row, failing = _many(seeds, jobs=options.jobs, keep=options.keep)
    if options.write is not None:
        rows = beside(seeds, row, sections.lines(options.write, command=SECTION))
        sections.replace(options.write, [*HEADER, *rows], command=SECTION)
    return 1 if failing else 0


def _one(seed: int, *, trace: bool) -> int:
    result = runs.run(seed, echo=trace)
    for line in result.violations:
        sys.stdout.write(f"seed {seed}: {line}\n")
    told = f"{len(result.lines)} lines, {result.virtual_seconds:.0f} virtual seconds in {result.seconds:.2f} s"
    sys.stdout.write(f"seed {seed}: {len(result.violations)} violations, {told}, {result.digest[:16]}\n")
    return 1 if result.violations else 0


def beside(seeds: range, row: str, written: Sequence[str]) -> list[str]:
    """The rows of a table: this one, and those written for seeds that it says nothing of, in order."""
    rows = {seeds: row}
    for line in written:
        if (found := re.match(r"\| (\d+)-(\d+) \|", line)) is not None:
            others = range(int(found[1]), int(found[2]) + 1)
            if others[-1] < seeds[0] or seeds[-1] < others[0]:
                rows[others] = line
    return [rows[some] for some in sorted(rows, key=lambda some: some[0])]


def _many(seeds: range, *, jobs: int, keep: Path | None) -> tuple[str, int]:
    """The row of the table that says what came of them, and how many failed."""
    began = told = time.monotonic()
    found = _noted(seeds, keep)
    for brief in found.values():
        _tell(brief)
    left = [seed for seed in seeds if seed not in found]
    with contextlib.ExitStack() as stack:
        pool = stack.enter_context(concurrent.futures.ProcessPoolExecutor(max_workers=jobs))
        notes = None if keep is None else stack.enter_context(keep.open("ab"))
        for brief in pool.map(_briefly, left, chunksize=4):
            found[brief.seed] = brief
            _tell(brief)
            if notes is not None:
                notes.write(orjson.dumps(list(brief)) + b"\n")
                notes.flush()
            if time.monotonic() - told > PROGRESS_SECONDS:
                told = time.monotonic()
                failing = sum(1 for brief in found.values() if brief.violation)
                sys.stdout.write(f"{len(found)} of {len(seeds)} seeds, {failing} failing, {told - began:.0f} s\n")
            sys.stdout.flush()
    failing = sum(1 for brief in found.values() if brief.violation)
    took = sum(brief.seconds for brief in found.values())
    sys.stdout.write(f"{len(seeds)} seeds, {failing} failing, {took / len(seeds):.2f} s of a core for each\n")
    steps, lived = (sum(part) for part in zip(*((b.steps, b.virtual_seconds) for b in found.values()), strict=True))
    return f"| {seeds[0]}-{seeds[-1]} | {failing} | {steps:,} | {lived / 3600:.0f} | {took / 60:.0f} |", failing


class _Brief(NamedTuple):
    """What is told of one world; `seconds` are of a core."""

    seed: int
    violation: str
    steps: int
    virtual_seconds: float
    seconds: float


def _noted(seeds: range, keep: Path | None) -> dict[int, _Brief]:
    """What an earlier run came to, which was interrupted; a line that was cut is run again."""
    if keep is None or not keep.exists():
        return {}
    return {brief.seed: brief for brief in _lines(keep.read_bytes()) if brief.seed in seeds}


def _lines(content: bytes) -> Iterator[_Brief]:
    for line in content.splitlines():
        with contextlib.suppress(orjson.JSONDecodeError):
            yield _Brief(*orjson.loads(line))


def _tell(brief: _Brief) -> None:
    if brief.violation:
        sys.stdout.write(f"seed {brief.seed}: {brief.violation}\n  {COMMAND.format(seed=brief.seed)}\n")


def _briefly(seed: int) -> _Brief:
    found = runs.run(seed)
    return _Brief(seed, (*found.violations, "")[0], len(found.lines), found.virtual_seconds, found.seconds)
