"""Many random histories of the operator: `python -m operator_kit.soak --seeds 0-199`, over all cores.

A seed is HISTORIES histories of one of TESTS; the next seed is of the next test. The first failing one ends it, shrunk.
"""

import argparse
import importlib.util
import logging
import multiprocessing
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import hypothesis

HISTORIES: Final = 50
"""Of each seed."""
FOLDER: Final = Path(__file__).parents[1] / "operator"
TESTS: Final = (
    ("test_histories", "test_every_history_keeps_the_promises_and_settles"),
    ("test_sweep_histories", "test_every_history_of_a_sweep_keeps_its_promises_and_settles"),
)
REPLAY: Final = "make soak-operator SEEDS={seed}"
PROGRESS_SECONDS: Final = 10.0


class Chunk(NamedTuple):
    """What one process runs.

    Attributes:
        file, test: where the property is, and its name.
        histories: how many are tried.
    """

    seed: int
    file: Path
    test: str
    histories: int


class Result(NamedTuple):
    """What came of a chunk; `failure`: the traceback and the smallest failing history, or nothing."""

    chunk: Chunk
    failure: str


def main(arguments: Sequence[str], *, folder: Path = FOLDER, tests: Sequence[tuple[str, str]] = TESTS) -> int:
    """Return 1 where a history fails."""
    parser = argparse.ArgumentParser(prog="operator_kit.soak", description="Random histories of the operator.")
    parser.add_argument("--seeds", default="0-199", help=f"run these, as FIRST-LAST, {HISTORIES} histories each")
    parser.add_argument("--histories", type=int, default=HISTORIES, help="how many of each seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: all cores)")
    options = parser.parse_args(arguments)
    first, _, last = options.seeds.partition("-")
    chunks = []
    for seed in range(int(first), int(last or first) + 1):
        name, test = tests[seed % len(tests)]
        chunks.append(Chunk(seed, folder / f"{name}.py", test, options.histories))
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        failed = _told(pool.imap_unordered(run, chunks), len(chunks), options.histories)
    return 0 if failed is None else 1


def run(chunk: Chunk) -> Result:
    """Run the histories of one seed."""
    hypothesis.settings.register_profile(
        "soak",
        max_examples=chunk.histories,
        deadline=None,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=[hypothesis.Phase.generate, hypothesis.Phase.shrink],
        report_multiple_bugs=False,
    )
    hypothesis.settings.load_profile("soak")
    # Faults are part of a history: the operator warns of each.
    logging.disable(logging.CRITICAL)
    try:
        hypothesis.seed(chunk.seed)(_property(chunk))()
    except Exception:  # noqa: BLE001 - whatever it is, it is told with the seed
        return Result(chunk, traceback.format_exc())
    return Result(chunk, "")


def _property(chunk: Chunk) -> Callable[[], None]:
    """Return the property of a test file. The files are no package, as pytest imports them one by one."""
    spec = importlib.util.spec_from_file_location(chunk.file.stem, chunk.file)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(chunk.file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[chunk.file.stem] = module
    spec.loader.exec_module(module)
    found: Callable[[], None] = getattr(module, chunk.test)
    return found


def _told(results: Iterable[Result], total: int, histories: int) -> Result | None:
    """Tell how far it is; return the first that fails."""
    began = told = time.monotonic()
    for done, result in enumerate(results, start=1):
        if result.failure:
            chunk = result.chunk
            sys.stdout.write(f"{result.failure}\nseed {chunk.seed} fails: {chunk.file.name}: {chunk.test}\n")
            sys.stdout.write(f"  run it again: {REPLAY.format(seed=chunk.seed)}\n")
            return result
        if time.monotonic() - told > PROGRESS_SECONDS or done == total:
            told = time.monotonic()
            sys.stdout.write(f"{done * histories} of {total * histories} histories, {told - began:.0f} s\n")
            sys.stdout.flush()
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
