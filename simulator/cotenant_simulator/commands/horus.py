"""`cotenant simulate horus`: the published case study of packing by prediction, on our graphs."""

import argparse
import json
import sys
from pathlib import Path
from typing import Final

from cotenant_api import errors, sections
from cotenant_simulator.commands import seeds
from cotenant_simulator.horus import published

SECTION: Final = "cotenant simulate horus"
"""What names the section of a page that `--write` replaces."""

SUMMARY = "what packing by prediction is worth: 100 jobs on 12 GPUs, as in Horus (Yeung et al., HotCloud 2020)"
_MOST_SIGMA: Final = 3.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the experiment's arguments."""
    parser.add_argument("--seeds", default="0-4", metavar="LIST", help="such as 0-4 or 1,7 (default: 0-4)")
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
        "--model", type=Path, metavar="DIR", help="what `cotenant train` wrote there; default: the model that ships"
    )
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output instead of a table")
    parser.add_argument(
        "--write", type=Path, metavar="FILE", help="put the table into this Markdown file, between the markers for it"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run every way with every seed; progress goes to standard error."""
    from cotenant_predictor.models import store
    from cotenant_simulator.horus import experiment, population, report

    if arguments.write is not None:
        sections.require(arguments.write, command=SECTION)
    sigma = arguments.sigma
    if not 0 <= sigma <= _MOST_SIGMA:
        raise errors.InvalidInputError("--sigma", sigma, f"must be 0 to {_MOST_SIGMA:g}")
    chosen = seeds.read(arguments.seeds)
    model = store.load(arguments.model)
    mix = population.predictions(arguments.definitions, model.knowledge())
    results = []
    for setting in experiment.SETTINGS:
        runs = {}
        for seed in chosen:
            history = experiment.run(setting, mix, model.colocation, seed=seed, sigma=sigma)
            runs[seed] = experiment.figures(history)
            done = f"{setting.name}, seed {seed}: makespan {runs[seed].makespan_seconds:.0f} s"
            print(f"{SECTION}: {done}", file=sys.stderr, flush=True)
        results.append(experiment.Result(setting=setting, runs=runs))
    lines = list(report.table(results))
    if arguments.write is not None:
        command = f"{SECTION} --definitions {arguments.definitions} --seeds {arguments.seeds} --sigma {sigma:g}"
        sections.replace(arguments.write, [f"`{command}`, model {model.reference}", "", *lines], command=SECTION)
    print(
        json.dumps(report.document(results, definitions=arguments.definitions, sigma=sigma), allow_nan=False)
        if arguments.json
        else "\n".join(lines)
    )
    return 0
