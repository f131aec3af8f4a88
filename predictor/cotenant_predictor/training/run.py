"""One training: from checked data to a model. Writes no file; the same data give the same model."""

import dataclasses
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from cotenant_api import errors
from cotenant_predictor.colocation.speeds import Pool, SpeedModel
from cotenant_predictor.datasets import gavel, joint, shipped, timm
from cotenant_predictor.datasets import kernels as measured_kernels
from cotenant_predictor.datasets.measurements import Measurements
from cotenant_predictor.jobs import features
from cotenant_predictor.jobs.guarded import Guarded
from cotenant_predictor.jobs.rates import Rates
from cotenant_predictor.jobs.residual import Residual
from cotenant_predictor.jobs.roofline import Array
from cotenant_predictor.kernels.model import KernelModel
from cotenant_predictor.models.store import Model
from cotenant_predictor.training import colocation, guarding, jobs, kernels, rates, table
from cotenant_predictor.training.table import Table

TARGETS: Final = tuple(name for name in features.TARGETS if name != "threadPercentage")
"""Values of jobs alone that are learned and scored; a thread percentage is no value of one measurement."""

FEWEST_ROWS: Final = 8
"""With fewer measured rows nothing is learned of a target."""

LEARNED_SETS: Final = (shipped.KERNELS, shipped.TIMM, shipped.GAVEL)
"""The sets that something is learned from; the others are only scored."""

Progress = Callable[[str], None]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Data:
    """What to learn from."""

    sets: tuple[str, ...] = ()
    """Names of shipped sets."""
    measurements: Measurements | None = None
    """One's own; none: nothing is learned of single jobs."""


def learn(name: str, data: Data, *, base: Model | None = None, progress: Progress = lambda _: None) -> Model:
    """Everything that can be learned from `data`; a part that cannot is that of `base`.

    Args:
        name: of the model.
        data: shipped sets and measurements.
        base: where parts come from that are not learned; none: they stay empty.
        progress: told what is being learned, and from how many rows.

    Raises:
        InvalidInputError: there is too little to learn anything.
    """
    base = Model(name=name) if base is None else base
    told: dict[str, Any] = {"sets": sorted(data.sets), "simulated": False}
    model = dataclasses.replace(base, name=name, learned={}, digest="")
    if shipped.KERNELS in data.sets:
        model = dataclasses.replace(model, kernels=_kernels(told, progress=progress))
    if shipped.TIMM in data.sets:
        model = dataclasses.replace(model, rates=_rates(model.kernels, told, progress=progress))
    if (speeds := _speeds(data, told, progress=progress)).pools:
        model = dataclasses.replace(model, colocation=speeds)
    if data.measurements is not None:
        read = data.measurements
        told |= {"simulated": read.simulated, "lines": len(read), "digest": read.digest()}
        if corrections := _corrections(read, model, told, progress=progress):
            model = dataclasses.replace(model, jobs=corrections)
    if not {"kernels", "rates", "jobs", "colocation"} & told.keys():
        remedy = f"nothing to learn from: needs {FEWEST_ROWS} lines of jobs alone with the same value, pairs, or a set"
        raise errors.InvalidInputError("DATA", ", ".join(data.sets), f"{remedy} of {', '.join(LEARNED_SETS)}")
    told["kept"] = _kept(base, told)
    return dataclasses.replace(model, learned=told).sealed()


def guarded(rows: Table, target: str, lines: Array) -> Guarded | None:
    """Return the corrections of one target, learned from the lines at these positions; each has a value.

    None: every part of the namespaces has too few lines to learn from.
    """
    namespaces = [record.namespace for record in rows.measurements.records]
    parts = guarding.parts([namespaces[line] for line in lines])
    is_believed = bool(parts.believed.all())
    without = _enough(parts.without, lines, fewest=1 if is_believed else FEWEST_ROWS)
    if not without:
        return None
    several = len({name for name in namespaces if name is not None}) > 1
    return Guarded(
        members=tuple(_residual(rows, target, chosen) for chosen in without),
        supports=tuple(_residual(rows, target, chosen) for chosen in _enough(parts.alone, lines, fewest=FEWEST_ROWS))
        if several
        else None,
        has_formula=len(without) < len(parts.without),
        says_outside=is_believed or bool(np.count_nonzero(parts.believed) >= FEWEST_ROWS),
    )


def _enough(parts: Array, lines: Array, *, fewest: int) -> list[Array]:
    """Return the lines of each part that has at least so many."""
    return [lines[part] for part in parts if np.count_nonzero(part) >= fewest]


def _residual(rows: Table, target: str, lines: Array) -> Residual:
    measurements = rows.measurements
    regressor = jobs.JobRegressor(physics_column=features.TARGETS.index(target))
    groups = np.array([measurements.groups[line] for line in lines])
    return regressor.fit(rows.rows[lines], measurements.values(target)[lines], groups=groups).model_


def _kernels(told: dict[str, Any], *, progress: Progress) -> KernelModel:
    found = measured_kernels.load()
    told["kernels"] = {name: {"rows": len(of.seconds), "gpuModels": len(of.devices)} for name, of in found.items()}
    progress(f"kernels: learning from {sum(len(of.seconds) for of in found.values())} rows")
    return kernels.fitted({name: (of.matrix(), of.seconds) for name, of in found.items()})


def _rates(kernels: KernelModel | None, told: dict[str, Any], *, progress: Progress) -> Rates:
    """Of whole models, on top of these kernels."""
    runs = timm.load()
    told["rates"] = {"rows": len(runs), "gpuModels": len({run.row.gpu_model for run in runs})}
    progress(f"rates: learning from {len(runs)} steps")
    return rates.fitted(rates.steps_of(runs, kernels), rates.seconds_of(runs))


def _speeds(data: Data, told: dict[str, Any], *, progress: Progress) -> SpeedModel:
    """Of pairs that ship and of measured ones; their mechanisms never meet."""
    pools: dict[str, Pool] = {}
    sources = [gavel.load()] if shipped.GAVEL in data.sets else []
    if data.measurements is not None and data.measurements.joint():
        sources.append(joint.of_measurements(data.measurements))
    for source in sources:
        progress(f"colocation: learning from {len(source.runs)} runs")
        pools.update(colocation.learn(source).pools)
        told.setdefault("colocation", {}).update(
            {name: {"runs": len(source.of_mechanism(name).runs)} for name in source.mechanisms if name in pools}
        )
    if not pools:
        told.pop("colocation", None)
    return SpeedModel(pools=pools)


def _corrections(
    measurements: Measurements, model: Model, told: dict[str, Any], *, progress: Progress
) -> dict[str, Guarded]:
    """Return the corrections of all targets that were measured often enough, by target."""
    alone = measurements.alone()
    counts = {target: _counted(alone, target) for target in TARGETS}
    counts = {target: count for target, count in counts.items() if count["rows"] >= FEWEST_ROWS}
    if not counts:
        return {}
    rows = table.of(alone, knowledge=model.kernel_knowledge(), progress=progress)
    found = {}
    for target, count in counts.items():
        progress(f"{target}: learning from {count['rows']} rows")
        learned = guarded(rows, target, np.flatnonzero(np.isfinite(alone.values(target))))
        if learned is not None:
            found[target] = learned
    if found:
        told["jobs"] = {target: counts[target] for target in found}
    return found


def _counted(measurements: Measurements, target: str) -> dict[str, int]:
    """From how much a target is learned."""
    lines = np.flatnonzero(np.isfinite(measurements.values(target)))
    labels = {"groups": measurements.groups, "gpuModels": measurements.gpu_models}
    return {"rows": len(lines), **{name: len({values[line] for line in lines}) for name, values in labels.items()}}


def _kept(base: Model, told: dict[str, Any]) -> dict[str, str]:
    """Which parts are those of another model, and of which."""
    there = {
        "kernels": base.kernels is not None,
        "rates": base.rates is not None,
        "jobs": bool(base.jobs),
        "colocation": bool(base.colocation.pools),
    }
    return {name: base.reference for name, is_there in there.items() if is_there and name not in told}
