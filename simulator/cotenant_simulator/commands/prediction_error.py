"""`cotenant simulate prediction-error`: how wrong predictions may be before packing by them stops paying."""

import argparse
import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cotenant_api import errors
from cotenant_simulator.commands import output, seeds
from cotenant_simulator.horus import published

if TYPE_CHECKING:
    from cotenant_api.prediction import Prediction
    from cotenant_predictor.colocation.speeds import SpeedModel
    from cotenant_simulator.horus.experiment import Figures
    from cotenant_simulator.prediction_error.experiment import Key

SECTION: Final = "cotenant simulate prediction-error"
"""What names the section of a page that `--write` replaces."""

SUMMARY = "how wrong predictions may be: packing by them, against measuring first and against whole GPUs"
_SEEDS: Final = "0-9"
_SIGMAS: Final = "0,0.1,0.2,0.3,0.4,0.5,0.6,0.8,1"
_MOST_SIGMA: Final = 3.0
_AXES: Final = ("utilization", "memory", "both")
_MECHANISMS: Final = ("MPS", "TimeSlicing")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the experiment's arguments."""
    parser.add_argument("--seeds", default=_SEEDS, metavar="LIST", help="such as 0-4 or 1,7 (default: %(default)s)")
    parser.add_argument(
        "--sigmas",
        default=_SIGMAS,
        metavar="LIST",
        help="of the logarithm of what is believed over what is real, ascending (default: %(default)s)",
    )
    parser.add_argument(
        "--of",
        action="append",
        choices=_AXES,
        default=[],
        help="what is believed wrongly (repeat for more); default: each by itself, then both",
    )
    parser.add_argument(
        "--mechanism", choices=_MECHANISMS, default=_MECHANISMS[0], help="how jobs share a GPU (default: %(default)s)"
    )
    parser.add_argument(
        "--definitions",
        type=published.Definitions,
        choices=tuple(published.Definitions),
        default=published.Definitions.TORCHVISION,
        help="where the mix's models are from (default: torchvision)",
    )
    parser.add_argument(
        "--model", type=Path, metavar="DIR", help="what `cotenant train` wrote there; default: the model that ships"
    )
    output.configure(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run every way with every error and seed; progress goes to standard error."""
    from cotenant_predictor.models import store
    from cotenant_simulator.prediction_error import beliefs, experiment, gains, report

    output.require(arguments, section=SECTION)
    model = store.load(arguments.model)
    asked = gains.Asked(
        axes=[beliefs.Of(name) for name in dict.fromkeys(arguments.of or _AXES)],
        sigmas=sigmas(arguments.sigmas),
        seeds=seeds.read(arguments.seeds),
        mechanism=arguments.mechanism,
        model=model.reference,
        learned=arguments.mechanism in model.colocation.pools,
    )
    keys = experiment.keys(asked.axes, asked.sigmas, asked.seeds)
    task = functools.partial(
        _ran, folder=arguments.model, definitions=arguments.definitions, mechanism=arguments.mechanism
    )
    tasks = [functools.partial(task, key) for key in keys]
    ran = output.runs(tasks, arguments, title=SECTION, names=[key.title for key in keys])
    found = gains.Results(asked=asked, runs=dict(zip(keys, ran, strict=True)))
    shown = report.page_of(found, command=_command(arguments))
    output.emit(shown, arguments, section=SECTION)
    return 0


def sigmas(text: str) -> Sequence[float]:
    """Errors of a list such as `0,0.1,0.5`.

    Raises:
        InvalidInputError: it is no ascending list of at least two of them.
    """
    remedy = f"must be at least two numbers of 0 to {_MOST_SIGMA:g}, ascending, such as {_SIGMAS}"
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError as error:
        raise errors.InvalidInputError("--sigmas", text, remedy) from error
    lawful = all(math.isfinite(one) and 0 <= one <= _MOST_SIGMA for one in found)
    if len(found) < 2 or not lawful or any(later <= one for one, later in itertools.pairwise(found)):
        raise errors.InvalidInputError("--sigmas", text, remedy)
    return found


def _ran(key: "Key", *, folder: Path | None, definitions: published.Definitions, mechanism: str) -> "Figures":
    """Return a task of its own process: it reads the model itself."""
    from cotenant_simulator.prediction_error import experiment

    mix, model = _known(folder, definitions)
    return experiment.run(key, mix, model, mechanism=mechanism)


@functools.lru_cache(maxsize=1)
def _known(folder: Path | None, definitions: published.Definitions) -> "tuple[Mapping[str, Prediction], SpeedModel]":
    from cotenant_predictor.models import store
    from cotenant_simulator.horus import population

    model = store.load(folder)
    return population.predictions(definitions, model.knowledge()), model.colocation


def _command(arguments: argparse.Namespace) -> str:
    """With the options that differ from what is the default."""
    options = [f" --of {name}" for name in arguments.of]
    for name, default in (
        ("seeds", _SEEDS),
        ("sigmas", _SIGMAS),
        ("mechanism", _MECHANISMS[0]),
        ("definitions", published.Definitions.TORCHVISION),
        ("model", None),
    ):
        value = getattr(arguments, name)
        options += [] if value == default else [f" --{name} {value}"]
    return SECTION + "".join(options)
