"""The command line: plant the defects, draw the sample, run the stages, tell what came of it."""

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from cotenant_api import sections
from mutants import equivalent, lines, planted, running, sampling, stages, tables

FOLDER = lines.ROOT / ".run" / "mutants"
SECTION = "make mutants"
SAMPLE = 350
"""Of these at least 300 change what the extender does."""


def main(arguments: Sequence[str]) -> int:
    """Returns 1 where a planted defect survives, or fewer than nine in ten of the sample are killed."""
    parser = argparse.ArgumentParser(prog="mutants", description="Defects that the tests of the extender must find.")
    parser.add_argument("--sample", type=int, default=SAMPLE, help=f"mutants nobody chose (default: {SAMPLE})")
    parser.add_argument("--jobs", "-j", type=int, default=1, help="processes (default: 1)")
    parser.add_argument("--stages", type=int, default=len(stages.Stage), help="how many stages to try, of three")
    parser.add_argument("--only", default="", help="mutants of files whose path contains this")
    parser.add_argument("--equivalent", action="store_true", help="try also what is said to change no behaviour")
    parser.add_argument("--report", action="store_true", help="run nothing: tell what is known")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the table into this page")
    options = parser.parse_args(arguments)
    if options.write is not None:
        sections.require(options.write, command=SECTION)
    mutants = [*planted.mutants(), *sampling.candidates()[: options.sample]]
    mutants = [mutant for mutant in mutants if options.only in mutant.file]
    # As at the keyboard's interrupt, so that what runs is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    runner = running.Runner(lines.ROOT, FOLDER, jobs=options.jobs)
    if not options.report:
        changing = [mutant for mutant in mutants if options.equivalent or equivalent.reason(mutant) is None]
        runner.run(dict.fromkeys(list(stages.Stage)[: options.stages], changing))
    known = runner.known()
    return _tell([tables.Found(mutant, known.of(mutant)) for mutant in mutants], options.write)


def _tell(found: Sequence[tables.Found], page: Path | None) -> int:
    told = [*tables.planted(found), "", *tables.survivors(found), "", *tables.table(found), "", tables.cost(found)]
    sys.stdout.write("\n".join(told) + "\n")
    if page is not None:
        sections.replace(page, tables.table(found), command=SECTION)
    return 0 if tables.good(found) else 1
