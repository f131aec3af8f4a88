"""Turns results of `run.sh SET` into tables: jobs alone beside what is predicted of them, and jobs together.

    python e2e/gpu/jobs.py RESULTS.. [--write docs/prediction.md]

RESULTS: archives or campaigns' folders with results of one GPU model and with the jobs' graphs. Measures nothing.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

_ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(_ROOT / "predictor"), str(_ROOT / "api")]

from cotenant_api import sections  # noqa: E402  # found in the tree that holds this file
from cotenant_api.graph import Graph  # noqa: E402
from cotenant_api.names import GPUModel  # noqa: E402
from cotenant_api.prediction import GPUPrediction  # noqa: E402
from cotenant_predictor import devices  # noqa: E402
from cotenant_predictor.colocation import prior, profiles  # noqa: E402
from cotenant_predictor.jobs import prediction as jobs  # noqa: E402
from cotenant_predictor.models import store as models  # noqa: E402
from cotenant_predictor.profiling import store, tables  # noqa: E402

ALONE, TOGETHER = "e2e/gpu/jobs.py alone", "e2e/gpu/jobs.py together"
"""Names of the two sections."""


def predicted(graphs: Mapping[str, Any], gpu_model: GPUModel) -> dict[str, GPUPrediction]:
    """Return what the model that ships says of each job."""
    knowledge, gpus = models.load().knowledge(), devices.select([gpu_model])
    read = {name: Graph.read(json.dumps(document).encode(), source=name) for name, document in graphs.items()}
    return {name: jobs.predict(graph, gpus, knowledge=knowledge).by_gpu[gpu_model] for name, graph in read.items()}


def of_one(found: GPUPrediction) -> tables.Predicted:
    """As the table has it."""
    return tables.Predicted(
        step_milliseconds=found.step_milliseconds,
        utilization=found.utilization.q50,
        utilization_upper=found.utilization.upper,
        sm_activity=found.sm_activity.q50,
        sm_activity_upper=found.sm_activity.upper,
        memory_mib=found.memory_mib.q50,
        memory_upper=found.memory_mib.upper,
    )


def of_pair(run: Mapping[str, Any], said: Mapping[str, GPUPrediction], memory_mib: int) -> list[float]:
    """Return the speeds of two jobs together, by the formula: nothing was learned of a mechanism that is known."""
    rows = np.array([profiles.of_prediction(said[tenant["job"]], memory_mib) for tenant in run["tenants"]])
    threads = np.array([(tenant["thread_percentage"] or 100) / 100 for tenant in run["tenants"]])
    set_so = profiles.with_settings(rows, threads=threads, priority=np.zeros(len(rows)))
    return [float(speed) for speed in prior.speeds(profiles.together(set_so), run["mechanism"])[0]]


def main(words: Sequence[str] | None = None) -> int:
    """Print the tables, or write them into a page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sources", type=Path, nargs="+", metavar="RESULTS")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="a page that holds both sections")
    arguments = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as folder:
        campaign = store.Store(Path(folder))
        for source in arguments.sources:
            store.unpack([source] if source.is_file() else sorted(source.glob("campaign-*.tar.gz")), campaign)
        results, graphs = list(campaign.results()), campaign.graphs()
    conditions = tables.conditions(results)
    model = GPUModel(results[0]["gpuModel"])
    said, memory_mib = predicted(graphs, model), devices.load()[model].memory_mib
    alone = [conditions, "", *tables.alone(results, {name: of_one(one) for name, one in said.items()})]
    speeds = {one["id"]: of_pair(one["run"], said, memory_mib) for one in tables.pairs(results)}
    together = tables.together(results, speeds)
    if arguments.write is None:
        print("\n".join([*alone, "", *together]))
        return 0
    sections.replace(arguments.write, alone, command=ALONE)
    sections.replace(arguments.write, together, command=TOGETHER)
    return 0


if __name__ == "__main__":
    sys.exit(main())
