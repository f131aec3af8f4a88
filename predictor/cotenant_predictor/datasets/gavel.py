"""Gavel's pairs: 26 training jobs on three GPU models, steps per second alone and beside one another.

How the pairs shared a GPU is not recorded; they are a pool of their own. A pair of zeros did not run (it found no
memory, or failed). A pair that the file holds in both orders is one pair; a job beside itself is one too.

Most of them were measured a second time, by the same people (`load_again`): how far the two agree says how fine a
figure of either can be.

A job's group and its family are both its model without the batch size, 7 of them: published comparisons call a family
unseen where every batch size of the target's model was removed. So ResNet-50 is judged with ResNet-18 known.
"""

import ast
import functools
import gzip
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from cotenant_api.graph import Graph
from cotenant_api.names import GPUModel
from cotenant_predictor.colocation.prior import UNRECORDED
from cotenant_predictor.datasets.joint import Job, Joint, Run, Tenant
from cotenant_predictor.jobs import coefficients as constants
from cotenant_predictor.jobs.coefficients import Coefficients

FOLDER: Final = Path(__file__).with_name("gavel")
FILE: Final = FOLDER / "simulation_throughputs.json.gz"
AGAIN_FILE: Final = FOLDER / "motivation_throughputs.json.gz"
GPU_MODELS: Final[Mapping[str, GPUModel]] = {
    "k80": GPUModel("Tesla-K80"),
    "p100": GPUModel("Tesla-P100-PCIE-16GB"),
    "v100": GPUModel("Tesla-V100-SXM2-16GB"),
}
"""What the file's names mean; which board of that kind it was is not recorded."""

_Table: TypeAlias = dict[str, dict[str, tuple[float, ...]]]
_SINGLE_GPU: Final = 1
_MODEL = re.compile(r"^(?P<model>[\w-]+)(?: \(batch size \d+\))?$")


def load(*, coefficients: Coefficients = constants.FORMULA_1) -> Joint:
    """All pairs on one GPU, of all GPU models; groups, which are the families too, are the 7 models."""
    content = _content(FILE)
    return _joint({short: _single(content[short]) for short in GPU_MODELS}, coefficients)


def load_again(*, coefficients: Coefficients = constants.FORMULA_1) -> Joint:
    """Return the pairs of the second measurement, of jobs of the same names."""
    content = _content(AGAIN_FILE)
    return _joint({short: _plain(content[short]) for short in GPU_MODELS}, coefficients)


def _content(file: Path) -> Any:
    return json.loads(gzip.decompress(file.read_bytes()))


def _joint(tables: Mapping[str, _Table], coefficients: Coefficients) -> Joint:
    jobs: list[Job] = []
    runs: list[Run] = []
    for short, table in tables.items():
        gpu_model = GPU_MODELS[short]
        start = len(jobs)
        jobs += [_job(name, gpu_model, alone=beside["null"][0]) for name, beside in table.items()]
        runs += _runs(table, start)
    return Joint(jobs=tuple(jobs), runs=tuple(runs), coefficients=coefficients)


def steps_per_second(gpu_model: GPUModel) -> Mapping[tuple[str, int], float]:
    """Return how fast each job is alone, by its name and the number of GPUs; only those that ran."""
    short = next(name for name, known in GPU_MODELS.items() if known == gpu_model)
    found = {}
    for key, beside in _content(FILE)[short].items():
        name, gpus = ast.literal_eval(key)
        if beside["null"] > 0:
            found[name, gpus] = float(beside["null"])
    return found


def graphs() -> Mapping[str, Graph]:
    """Return the graph documents of the jobs, by their name in the file."""
    return _graphs()


@functools.cache
def _graphs() -> Mapping[str, Graph]:
    names = json.loads((FOLDER / "graphs" / "manifest.json").read_bytes())
    return {name: _graph(FOLDER / "graphs" / file) for name, file in names.items()}


def _graph(path: Path) -> Graph:
    return Graph.read(gzip.decompress(path.read_bytes()), source=str(path))


def _single(table: Mapping[str, Mapping[str, object]]) -> _Table:
    """Return steps per second of jobs on one GPU: alone under `null`, else (its own, the neighbour's) by neighbour."""
    found: _Table = {}
    for key, beside in table.items():
        name, gpus = ast.literal_eval(key)
        if gpus != _SINGLE_GPU:
            continue
        found[name] = {}
        for other, value in beside.items():
            neighbour, neighbour_gpus = ("null", _SINGLE_GPU) if other == "null" else ast.literal_eval(other)
            if neighbour_gpus == _SINGLE_GPU:
                found[name][neighbour] = tuple(value) if isinstance(value, list) else (float(str(value)),)
    return found


def _plain(table: Mapping[str, Mapping[str, Any]]) -> _Table:
    """Return the same of a table whose jobs are all on one GPU."""
    return {
        name: {other: tuple(value) if isinstance(value, list) else (float(value),) for other, value in beside.items()}
        for name, beside in table.items()
    }


def _job(name: str, gpu_model: GPUModel, *, alone: float) -> Job:
    matched = _MODEL.match(name)
    model = name if matched is None else matched["model"]
    return Job(
        name=name,
        group=model,
        family=model,
        gpu_model=gpu_model,
        graph=graphs()[name],
        alone={"stepMilliseconds": 1e3 / alone},
    )


def _runs(table: _Table, start: int) -> list[Run]:
    names = list(table)
    runs = []
    for first, name in enumerate(names):
        for second in range(first, len(names)):
            measured = table[name].get(names[second])
            if measured is None:
                continue
            alone = (table[name]["null"][0], table[names[second]]["null"][0])
            tenants = tuple(
                Tenant(job=start + job, speed=steps / at_best)
                for job, steps, at_best in zip((first, second), measured, alone, strict=True)
            )
            runs.append(Run(mechanism=UNRECORDED, tenants=tenants, ran=min(measured) > 0))
    return runs
