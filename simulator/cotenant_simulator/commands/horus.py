"""`cotenant simulate horus`: the published case study of packing by prediction, on our graphs."""

import argparse
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cotenant_api import errors
from cotenant_simulator.commands import output, seeds
from cotenant_simulator.horus import published

if TYPE_CHECKING:
    from cotenant_api.prediction import Prediction
    from cotenant_predictor.colocation.speeds import SpeedModel
    from cotenant_simulator.horus.experiment import Figures, Run
    from cotenant_simulator.horus.optimum import Best, Instance
    from cotenant_simulator.horus.population import Assumed
    from cotenant_simulator.horus.settings import Setting
    from cotenant_simulator.horus.variation import Case

SECTION: Final = "cotenant simulate horus"
"""What names the section of a page that `--write` replaces."""
OPTIMUM_SECTION: Final = f"{SECTION} --optimum"
VARIED_SECTION: Final = f"{SECTION} --vary"

SUMMARY = "what packing by prediction is worth: 100 jobs on 12 GPUs, as in Horus (Yeung et al., HotCloud 2020)"
_SEEDS: Final = "0-19"
_ESTIMATE_SIGMA: Final = 0.3
_DEFAULTS: Final[Mapping[str, object]] = {
    "seeds": _SEEDS,
    "definitions": published.Definitions.TORCHVISION,
    "sigma": published.RMSLE,
    "estimate_sigma": _ESTIMATE_SIGMA,
    "arrival_hours": 0.0,
    "model": None,
}
_MOST_SIGMA: Final = 3.0
_MOST_HOURS: Final = 48.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the experiment's arguments."""
    parser.add_argument("--seeds", default=_SEEDS, metavar="LIST", help="such as 0-4 or 1,7 (default: %(default)s)")
    parser.add_argument(
        "--definitions",
        type=published.Definitions,
        choices=tuple(published.Definitions),
        default=published.Definitions.TORCHVISION,
        help="where the mix's models are from; the study names both (default: torchvision)",
    )
    parser.add_argument(
        "--sigma",
        type=float,
        default=published.RMSLE,
        metavar="S",
        help="of the logarithm of utilization over its prediction (default: %(default)s, the error that was published)",
    )
    parser.add_argument(
        "--estimate-sigma",
        type=float,
        default=_ESTIMATE_SIGMA,
        metavar="S",
        help="of the logarithm of the run time that users expect over the real one (default: %(default)s)",
    )
    parser.add_argument(
        "--arrival-hours",
        type=float,
        default=0.0,
        metavar="H",
        help="over which jobs are submitted (default: all at once)",
    )
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument(
        "--optimum",
        action="store_true",
        help="instead: how far ways are from the optimum of 24 jobs, with exact predictions",
    )
    instead.add_argument(
        "--vary", action="store_true", help="instead: the study with one assumption after the other varied"
    )
    parser.add_argument(
        "--model", type=Path, metavar="DIR", help="what `cotenant train` wrote there; default: the model that ships"
    )
    output.configure(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run every way with every seed; progress goes to standard error."""
    _require_together(arguments)
    if arguments.optimum:
        return _optimum(arguments)
    return _varied(arguments) if arguments.vary else _study(arguments)


def _study(arguments: argparse.Namespace) -> int:
    from cotenant_predictor.models import store
    from cotenant_simulator.horus import experiment, report, settings

    output.require(arguments, section=SECTION)
    asked = report.Asked(
        definitions=arguments.definitions,
        assumed=assumed(arguments),
        model=store.load(arguments.model).reference,
        command=_command(arguments),
    )
    chosen = seeds.read(arguments.seeds)
    keys = [(setting, seed) for setting in settings.ALL for seed in chosen]
    task = functools.partial(_ran, folder=arguments.model, definitions=arguments.definitions, assumed=asked.assumed)
    found = output.runs(
        [functools.partial(task, setting, seed) for setting, seed in keys],
        arguments,
        title=SECTION,
        names=[f"{setting.name}, seed {seed}" for setting, seed in keys],
    )
    runs = dict(zip([(setting.name, seed) for setting, seed in keys], found, strict=True))
    results = [
        experiment.Result(setting=setting, runs={seed: runs[setting.name, seed] for seed in chosen})
        for setting in settings.ALL
    ]
    output.emit(report.page_of(results, asked), arguments, section=SECTION)
    return 0


def _optimum(arguments: argparse.Namespace) -> int:
    from cotenant_predictor.models import store
    from cotenant_simulator.horus import optima, optimum

    output.require(arguments, section=OPTIMUM_SECTION)
    chosen, model = seeds.read(arguments.seeds), store.load(arguments.model).reference
    keys = [(instance, seed) for instance in optimum.INSTANCES for seed in chosen]
    task = functools.partial(_best, folder=arguments.model, definitions=arguments.definitions)
    best = output.runs(
        [functools.partial(task, instance, seed) for instance, seed in keys],
        arguments,
        title=OPTIMUM_SECTION,
        names=[f"{instance.jobs} jobs on {instance.gpus} GPUs, seed {seed}" for instance, seed in keys],
    )
    by_key = dict(zip(keys, best, strict=True))
    found = {one: {seed: by_key[one, seed] for seed in chosen} for one in optimum.INSTANCES}
    shown = optima.page_of(found, model=model, command=_command(arguments))
    output.emit(shown, arguments, section=OPTIMUM_SECTION)
    return 0


def _varied(arguments: argparse.Namespace) -> int:
    from cotenant_predictor.models import store
    from cotenant_simulator.horus import variation

    output.require(arguments, section=VARIED_SECTION)
    chosen, model = seeds.read(arguments.seeds), store.load(arguments.model).reference
    keys = [(case, way, seed) for case in variation.CASES for way in variation.WAYS for seed in chosen]
    figures = output.runs(
        [functools.partial(_case, *key, folder=arguments.model) for key in keys],
        arguments,
        title=VARIED_SECTION,
        names=[f"{case.name}: {way}, seed {seed}" for case, way, seed in keys],
    )
    runs: dict[tuple[str, str], dict[int, Figures]] = {}
    for (case, way, seed), found in zip(keys, figures, strict=True):
        runs.setdefault((case.name, way), {})[seed] = found
    shown = variation.page_of(runs, model=model, command=_command(arguments))
    output.emit(shown, arguments, section=VARIED_SECTION)
    return 0


def assumed(arguments: argparse.Namespace) -> "Assumed":
    """Return what is not published, as asked for.

    Raises:
        InvalidInputError: a figure is not lawful.
    """
    from cotenant_simulator.horus import population

    for field, value, most in (
        ("--sigma", arguments.sigma, _MOST_SIGMA),
        ("--estimate-sigma", arguments.estimate_sigma, _MOST_SIGMA),
        ("--arrival-hours", arguments.arrival_hours, _MOST_HOURS),
    ):
        if not 0 <= value <= most:
            raise errors.InvalidInputError(field, value, f"must be 0 to {most:g}")
    return population.Assumed(
        sigma=arguments.sigma,
        estimate_sigma=arguments.estimate_sigma,
        arrival_seconds=3600 * arguments.arrival_hours,
    )


def _ran(
    setting: "Setting", seed: int, *, folder: Path | None, definitions: published.Definitions, assumed: "Assumed"
) -> "Run":
    """Return a task of its own process: it reads the model itself."""
    from cotenant_simulator.horus import experiment

    mix, model = _known(folder, definitions)
    return experiment.run(setting, mix, model, seed=seed, assumed=assumed)


def _best(instance: "Instance", seed: int, *, folder: Path | None, definitions: published.Definitions) -> "Best":
    from cotenant_simulator.horus import optimum

    return optimum.best(instance, *_known(folder, definitions), seed=seed)


def _case(case: "Case", way: str, seed: int, *, folder: Path | None) -> "Figures":
    from cotenant_simulator.horus import experiment, variation

    setting = variation.setting_of(case, way)
    mix, model = _known(folder, case.definitions)
    return experiment.run(setting, mix, model, seed=seed, assumed=case.assumed).figures


@functools.lru_cache(maxsize=2)
def _known(folder: Path | None, definitions: published.Definitions) -> "tuple[Mapping[str, Prediction], SpeedModel]":
    from cotenant_predictor.models import store
    from cotenant_simulator.horus import population

    model = store.load(folder)
    return population.predictions(definitions, model.knowledge()), model.colocation


def _require_together(arguments: argparse.Namespace) -> None:
    """Refuse an option that would change nothing.

    Raises:
        InvalidInputError: there is one.
    """
    fixed = {
        "--optimum": ("sigma", "estimate_sigma", "arrival_hours"),
        "--vary": ("sigma", "estimate_sigma", "arrival_hours", "definitions"),
    }
    for mode, asked in (("--optimum", arguments.optimum), ("--vary", arguments.vary)):
        for name in fixed[mode] if asked else ():
            value = getattr(arguments, name)
            if value != _DEFAULTS[name]:
                raise errors.InvalidInputError(_option(name), value, f"must not be given with {mode}, which sets it")


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _command(arguments: argparse.Namespace) -> str:
    """With the options that differ from what is the default."""
    options = [
        f" {_option(name)} {getattr(arguments, name)}"
        for name, default in _DEFAULTS.items()
        if getattr(arguments, name) != default
    ]
    flag = " --optimum" if arguments.optimum else " --vary" if arguments.vary else ""
    return f"{SECTION}{flag}{''.join(options)}"
