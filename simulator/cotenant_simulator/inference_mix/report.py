"""The page of inference beside training: tables, figures, and the same for programs. Pure; writes no file."""

import dataclasses
import statistics
from collections.abc import Callable, Sequence
from typing import Any, Final

from cotenant_simulator.inference_mix import experiment, population
from cotenant_simulator.report import intervals, page

SHIPPED: Final = "FirstFit (as shipped)"
_BY_MEMORY: Final = "MemoryOnly"
_SIMULATED: Final = page.Basis.SIMULATED
_NEVER: Final = "never"
_DIGITS: Final = 4

Figure = Callable[[experiment.Figures], float]


def page_of(
    results: Sequence[experiment.Result], known: population.Mix, scale: population.Scale, *, model: str, command: str
) -> page.Page:
    """Everything that was found.

    Args:
        results: a row each; the first is what others are compared with.
        known: what ran.
        scale: how much of it.
        model: that predicted.
        command: that makes the page again.
    """
    return page.Page(
        title="What inference and training do to each other on shared GPUs",
        answer=_answer(results),
        command=command,
        conditions=_conditions(known, scale, model=model),
        parts=(_services(results, scale), _trainings(results), _distribution(results), _late(results)),
        document=_document(results, known, scale, model=model),
    )


def _mean(result: experiment.Result, figure: Figure) -> page.Estimate | None:
    return intervals.mean([figure(run.figures) for run in result.runs.values()])


def _middle(result: experiment.Result, figure: Figure) -> page.Estimate:
    """Of what grows without bounds where a service is overloaded: the median, and the range."""
    values = [figure(run.figures) for run in result.runs.values()]
    return page.Estimate(statistics.median(values), min(values), max(values))


def _answer(results: Sequence[experiment.Result]) -> str:
    base, by_name = results[0], {result.setting.name: result for result in results}
    parts = [_in_words(base, None)]
    parts += [_in_words(by_name[name], base) for name in (SHIPPED, _BY_MEMORY) if name in by_name]
    return f"Of all requests, at worst of all seeds: {'; '.join(parts)}."


def _in_words(result: experiment.Result, base: experiment.Result | None) -> str:
    within = _middle(result, lambda found: found.within_percent)
    more, slower = _mean_ratio(result, base or result), _mean(result, lambda found: found.slowdown_mean_percent)
    trained = "" if base is None or more is None else f", and trains {more.mean:.1f} times as much"
    slowed = "" if not trained or slower is None else f" with jobs {slower.mean:.1f} % slower"
    return f"{result.setting.name} answers {within.low:.1f} % in time{trained}{slowed}"


def _mean_ratio(result: experiment.Result, base: experiment.Result) -> page.Estimate | None:
    """Training done against the base, seed by seed: services, requests and jobs are the same."""
    pairs = ((run.figures, base.runs[seed].figures) for seed, run in result.runs.items())
    return intervals.mean([one.training_hours / other.training_hours for one, other in pairs if other.training_hours])


def _services(results: Sequence[experiment.Result], scale: population.Scale) -> page.Table:
    return page.Table(
        title="Services",
        basis=_SIMULATED,
        columns=(
            page.Column("policy"),
            page.Column("p50 ms", ".1f"),
            page.Column("p99 ms", ".1f"),
            page.Column("slowest", ".1f"),
            page.Column("in time %", ".2f"),
            page.Column("kept %", ".0f"),
            page.Column("wait s", ".0f"),
        ),
        rows=[
            (
                result.setting.name,
                _middle(result, lambda found: found.p50_milliseconds),
                _middle(result, lambda found: found.p99_milliseconds),
                _middle(result, lambda found: found.worst_p99_steps),
                _middle(result, lambda found: found.within_percent),
                _middle(result, lambda found: found.kept_percent),
                _longest_wait(result),
            )
            for result in results
        ],
        note=(
            "Medians over seeds, with the least and the most. p50, p99: latency of all requests, the wait included. "
            "Slowest: p99 of the slowest service, in its steps alone. In time: requests answered within "
            f"{scale.promise:g} steps alone. Kept: services of which {population.PERCENTILE} % of the answers are in "
            "time. Wait: the longest of a service for its GPU."
        ),
    )


def _longest_wait(result: experiment.Result) -> page.Cell:
    waits = [run.figures.service_wait_seconds for run in result.runs.values()]
    return _NEVER if None in waits else max(wait for wait in waits if wait is not None)


def _trainings(results: Sequence[experiment.Result]) -> page.Table:
    return page.Table(
        title="Training",
        basis=_SIMULATED,
        columns=(
            page.Column("policy"),
            page.Column("hours done", ".1f"),
            page.Column("times", ".2f"),
            page.Column("slower %", ".1f"),
            page.Column("worst %", ".0f"),
            page.Column("wait s", ".0f"),
            page.Column("evicted", ".1f"),
            page.Column("GPUs", ".1f"),
            page.Column("busy %", ".1f"),
        ),
        rows=[
            (
                result.setting.name,
                _mean(result, lambda found: found.training_hours),
                _mean_ratio(result, results[0]),
                _mean(result, lambda found: found.slowdown_mean_percent),
                max(run.figures.slowdown_worst_percent for run in result.runs.values()),
                _mean(result, lambda found: found.training_wait_seconds),
                _mean(result, lambda found: float(found.evictions)),
                _mean(result, lambda found: found.occupied),
                _mean(result, lambda found: found.utilization_percent),
            )
            for result in results
        ],
        note=(
            "Means over seeds with 95 % intervals (Student's t). Hours done: of work, counted alone; times: those of "
            f"{results[0].setting.name}. Slower: how much longer jobs held their GPU than what they did there takes "
            "alone, on average, and the worst of all seeds. Wait: until a job first ran. GPUs: in use. Busy: "
            "utilization of all GPUs."
        ),
    )


def _distribution(results: Sequence[experiment.Result]) -> page.Lines:
    """Return the tail of all requests.

    Medians over seeds, as one overloaded service would hide all others in a mean.
    """
    levels = experiment.LEVELS[::-1]
    series = []
    for result in results:
        by_level = zip(*(run.quantiles for run in result.runs.values()), strict=True)
        steps = [statistics.median(values) for values in by_level][::-1]
        series.append(page.Series(name=result.setting.name, x=[100 * (1 - level) for level in levels], y=steps))
    return page.Lines(
        title="Latency, the wait included, median over seeds",
        basis=_SIMULATED,
        x_label="% of all requests that are slower",
        y_label="steps alone",
        series=series,
        logarithmic=True,
    )


def _late(results: Sequence[experiment.Result]) -> page.Bars:
    return page.Bars(
        title="Requests answered late, median over seeds",
        basis=_SIMULATED,
        y_label="% of requests",
        bars={result.setting.name: _middle(result, lambda found: 100 - found.within_percent) for result in results},
        interval="least and most over seeds",
    )


def _conditions(known: population.Mix, scale: population.Scale, *, model: str) -> Sequence[str]:
    low, high = (100 * bound for bound in scale.load)
    shortest, longest = population.SHORTEST_SECONDS / 60, population.LONGEST_SECONDS / 3600
    simulated = (
        f"Simulated: {scale.gpus} GPUs ({known.device.name}), {scale.hours:g} hours, placed by the extender's ledger "
        "and queue. Every request's time in its replica's queue is computed, not drawn from a formula."
    )
    predicted = (
        f"Predicted by {model}, from graphs of {len(known.serving)} services and {len(known.training)} training jobs, "
        "and taken for true: needs, memory and step times."
    )
    modelled = (
        "Modelled: how fast tenants are beside each other, by the predictor's model of co-location under MPS. It knows "
        "no pairs measured under MPS yet: SM time and memory bandwidth are shared fairly, and a tenant of lower client "
        "priority gets what others leave. Real GPUs interfere in more ways."
    )
    bursts = (
        "A service is slowed while it answers as one that never idles would be, beside its neighbours as they are on "
        "average: a neighbour's bursts are not seen. Training is slowed by what a service needs on average."
    )
    services = (
        f"Assumed: {scale.services} services of one replica, each busy {low:g} to {high:g} % of the time if alone; "
        "requests come independently of each other (Poisson), one step of the graph each, answered in order; half of "
        "the services are there from the start, the others come in the first half. They go before training."
    )
    trainings = (
        f"Assumed: training jobs of {shortest:g} minutes to {longest:g} hours alone (log-uniform) that come as if to "
        f"keep {population.TRAINING_LOAD:g} times the GPUs busy; one that is evicted for a service begins anew."
    )
    settings = (
        "No client priority: as if training beside a service had the same. 150 %: maxUtilizationPercent. MemoryOnly: "
        "with threadPartition None, as it limits no threads."
    )
    return (simulated, predicted, modelled, bursts, services, trainings, settings)


def _document(
    results: Sequence[experiment.Result], known: population.Mix, scale: population.Scale, *, model: str
) -> dict[str, Any]:
    return {
        "v": 1,
        "simulated": True,
        "model": model,
        "gpuModel": known.device.name,
        "scale": dataclasses.asdict(scale),
        "services": sorted(known.serving),
        "trainings": sorted(known.training),
        "settings": [
            {
                "name": result.setting.name,
                "packing": dict(result.setting.packing),
                "clientPriorities": result.setting.priorities,
                "seeds": [{"seed": seed, **_rounded(run.figures)} for seed, run in result.runs.items()],
            }
            for result in results
        ],
    }


def _rounded(found: experiment.Figures) -> dict[str, float | None]:
    values = dataclasses.asdict(found).items()
    return {name: None if value is None else round(value, _DIGITS) for name, value in values}
