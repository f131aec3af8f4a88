"""Results as JSON documents and as Markdown tables. Pure; writes no file."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cotenant_api import packingpolicy
from cotenant_simulator.openb import accounts, expected, experiment

_DIGITS: Final = 4


@dataclass(frozen=True, kw_only=True)
class Series:
    """Runs that differ by their seed alone."""

    trace: str
    setting: experiment.Setting
    results: tuple[experiment.Result, ...]

    def allocated(self, column: int) -> float | None:
        """Mean over seeds, in percent."""
        return accounts.mean([result.outcome.allocated_percent[column] for result in self.results])

    def fragmented(self, column: int) -> float | None:
        """Mean over seeds, in percent."""
        return accounts.mean([result.outcome.fragmented_percent[column] for result in self.results])


def document(series: Series, *, tells_tenants: bool) -> dict[str, Any]:
    """One series as JSON.

    Args:
        series: what is told.
        tells_tenants: whether the limit on tenants, which was asked for, is a key of its own.
    """
    limit = {"max_tenants": series.setting.max_tenants} if tells_tenants else {}
    seeds = [_seed(result) for result in series.results]
    return {"trace": series.trace, "placement": series.setting.policy, **limit, "seeds": seeds}


def _seed(result: experiment.Result) -> dict[str, Any]:
    outcome = result.outcome
    return {
        "seed": result.key.seed,
        "allocated_percent": {str(place): _rounded(outcome.allocated_percent[place]) for place in accounts.SHOWN},
        "fragmented_percent": {str(place): _rounded(outcome.fragmented_percent[place]) for place in accounts.SHOWN},
        "refused_though_fitting": outcome.refused_though_fitting,
        "violations": outcome.violations,
        "seconds": round(result.seconds, 3),
    }


def by_seed(series: Series) -> Iterator[str]:
    """A table of one series: a row for each seed, and their mean."""
    columns = [f"{what} % at {place}" for what in ("allocated", "fragmented") for place in accounts.SHOWN]
    yield f"{series.trace}, {series.setting.policy}, at most {series.setting.max_tenants} tenants per GPU"
    yield ""
    yield from _head(["seed", *columns, "refused though fitting", "violations", "seconds"])
    for result in series.results:
        outcome = result.outcome
        figures = [curve[place] for curve in _curves(result) for place in accounts.SHOWN]
        faults = [str(outcome.refused_though_fitting), str(outcome.violations), f"{result.seconds:.1f}"]
        yield _line([str(result.key.seed), *map(_shown, figures), *faults])
    means = [mean(place) for mean in (series.allocated, series.fragmented) for place in accounts.SHOWN]
    faults = [str(sum(_faults(series.results, what))) for what in ("refused_though_fitting", "violations")]
    seconds = accounts.mean([result.seconds for result in series.results]) or 0.0
    yield _line(["mean", *map(_shown, means), *faults, f"{seconds:.1f}"])
    yield ""


def summary(found: Sequence[Series]) -> Iterator[str]:
    """A table of all series: a row for each placement and limit on tenants, columns for each trace."""
    traces = list(dict.fromkeys(series.trace for series in found))
    settings = list(dict.fromkeys(series.setting for series in found))
    by_key = {(series.trace, series.setting): series for series in found}
    yield from _head(["placement", "tenants at most", *(f"{name}{what}" for name in traces for what in _OF_TRACE)])
    for setting in settings:
        cells = [cell for name in traces for cell in _cells(by_key[name, setting])]
        yield _line([setting.policy, str(setting.max_tenants), *cells])
    yield ""


_OF_TRACE: Final = (" at 100 %", " at 130 %", " fragmented")


def _cells(series: Series) -> list[str]:
    allocated = [_shown(series.allocated(place)) for place in accounts.SHOWN]
    return [*allocated, _shown(series.fragmented(accounts.HEADLINE))]


def published(
    curves: Mapping[expected.Run, expected.Curve], traces: Sequence[str], seeds: Sequence[int]
) -> Iterator[str]:
    """A table of what was published for these traces and seeds, a row for each policy; nothing where nothing was."""
    policies = dict.fromkeys(run.policy for run in sorted(curves) if run.trace in traces and run.seed in seeds)
    if not policies:
        return
    yield from _head(["as published", *(f"{name}{what}" for name in traces for what in _OF_TRACE[:2])])
    for policy in policies:
        runs = ([curves.get(expected.Run(name, policy, seed)) for seed in seeds] for name in traces)
        yield _line([policy, *(_shown(_published_mean(found, place)) for found in runs for place in accounts.SHOWN)])
    yield ""


def _published_mean(found: Sequence[expected.Curve | None], place: int) -> float | None:
    return accounts.mean([None if curve is None else curve.percent[place] for curve in found])


def verdicts(found: Sequence[Series]) -> Iterator[str]:
    """For each limit on tenants: which placement allocates most over all traces, and what the default one lacks."""
    shipped = packingpolicy.Spec().placement.value
    for limit in dict.fromkeys(series.setting.max_tenants for series in found):
        means = _means(series for series in found if series.setting.max_tenants == limit)
        if len(means) < 2 or shipped not in means:
            continue
        best = max(means, key=lambda policy: means[policy])
        less = f"{shipped}, the default, allocates {means[best] - means[shipped]:.2f} points less"
        told = "it is the default" if best == shipped else less
        yield f"At most {limit} tenants per GPU: {best} allocates most, {means[best]:.2f} % over all traces; {told}."
        yield ""


def _means(found: Iterable[Series]) -> dict[str, float]:
    """Allocation at the headline column by policy, over all traces."""
    values: dict[str, list[float | None]] = {}
    for series in found:
        values.setdefault(series.setting.policy, []).append(series.allocated(accounts.HEADLINE))
    means = {policy: accounts.mean(of_policy) for policy, of_policy in values.items()}
    return {policy: mean for policy, mean in means.items() if mean is not None}


def faults(found: Iterable[Series]) -> str | None:
    """What went wrong in any run, in words."""
    results = [result for series in found for result in series.results]
    refused = sum(_faults(results, "refused_though_fitting"))
    violations = sum(_faults(results, "violations"))
    if not refused and not violations:
        return None
    return f"{refused} pods were refused though they fit, {violations} placements took what was not there"


def _faults(results: Iterable[experiment.Result], what: str) -> Iterator[int]:
    return (getattr(result.outcome, what) for result in results)


def _curves(result: experiment.Result) -> tuple[accounts.Curve, accounts.Curve]:
    return result.outcome.allocated_percent, result.outcome.fragmented_percent


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, _DIGITS)


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _head(names: Sequence[str]) -> Iterator[str]:
    yield _line(names)
    yield f"|{'---|' * len(names)}"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
