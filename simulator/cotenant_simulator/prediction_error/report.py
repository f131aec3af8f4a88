"""The page of wrong predictions. Pure; writes no file."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, Final

from cotenant_simulator.horus import published
from cotenant_simulator.prediction_error import beliefs, crossing, experiment, gains
from cotenant_simulator.report import page

_DIGITS: Final = 4


def page_of(found: gains.Results, *, command: str) -> page.Page:
    """Return the page.

    Args:
        found: all runs.
        command: that makes it again.
    """
    asked = found.asked
    by_test = [gain for of in asked.axes for gain in gains.gains(found, of)]
    parts: list[page.Table | page.Figure] = [_crossings(by_test, asked)]
    for of in asked.axes:
        parts += [_table(found, of), *(_lines(found, of, measure) for measure in gains.MEASURES)]
    return page.Page(
        title="When predictions are wrong",
        answer=_answer(by_test, asked),
        command=command,
        conditions=list(_conditions(found)),
        parts=parts,
        document=_document(found, by_test),
    )


def _crossings(by_test: Sequence[gains.Gain], asked: gains.Asked) -> page.Table:
    first, last = asked.sigmas[0], asked.sigmas[-1]
    rows: dict[tuple[str, str], list[page.Cell]] = {}
    for gain in by_test:
        rows.setdefault((gain.of, gain.way), [gain.of, gain.way]).append(_crossing(gain.crossing, asked.sigmas))
    return page.Table(
        title="From which error (sigma) on packing by prediction no longer pays, by figure and against whom",
        basis=page.Basis.SIMULATED,
        columns=[page.Column("wrong"), page.Column("way"), *(page.Column(test.name) for test in gains.TESTS)],
        rows=list(rows.values()),
        note=(
            f"From where on the mean change is a loss, on straight lines between the errors that were tried, {first:g} "
            f"to {last:g}; in brackets up to where its whole 95 % interval is a gain, and from where on a loss."
        ),
    )


def _crossing(found: crossing.Crossing, sigmas: Sequence[float]) -> str:
    """Return the mean, and in brackets the interval's ends."""
    if found.at is None:
        mean = f"never within {sigmas[0]:g}..{sigmas[-1]:g}"
    else:
        mean = "never paid" if found.at == sigmas[0] else f"{found.at:.2f}"
    sure = "throughout" if found.sure is None else "nowhere" if found.sure == sigmas[0] else f"to {found.sure:.2f}"
    lost = "" if found.lost is None else f", lost from {found.lost:.2f}"
    return f"{mean} [sure {sure}{lost}]"


def _table(found: gains.Results, of: beliefs.Of) -> page.Table:
    rows = [_row(found, of, way, sigma=None) for way in experiment.OTHERS]
    rows += [_row(found, of, way, sigma=sigma) for way in experiment.BELIEVING for sigma in _few(found.asked.sigmas)]
    return page.Table(
        title=f"Error of {_named(of)}",
        basis=page.Basis.SIMULATED,
        columns=[
            page.Column("way"),
            page.Column("sigma"),
            *(page.Column(measure.title, measure.form) for measure in gains.MEASURES),
        ],
        rows=rows,
    )


def _row(found: gains.Results, of: beliefs.Of, way: str, *, sigma: float | None) -> list[page.Cell]:
    """None: of a way that is the same for every error."""
    at = "any" if sigma is None else f"{sigma:g}"
    return [way, at, *(found.estimate(measure, way, of=of, sigma=sigma or 0.0) for measure in gains.MEASURES)]


def _few(sigmas: Sequence[float]) -> list[float]:
    """Every second and the last; figures show all."""
    return sorted({*sigmas[::2], sigmas[-1]})


def _lines(found: gains.Results, of: beliefs.Of, measure: gains.Measure) -> page.Lines:
    sigmas = found.asked.sigmas
    series = []
    for way in experiment.WAYS:
        means = [found.estimate(measure, way, of=of, sigma=sigma) for sigma in sigmas]
        low, high = [one.low for one in means], [one.high for one in means]
        series.append(page.Series(name=way, x=sigmas, y=[one.mean for one in means], low=low, high=high))
    return page.Lines(
        title=f"{measure.title}, error of {_named(of)}",
        basis=page.Basis.SIMULATED,
        x_label="sigma of the logarithm of believed over real",
        y_label=measure.title,
        series=series,
    )


def _named(of: beliefs.Of) -> str:
    return "utilization and memory" if of is beliefs.Of.BOTH else str(of)


def _answer(by_test: Sequence[gains.Gain], asked: gains.Asked) -> str:
    """Of the way that ships, where most is wrong."""
    told = [
        f"{gain.test.name}: {_pays(gain.crossing, asked.sigmas)}"
        for gain in by_test
        if gain.way == experiment.PREDICTED and gain.of is asked.axes[-1]
    ]
    return f"With an error of {_named(asked.axes[-1])}, packing by prediction pays by {'; '.join(told)}."


def _pays(found: crossing.Crossing, sigmas: Sequence[float]) -> str:
    if found.at == sigmas[0]:
        return "at no error"
    if found.sure == sigmas[0]:
        return "by no sure margin at any error"
    mean = f"at every error up to {sigmas[-1]:g}" if found.at is None else f"up to {found.at:.2f}"
    return mean if found.sure is None else f"{mean}, surely up to {found.sure:.2f}"


def _conditions(found: gains.Results) -> Iterator[str]:
    asked = found.asked
    yield (
        f"Simulated: {published.JOBS} jobs, all submitted at once, on {published.GPUS} GPUs ({published.GPU_MODEL}); "
        "jobs, run times and policy as in `cotenant simulate horus`; the extender's own queue and ledger place them."
    )
    yield (
        f"Modelled: what jobs need is what the model {asked.model} predicts of their graphs, and nothing else; how "
        f"fast they are beside each other by its model of co-location under {asked.mechanism}, the same for every way."
    )
    if not asked.learned:
        yield (
            f"That model has learned from no pairs under {asked.mechanism}: what jobs lack is shared fairly. Real GPUs "
            "interfere in more ways, so that packing too tightly costs more than here."
        )
    yield (
        "Assumed: what is believed is that times a lognormal factor, drawn for each of the mix's graphs, median and "
        "upper bound alike, at most 100 % and at most what a GPU can book. Reality is the same for every error. Thread "
        "demand and step time are believed rightly."
    )
    yield (
        f"For scale: the error that Horus published for utilization is {published.RMSLE:g} (RMSLE); "
        "docs/prediction.md says what ours is."
    )
    yield (
        f"{experiment.PREDICTED} books the upper bound, {experiment.MEDIAN} the median as Horus does, "
        f"{experiment.HYBRID} the upper bound until a job of the same graph was measured alone for a minute; "
        f"{experiment.REACTIVE} measures every job for a minute alone and restarts it; {experiment.SLOT} gives whole "
        "GPUs. An attempt without enough memory is lost and comes again with more. Few jobs share a graph, and while "
        f"the queue is full few are alone: {experiment.HYBRID} seldom learns in time."
    )
    yield (
        f"Means over {len(asked.seeds)} seeds with 95 % intervals by Student's t; changes are paired by seed, which "
        "has the same jobs for every way."
    )
    failed = sum(figures.failed for figures in found.runs.values())
    if failed:
        yield f"{failed} jobs in {len(found.runs)} runs were given up; they count among no times."


def _document(found: gains.Results, by_test: Sequence[gains.Gain]) -> dict[str, Any]:
    asked = found.asked
    return {
        "v": 1,
        "simulated": True,
        "gpus": published.GPUS,
        "gpuModel": published.GPU_MODEL,
        "jobs": published.JOBS,
        "mechanism": asked.mechanism,
        "model": asked.model,
        "learned": asked.learned,
        "crossings": [
            {
                "wrong": gain.of,
                "way": gain.way,
                "test": gain.test.name,
                "allowedPercent": gain.test.allowed_percent,
                "sigma": {name: _rounded(value) for name, value in dataclasses.asdict(gain.crossing).items()},
                "changesPercent": [
                    {"sigma": sigma, "mean": _rounded(one.mean), "low": _rounded(one.low), "high": _rounded(one.high)}
                    for sigma, one in zip(asked.sigmas, gain.changes, strict=True)
                ],
            }
            for gain in by_test
        ],
        "runs": [
            {
                "way": key.way,
                "wrong": key.of,
                "sigma": key.sigma,
                "seed": key.seed,
                **{name: _rounded(value) for name, value in dataclasses.asdict(figures).items()},
            }
            for key, figures in found.runs.items()
        ],
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, _DIGITS)
