"""Pictures of an evaluation: predicted against measured, what bounds hold, and errors by what bounds the job.

Transparent, in colours that are readable on a light and on a dark page. The same predictions give the same SVG.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from cotenant_api import errors
from cotenant_predictor.evaluation import baselines, jobs, scores
from cotenant_predictor.evaluation.scores import Scored
from cotenant_predictor.evaluation.splits import Array
from cotenant_predictor.jobs import features

INK: Final = "#7f8790"
"""Of text and axes: at least 3.5 to 1 on white and on near-black."""
COLOURS: Final = ("#3d8bd4", "#d9822b", "#2f9e6e", "#b56cc4", "#c9504c", "#e0699b")
MODELS: Final = (
    jobs.COTENANT,
    baselines.PHYSICS,
    baselines.HORUS_RF,
    baselines.HORUS_GBM,
    baselines.CONSTANT,
    baselines.PHYSICS_KERNELS,
)
"""Each has its colour in every picture."""
LINES: Final = ("-", "--", "-.", ":", (0, (1, 3)), (0, (5, 3)))
"""The same of lines: those that lie on each other are told apart."""
NOMINAL: Final = 0.9
BINS: Final = 8
SCORES: Final = {
    "rmsle": "RMSLE of percent points",
    "mape": "MAPE, share of the measured value",
    "mae": "MAE, percent points",
}
UNITS: Final = {"memoryPeakMiB": "MiB", "stepMilliseconds": "ms", "powerWatts": "W"}

_STYLE: Final[dict[Any, Any]] = {
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.titlecolor": INK,
    "axes.titlesize": 11,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "font.size": 10,
    "svg.hashsalt": "cotenant",
    "svg.fonttype": "path",
}


def write(folder: Path, scored: Sequence[Scored]) -> list[Path]:
    """Draw the predictions of one target and split into `folder`, as SVG and PNG; the files.

    Args:
        folder: made where it is missing.
        scored: what each model says of the same rows, with the model of interest last.

    Raises:
        InvalidInputError: the folder cannot be written to.
    """
    last = scored[-1]
    known = [one.where(np.isfinite(one.measured)) for one in scored]
    stem = f"{last.target}-{last.split}"
    drawn = {
        f"{stem}-predicted": predicted_against_measured(known[-1]),
        f"{stem}-calibration": calibration([one for one in known if one.predicted.upper is not None]),
        f"{stem}-regimes": error_by_regime(known),
    }
    files = [(folder / f"{name}.{suffix}", figure) for name, figure in drawn.items() for suffix in ("svg", "png")]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, figure in files:
            with mpl.rc_context(_STYLE):
                metadata = {"Date": None} if file.suffix == ".svg" else {"Software": None}
                figure.savefig(file, transparent=True, dpi=120, metadata=metadata)
    except OSError as error:
        raise errors.InvalidInputError("--plots", str(folder), f"cannot be written: {error.strerror}") from error
    return [file for file, _ in files]


def predicted_against_measured(scored: Scored) -> Figure:
    """One dot per held-out row, by what bounds the job; upper bounds as thin lines."""
    figure, (axes,) = _figure(
        1, f"{scored.target}: {scored.model}\n{_split(scored)}, {len(scored.measured)} held-out rows"
    )
    measured, median, upper = scored.measured, scored.predicted.median, scored.predicted.upper
    low, high = _limits(scored.target, measured, median)
    axes.plot([low, high], [low, high], color=INK, linewidth=1, linestyle="--", label="predicted = measured")
    if upper is not None:
        axes.vlines(
            measured, median, np.minimum(upper, high), color=INK, linewidth=0.6, alpha=0.35, label="to the upper bound"
        )
    regimes = np.asarray(scored.regimes)
    for colour, name in zip(COLOURS, np.unique(regimes), strict=False):
        chosen = regimes == name
        axes.scatter(measured[chosen], median[chosen], s=16, color=colour, alpha=0.75, linewidths=0, label=str(name))
    if scored.target not in features.PERCENT_TARGETS:
        axes.set_xscale("log")
        axes.set_yscale("log")
    unit = UNITS.get(scored.target, "%")
    axes.set(xlim=(low, high), ylim=(low, high), xlabel=f"measured, {unit}", ylabel=f"predicted, {unit}")
    if scored.target not in features.PERCENT_TARGETS:
        _mark_plainly(axes.xaxis)
        _mark_plainly(axes.yaxis)
    _legend(axes)
    return figure


def calibration(scored: Sequence[Scored]) -> Figure:
    """Left: the share of rows within a multiple of the upper bound. Right: coverage by the size of the prediction."""
    figure, (left, right) = _figure(2, f"{scored[0].target}: what upper bounds hold\n{_split(scored[0])}")
    factors = np.geomspace(0.4, 2.5, 120)
    for one in scored:
        colour = _colour(one.model)
        upper = np.maximum(_upper(one), 1e-9)
        needed = one.measured / upper
        line = LINES[COLOURS.index(colour)] if colour in COLOURS else "-"
        within = [(needed <= factor).mean() for factor in factors]
        left.plot(factors, within, color=colour, linestyle=line, label=one.model)
        centres, covered = _by_size(one.predicted.median, one.measured <= upper)
        right.plot(centres, covered, color=colour, linestyle=line, marker="o", markersize=4)
    left.axvline(1.0, color=INK, linewidth=0.8)
    left.set(xscale="log", xlabel="times the upper bound", ylabel="share of rows within", ylim=(0, 1.03))
    left.set_xticks([0.5, 1.0, 2.0], ["0.5", "1", "2"])
    left.minorticks_off()
    right.set(xlabel=f"predicted, {UNITS.get(scored[0].target, '%')}", ylabel="share within the bound", ylim=(0, 1.03))
    if scored[0].target not in features.PERCENT_TARGETS:
        right.set_xscale("log")
        _mark_plainly(right.xaxis)
    for axes in (left, right):
        axes.axhline(NOMINAL, color=INK, linewidth=1, linestyle="--", label=f"aim: {NOMINAL:.0%}")
    _legend(left)
    return figure


def error_by_regime(scored: Sequence[Scored]) -> Figure:
    """Return the main score of each model among the jobs that one thing bounds."""
    target = scored[-1].target
    figure, (axes,) = _figure(1, f"{target}: error by what bounds the job\n{_split(scored[-1])}")
    metric = scores.main_metric(target)
    statistic = scores.point(target)[metric]
    names, counts = np.unique(np.asarray(scored[-1].regimes), return_counts=True)
    width = 0.8 / len(scored)
    for index, one in enumerate(scored):
        regimes = np.asarray(one.regimes)
        values = [statistic(one.measured[regimes == name], one.predicted.median[regimes == name]) for name in names]
        places = np.arange(len(names)) + (index - (len(scored) - 1) / 2) * width
        axes.bar(places, values, width=0.9 * width, color=_colour(one.model), label=one.model)
    labels = [f"{name}\n{count} rows" for name, count in zip(names, counts, strict=True)]
    axes.set_xticks(np.arange(len(names)), labels)
    axes.set(ylabel=SCORES.get(metric, metric))
    figure.legend(loc="outside lower center", ncols=3, fontsize=9, frameon=False, labelcolor=INK)
    return figure


def _figure(columns: int, title: str) -> tuple[Figure, Sequence[Any]]:
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(5.2 * columns, 4.4), layout="constrained")
        figure.suptitle(title, fontsize=11, color=INK)
        return figure, figure.subplots(1, columns, squeeze=False)[0]


def _split(scored: Scored) -> str:
    return f"{scored.split} (simulated)" if scored.simulated else scored.split


def _legend(axes: Any) -> None:
    axes.legend(fontsize=9, frameon=False, labelcolor=INK, loc="best")


def _mark_plainly(axis: Any) -> None:
    """Numbers as they are written, at 1, 2 and 5 of each power of ten; over many powers at 1 alone."""
    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 300 * low else (1,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axis.set_minor_formatter(NullFormatter())


def _colour(model: str) -> str:
    return COLOURS[MODELS.index(model)] if model in MODELS else INK


def _limits(target: str, measured: Array, median: Array) -> tuple[float, float]:
    if target in features.PERCENT_TARGETS:
        return 0.0, 102.0
    both = np.concatenate([measured, median])
    positive = both[both > 0]
    return float(positive.min() / 1.3), float(positive.max() * 1.3)


def _upper(scored: Scored) -> Array:
    upper = scored.predicted.upper
    return np.full_like(scored.measured, np.nan) if upper is None else upper


def _by_size(median: Array, covered: Array) -> tuple[Array, Array]:
    """Means of equally large bins by the size of the prediction."""
    parts = np.array_split(np.argsort(median, kind="stable"), min(BINS, max(1, len(median) // 5)))
    kept = [part for part in parts if len(part)]
    return np.array([median[part].mean() for part in kept]), np.array([covered[part].mean() for part in kept])
