"""`cotenant simulate inference-mix`: latency-sensitive inference beside training, under one policy and another."""

import argparse
import functools
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cotenant_api import errors
from cotenant_simulator.commands import output, seeds

if TYPE_CHECKING:
    from cotenant_predictor.models import store
    from cotenant_simulator.inference_mix import population

SECTION: Final = "cotenant simulate inference-mix"
"""What names the section of a page that `--write` replaces."""

SUMMARY = "what inference and training do to each other on shared GPUs: latency, promises kept, training done"
_GPU_MODEL: Final = "NVIDIA-A100-SXM4-80GB"
_RANGE: Final = re.compile(r"(\d+(?:\.\d+)?)-(\d+(?:\.\d+)?)", re.ASCII)
_MOST_GPUS: Final = 10_000
_MOST_HOURS: Final = 168.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the experiment's arguments."""
    parser.add_argument("--seeds", default="0-4", metavar="LIST", help="such as 0-4 or 1,7 (default: 0-4)")
    parser.add_argument("--gpus", type=int, default=16, metavar="N", help="how many (default: %(default)s)")
    parser.add_argument("--gpu-model", default=_GPU_MODEL, metavar="NAME", help="of all GPUs (default: %(default)s)")
    parser.add_argument(
        "--services", type=int, default=10, metavar="N", help="services, with one replica each (default: %(default)s)"
    )
    parser.add_argument("--hours", type=float, default=2.0, metavar="H", help="simulated (default: %(default)g)")
    parser.add_argument(
        "--load",
        default="0.1-0.5",
        metavar="LOW-HIGH",
        help="part of the time that a service is busy if alone (default: %(default)s)",
    )
    parser.add_argument(
        "--promise",
        type=float,
        default=5.0,
        metavar="STEPS",
        help="within how many times its step alone a service promises answers (default: %(default)g)",
    )
    parser.add_argument(
        "--graphs",
        type=Path,
        metavar="DIR",
        help="graph documents (.json, .json.gz): inference graphs serve, training graphs train; default: the examples",
    )
    parser.add_argument(
        "--model", type=Path, metavar="DIR", help="what `cotenant train` wrote there; default: the model that ships"
    )
    output.configure(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run every setting with every seed; progress goes to standard error."""
    from cotenant_predictor.models import store
    from cotenant_simulator.inference_mix import experiment, report

    output.require(arguments, section=SECTION)
    chosen, scale = seeds.read(arguments.seeds), _scale(arguments)
    model = store.load(arguments.model)
    known = _mix(arguments, model)
    keys = [(setting, seed) for setting in experiment.SETTINGS for seed in chosen]
    tasks = [
        functools.partial(experiment.run, setting, known, model.colocation, scale, seed=seed) for setting, seed in keys
    ]
    names = [f"{setting.name}, seed {seed}" for setting, seed in keys]
    found = dict(zip(keys, output.runs(tasks, arguments, title=SECTION, names=names), strict=True))
    results = [
        experiment.Result(setting=setting, runs={seed: found[setting, seed] for seed in chosen})
        for setting in experiment.SETTINGS
    ]
    shown = report.page_of(results, known, scale, model=model.reference, command=_command(arguments))
    output.emit(shown, arguments, section=SECTION)
    return 0


def _scale(arguments: argparse.Namespace) -> "population.Scale":
    from cotenant_simulator.inference_mix import population

    for field, value, least, most in (
        ("--gpus", arguments.gpus, 1, _MOST_GPUS),
        ("--services", arguments.services, 1, _MOST_GPUS),
        ("--hours", arguments.hours, 0.01, _MOST_HOURS),
        ("--promise", arguments.promise, 1.0, 1e6),
    ):
        if not (math.isfinite(value) and least <= value <= most):
            raise errors.InvalidInputError(field, value, f"must be {least:g} to {most:g}")
    return population.Scale(
        gpus=arguments.gpus,
        services=arguments.services,
        hours=arguments.hours,
        load=_load(arguments.load),
        promise=arguments.promise,
    )


def _load(text: str) -> tuple[float, float]:
    found = _RANGE.fullmatch(text.strip())
    low, high = (float(found[1]), float(found[2])) if found else (0.0, 0.0)
    if not 0 < low <= high < 1:
        raise errors.InvalidInputError("--load", text, "must be two numbers above 0 and below 1, such as 0.1-0.5")
    return low, high


def _mix(arguments: argparse.Namespace, model: "store.Model") -> "population.Mix":
    from cotenant_predictor import devices
    from cotenant_simulator.inference_mix import population

    (device,) = devices.select([arguments.gpu_model])
    graphs = population.shipped() if arguments.graphs is None else population.read(arguments.graphs)
    return population.mix(graphs, device, model.knowledge())


def _command(arguments: argparse.Namespace) -> str:
    """All that the figures depend on."""
    words = [SECTION, f"--seeds {arguments.seeds} --gpus {arguments.gpus} --gpu-model {arguments.gpu_model}"]
    words.append(f"--services {arguments.services} --hours {arguments.hours:g}")
    words.append(f"--load {arguments.load} --promise {arguments.promise:g}")
    words += [f"--{name} {given}" for name in ("graphs", "model") if (given := getattr(arguments, name)) is not None]
    return " ".join(words)
