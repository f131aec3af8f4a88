"""`cotenant simulate philly`: real arrivals over jobs whose speeds in pairs were measured, under each way to share."""

import argparse
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cotenant_api import errors
from cotenant_simulator.commands import output

if TYPE_CHECKING:
    from cotenant_api.prediction import Prediction
    from cotenant_simulator.philly.experiment import Figures, Key

SECTION: Final = "cotenant simulate philly"
"""What names the section of a page that `--write` replaces."""

SUMMARY = "what each way to share is worth with the arrivals of a production cluster, over measured pairs"
_LOADS: Final = "0.5,0.9,1.2"
_JOBS: Final = 500
_MOST_LOAD: Final = 3.0
_FEWEST: Final = 2
"""Without a last arrival after the first there is no load."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the experiment's arguments."""
    parser.add_argument("--cluster", metavar="NAME", action="append", help="may be repeated; default: all six")
    parser.add_argument("--loads", default=_LOADS, metavar="LIST", help="of the GPUs (default: %(default)s)")
    parser.add_argument(
        "--jobs", type=int, default=_JOBS, metavar="N", help="the first so many of each cluster (default: %(default)s)"
    )
    parser.add_argument(
        "--model", type=Path, metavar="DIR", help="what `cotenant train` wrote there; default: the model that ships"
    )
    output.configure(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run every way on every cluster; progress goes to standard error."""
    from cotenant_simulator.philly import experiment, report, trace

    output.require(arguments, section=SECTION)
    clusters = arguments.cluster or trace.NAMES
    for name in clusters:
        if name not in trace.NAMES:
            raise errors.InvalidInputError("--cluster", name, f"must be one of {', '.join(trace.NAMES)}")
    if arguments.jobs < _FEWEST:
        raise errors.InvalidInputError("--jobs", arguments.jobs, f"must be at least {_FEWEST}")
    keys = experiment.keys(tuple(dict.fromkeys(clusters)), jobs=arguments.jobs, loads=_loads(arguments.loads))
    tasks = [functools.partial(_ran, key, folder=arguments.model) for key in keys]
    ran = output.runs(tasks, arguments, title=SECTION, names=[key.title for key in keys])
    _, digest = _known(arguments.model)
    shown = report.page_of(dict(zip(keys, ran, strict=True)), model=digest, command=_command(arguments))
    output.emit(shown, arguments, section=SECTION)
    return 0


def _loads(text: str) -> Sequence[float]:
    try:
        found = sorted({float(part) for part in text.split(",")})
    except ValueError as error:
        raise errors.InvalidInputError("--loads", text, "must be numbers with commas between them") from error
    for load in found:
        if not 0 < load <= _MOST_LOAD:
            raise errors.InvalidInputError("--loads", load, f"must be above 0 and at most {_MOST_LOAD:g}")
    return found


def _ran(key: "Key", *, folder: Path | None) -> "Figures":
    """Return a task of its own process: it reads the model itself."""
    from cotenant_simulator.philly import experiment

    known, _ = _known(folder)
    return experiment.run(key, known)


@functools.lru_cache(maxsize=1)
def _known(folder: Path | None) -> "tuple[Mapping[str, Prediction], str]":
    from cotenant_predictor.models import store
    from cotenant_simulator.philly import population

    model = store.load(folder)
    return population.predictions(model.knowledge()), model.reference


def _command(arguments: argparse.Namespace) -> str:
    """With the options that differ from what is the default."""
    options = [f" --cluster {name}" for name in arguments.cluster or ()]
    for name, default in (("loads", _LOADS), ("jobs", _JOBS), ("model", None)):
        value = getattr(arguments, name)
        options += [] if value == default else [f" --{name} {value}"]
    return SECTION + "".join(options)
