"""Turns results of `run.sh behaviour` into tables: documented, stand-ins, real. Measures nothing.

    python e2e/gpu/report.py RESULTS.. [--write docs/node-agent.md]

RESULTS: archives or campaigns' folders, of any hardware: each has a column of its own.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(_ROOT / "predictor"), str(_ROOT / "api")]

from cotenant_api import sections  # noqa: E402  # found in the tree that holds this file
from cotenant_predictor.profiling import store  # noqa: E402
from cotenant_predictor.profiling.behaviour import report  # noqa: E402

BEHAVIOUR, MODELS = "e2e/gpu/report.py behaviour", "e2e/gpu/report.py models"
"""Names of the two sections."""


def results(sources: Iterable[Path], folder: Path) -> list[dict[str, Any]]:
    """Every result of these archives and folders."""
    found = []
    for index, source in enumerate(sources):
        place = source
        if source.is_file():
            place = folder / str(index)
            store.unpack([source], store.Store(place))
        found += list(store.Store(place).results())
    return found


def results_of(folders: Iterable[Path]) -> list[dict[str, Any]]:
    """Every result of all archives in these folders."""
    with tempfile.TemporaryDirectory() as folder:
        return results((archive for each in folders for archive in sorted(each.glob("*.tar.gz"))), Path(folder))


def main(words: Sequence[str] | None = None) -> int:
    """Print the tables, or write them into a page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sources", type=Path, nargs="+", metavar="RESULTS")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="a page that holds both sections")
    arguments = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as folder:
        made = report.columns(results(arguments.sources, Path(folder)))
    behaviour = [
        "Asked on:",
        "",
        *report.conditions(made),
        "",
        "Bold: not as documented. Italic: the reason why there is no answer. Differences:",
        "",
        *report.summary(made),
        "",
        *report.differences(made),
    ]
    if arguments.write is None:
        print("\n".join([*behaviour, "", *report.models(made)]))
        return 0
    sections.replace(arguments.write, behaviour, command=BEHAVIOUR)
    sections.replace(arguments.write, report.models(made), command=MODELS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
