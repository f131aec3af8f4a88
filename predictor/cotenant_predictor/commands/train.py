"""`cotenant train`: learn a model from measurements and shipped sets, and write it as one file."""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cotenant_api import errors
from cotenant_predictor.commands import arguments as shared

if TYPE_CHECKING:
    from cotenant_predictor.datasets.measurements import Measurements
    from cotenant_predictor.models.store import Model

SUMMARY = "learn a model from measured jobs, alone and together, and from public sets"
EXAMPLES = "example: cotenant train measured/data --out model --name my-jobs-1"


NOT_BETTER = 3
"""The exit code when what would be learned does not beat the model in use."""

MOST_TOLD: Final = 20
"""Bad lines that are told of, each with field, value and remedy; more are only counted."""

_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "data", nargs="+", metavar="DATA", help="measurement and graph files, folders of them, or a set that ships"
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="the folder for model.json; made where it is missing"
    )
    parser.add_argument("--name", default="trained-1", help="how predictions name the model (default: trained-1)")
    parser.add_argument(
        "--from-scratch", action="store_true", help="leave empty what DATA do not teach; else the default model has it"
    )
    parser.add_argument(
        "--only-if-better",
        action="store_true",
        help=f"unless it beats the model in use on networks that neither has seen, write nothing and exit {NOT_BETTER}",
    )
    parser.add_argument(
        "--than", metavar="DIR", help="the model in use, with --only-if-better; default: the model that ships"
    )
    parser.add_argument(
        "--skip-bad-lines",
        action="store_true",
        help="leave out lines and graphs that cannot be used, which end the training else, and count them",
    )
    shared.add_devices(parser)
    parser.add_argument("--simulated", action="store_true", help="read simulated lines alone, which are refused else")


def run(arguments: argparse.Namespace) -> int:
    """Learn, write, and say what was learned; progress goes to standard error."""
    from cotenant_predictor.datasets import shipped
    from cotenant_predictor.models import store
    from cotenant_predictor.training import run as training

    if not _NAME.fullmatch(arguments.name):
        raise errors.InvalidInputError("--name", arguments.name, "must be lower-case letters, digits, - and .")
    names, paths = shipped.told_apart(arguments.data)
    skipped = Skipped()
    try:
        read = _read(paths, skipped if arguments.skip_bad_lines else None, arguments)
    except errors.InvalidInputError as error:
        if not (arguments.only_if_better and skipped.count):
            raise
        print(f"nothing can be compared: {error}; {skipped}")
        return NOT_BETTER
    if arguments.skip_bad_lines:
        print(skipped, flush=True)
    base = None if arguments.from_scratch else store.load()
    data = training.Data(sets=names, measurements=read)
    if arguments.only_if_better and not _is_better(read, arguments.than):
        return NOT_BETTER
    _make(arguments.out)
    learned = training.learn(arguments.name, data, base=base, progress=_progress)
    model = store.write(arguments.out / store.FILE, learned)
    for line in _summary(model):
        print(line)
    print(f"wrote {arguments.out / store.FILE}: {model.reference}", flush=True)
    return 0


class Skipped:
    """Counts what cannot be used, and tells of the first on standard error."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, error: errors.InvalidInputError) -> None:
        """Leave out what the error is about."""
        self.count += 1
        if self.count <= MOST_TOLD:
            _progress(f"skipped: {error}")

    def __str__(self) -> str:
        return f"skipped: {self.count} lines, runs and graphs that cannot be used"


def _read(paths: Sequence[Path], skipped: Skipped | None, arguments: argparse.Namespace) -> "Measurements | None":
    """Return the measurements; what cannot be used ends the training where nobody counts it."""
    from cotenant_predictor import devices
    from cotenant_predictor.datasets import files, measurements
    from cotenant_predictor.training import table

    if not paths:
        return None
    known = devices.with_file(arguments.devices)
    if skipped is None:
        return measurements.load(paths, known=known, simulated=arguments.simulated, on_bad=files.refuse)
    found = measurements.load(paths, known=known, simulated=arguments.simulated, on_bad=skipped)
    return table.predictable(found, on_bad=skipped)


def _is_better(read: "Measurements | None", than: str | None) -> bool:
    """Compare, and say how it came out."""
    from cotenant_predictor.evaluation import comparison
    from cotenant_predictor.models import store

    if read is None:
        raise errors.InvalidInputError("--only-if-better", "", "compares by measurements: name a file of them")
    active = store.load(than)
    try:
        found = comparison.compare(read, active, progress=_progress)
    except errors.InvalidInputError as error:
        # Too little yet, as on the first days of a cluster.
        print(f"nothing can be compared: {error}")
        return False
    for each in found:
        whose = "measured" if each.metric == comparison.OUT_OF_DOMAIN else "that neither has seen"
        rows = f"{each.rows} rows of {each.groups} networks {whose}"
        print(f"{each.target}: {each.metric} {each.candidate:.3f}, {active.reference} {each.active:.3f}, on {rows}")
    better = comparison.is_better(found)
    print("better than the model in use" if better else "not better than the model in use: nothing is written")
    return better


def _make(folder: Path) -> None:
    """Before anything is learned: a folder that cannot be made is known at once."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise errors.InvalidInputError("--out", str(folder), f"cannot be made: {error.strerror}") from error


def _summary(model: "Model") -> list[str]:
    """Return what was learned of what, a line each."""
    learned = model.learned
    label = ", SIMULATED" if model.simulated else ""
    lines = [
        f"kernels: {name} from {count['rows']} rows, {count['gpuModels']} GPU models"
        for name, count in learned.get("kernels", {}).items()
    ]
    if rates := learned.get("rates"):
        lines.append(f"rates: from {rates['rows']} steps of whole models, {rates['gpuModels']} GPU models")
    lines += [
        f"jobs: {target} from {count['rows']} rows, {count['groups']} groups, {count['gpuModels']} GPU models{label}"
        for target, count in learned.get("jobs", {}).items()
    ]
    lines += [
        f"colocation: {mechanism} from {count['runs']} runs{label}"
        for mechanism, count in learned.get("colocation", {}).items()
    ]
    return lines + [f"{part}: kept from {reference}" for part, reference in learned["kept"].items()]


def _progress(text: str) -> None:
    print(f"cotenant train: {text}", file=sys.stderr, flush=True)
