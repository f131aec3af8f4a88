"""`cotenant simulate waits`: how long jobs of each size wait, under the default order and under FIFO."""

import argparse
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cotenant_api import errors
from cotenant_simulator.commands import output, seeds

if TYPE_CHECKING:
    from cotenant_api.prediction import Prediction
    from cotenant_predictor.colocation.speeds import SpeedModel
    from cotenant_simulator.waits.experiment import Figures, Key

SECTION: Final = "cotenant simulate waits"
"""What names the section of a page that `--write` replaces."""

SUMMARY = "how long jobs of each size wait, under the default order of the queue and under FIFO with backfill"
_SEEDS: Final = "0-9"
_LOAD: Final = 0.95
_JOBS: Final = 800
_MOST_LOAD: Final = 2.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the experiment's arguments."""
    parser.add_argument("--seeds", default=_SEEDS, metavar="LIST", help="such as 0-4 or 1,7 (default: %(default)s)")
    parser.add_argument(
        "--load", type=float, default=_LOAD, metavar="PART", help="of what FIFO serves (default: %(default)s)"
    )
    parser.add_argument("--jobs", type=int, default=_JOBS, metavar="N", help="for each seed (default: %(default)s)")
    parser.add_argument(
        "--model", type=Path, metavar="DIR", help="what `cotenant train` wrote there; default: the model that ships"
    )
    output.configure(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run every way on every seed; progress goes to standard error."""
    from cotenant_simulator.waits import experiment, report

    output.require(arguments, section=SECTION)
    if not 0 < arguments.load <= _MOST_LOAD:
        raise errors.InvalidInputError("--load", arguments.load, f"must be above 0 and at most {_MOST_LOAD:g}")
    if arguments.jobs < 1:
        raise errors.InvalidInputError("--jobs", arguments.jobs, "must be at least 1")
    keys = [
        experiment.Key(way=way, load=arguments.load, count=arguments.jobs, seed=seed)
        for way in experiment.Way
        for seed in seeds.read(arguments.seeds)
    ]
    tasks = [functools.partial(_ran, key, folder=arguments.model) for key in keys]
    ran = output.runs(tasks, arguments, title=SECTION, names=[key.title for key in keys])
    shown = report.page_of(dict(zip(keys, ran, strict=True)), command=_command(arguments))
    output.emit(shown, arguments, section=SECTION)
    return 0


def _ran(key: "Key", *, folder: Path | None) -> "Figures":
    """Return a task of its own process: it reads the model itself."""
    from cotenant_simulator.waits import experiment

    mix, model = _known(folder)
    return experiment.run(key, mix, model)


@functools.lru_cache(maxsize=1)
def _known(folder: Path | None) -> "tuple[Mapping[str, Prediction], SpeedModel]":
    from cotenant_predictor.models import store
    from cotenant_simulator.horus import population, published

    model = store.load(folder)
    return population.predictions(published.Definitions.TORCHVISION, model.knowledge()), model.colocation


def _command(arguments: argparse.Namespace) -> str:
    """With the options that differ from what is the default."""
    options = []
    for name, default in (("seeds", _SEEDS), ("load", _LOAD), ("jobs", _JOBS), ("model", None)):
        value = getattr(arguments, name)
        options += [] if value == default else [f" --{name} {value}"]
    return SECTION + "".join(options)
