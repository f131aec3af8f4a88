"""Results as JSON documents and as a page. Pure; writes no file."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cotenant_api import packingpolicy
from cotenant_simulator.openb import accounts, bounds, expected, experiment
from cotenant_simulator.report import intervals, page

CONDITIONS: Final = (
    "Nodes and pods are those of the trace; the order of arrivals is the published one of each seed.",
    "Pods arrive until 1.3 times the cluster's GPUs were asked for, never leave, and are dropped if they fit nowhere.",
    "The placements are the functions that filter calls; what they learn of demands, they learn from arrivals so far.",
    "The trace says nothing of GPU memory and of who owns a pod: memory is booked by share, and anyone may share.",
    "Bound: for each seed a cutting-stock linear program over the same arrivals, solved by HiGHS.",
    "Fragmented: idle at 100 % and of no use to the trace's typical pods.",
    "Figures are means over the seeds, with 95 % intervals by Student's t.",
)

_DIGITS: Final = 4
_PERCENT: Final = ".2f"


@dataclass(frozen=True, kw_only=True)
class Series:
    """Runs that differ by their seed alone.

    Attributes:
        bounds: of each run, in the same order.
    """

    trace: str
    setting: experiment.Setting
    results: tuple[experiment.Result, ...]
    bounds: tuple[bounds.Bounds, ...]

    def allocated(self, column: int) -> page.Estimate | None:
        """Mean over seeds, in percent."""
        return _mean(result.outcome.allocated_percent[column] for result in self.results)

    def fragmented(self, column: int) -> page.Estimate | None:
        """Mean over seeds, in percent."""
        return _mean(result.outcome.fragmented_percent[column] for result in self.results)

    def bound(self, column: int) -> page.Estimate | None:
        """Mean over seeds, in percent."""
        return _mean(one[column] for one in self.bounds)

    def lacking(self, column: int) -> page.Estimate | None:
        """Return what is lost against the bound: mean over seeds, in percent points."""
        pairs = zip(self.results, self.bounds, strict=True)
        return _mean(_minus(bound[column], result.outcome.allocated_percent[column]) for result, bound in pairs)


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


def shown(found: Sequence[Series], published: Mapping[expected.Run, expected.Curve], *, command: str) -> page.Page:
    """All series.

    Args:
        found: of every trace with every setting.
        published: curves; those of the same traces and seeds are shown.
        command: that makes the page again.
    """
    parts: list[page.Table | page.Figure] = []
    for name in dict.fromkeys(series.trace for series in found):
        mine = [series for series in found if series.trace == name]
        parts.append(_summary(name, mine))
        parts.extend(_published(name, published, [result.key.seed for result in mine[0].results]))
        parts.extend((_idle(name, mine), _lacking(name, mine)))
    if len(found) == 1:
        parts.insert(1, _by_seed(found[0]))
    return page.Page(
        title="How much of a cluster's GPUs placements allocate (openb: Weng et al., ATC 2023)",
        answer=" ".join(verdicts(found)) or _alone(found[0]),
        command=command,
        conditions=(_told(found), *CONDITIONS),
        parts=parts,
        document={"v": 1, "simulated": True, "series": [_whole(series) for series in found]},
    )


def _whole(series: Series) -> dict[str, Any]:
    """As the document of a series, with its bounds, and without how fast it was computed: the same each time."""
    told = document(series, tells_tenants=True)
    for seed, limits in zip(told["seeds"], series.bounds, strict=True):
        del seed["seconds"]
        seed["bound_percent"] = {str(place): _rounded(limits[place]) for place in accounts.SHOWN}
    return told


def _summary(name: str, found: Sequence[Series]) -> page.Table:
    columns = [
        page.Column("placement"),
        page.Column("tenants at most", "d"),
        page.Column("allocated % at 100 %", _PERCENT),
        page.Column("bound %", _PERCENT),
        page.Column("below it", _PERCENT),
        page.Column("allocated % at 130 %", _PERCENT),
        page.Column("fragmented %", _PERCENT),
    ]
    rows = [
        (
            series.setting.policy,
            series.setting.max_tenants,
            series.allocated(accounts.HEADLINE),
            _middle(series.bound(accounts.HEADLINE)),
            _middle(series.lacking(accounts.HEADLINE)),
            series.allocated(accounts.LAST),
            _middle(series.fragmented(accounts.HEADLINE)),
        )
        for series in found
    ]
    count = len(found[0].results)
    note = (
        f"{count} seed{'s' if count > 1 else ''}. Bound: no placement can allocate more at 100 %; below it: in points."
    )
    return page.Table(
        title=f"Allocated on the trace {name}", basis=page.Basis.SIMULATED, columns=columns, rows=rows, note=note
    )


def _published(name: str, curves: Mapping[expected.Run, expected.Curve], seeds: Sequence[int]) -> Iterator[page.Table]:
    """Yield a row for each policy; nothing where nothing was published for this trace and these seeds."""
    policies = dict.fromkeys(run.policy for run in sorted(curves) if run.trace == name and run.seed in seeds)
    if not policies:
        return
    columns = [page.Column("policy"), *(page.Column(f"allocated % at {place} %", _PERCENT) for place in accounts.SHOWN)]
    rows = []
    for policy in policies:
        of_policy = [curves.get(expected.Run(name, policy, seed)) for seed in seeds]
        known = [curve for curve in of_policy if curve is not None]
        rows.append((policy, *(_mean(curve.percent[place] for curve in known) for place in accounts.SHOWN)))
    yield page.Table(title=f"As published, on the trace {name}", basis=page.Basis.PUBLISHED, columns=columns, rows=rows)


def _idle(name: str, found: Sequence[Series]) -> page.Lines:
    """Return what is asked for and not given, which tells placements apart where allocation itself would not."""
    lines = []
    for series in found:
        points = [(place, _asked_for(series, place)) for place in range(accounts.LAST + 1)]
        known = [(place, value) for place, value in points if value is not None]
        lines.append(
            page.Series(
                name=_name(series, found),
                x=[place for place, _ in known],
                y=[value.mean for _, value in known],
                low=[value.low for _, value in known],
                high=[value.high for _, value in known],
            )
        )
    return page.Lines(
        title=f"Idle though it is asked for, on the trace {name}",
        basis=page.Basis.SIMULATED,
        x_label="GPU demand that has arrived, % of the cluster",
        y_label="GPUs, % of the cluster",
        series=lines,
    )


def _asked_for(series: Series, place: int) -> page.Estimate | None:
    """Up to the whole cluster."""
    wanted = float(min(place, accounts.HEADLINE))
    return _mean(_minus(wanted, result.outcome.allocated_percent[place]) for result in series.results)


def _lacking(name: str, found: Sequence[Series]) -> page.Bars:
    values = {_name(series, found): series.lacking(accounts.HEADLINE) for series in found}
    return page.Bars(
        title=f"Lost against the bound, on the trace {name}",
        basis=page.Basis.SIMULATED,
        y_label="percent points below what any placement could allocate at 100 %",
        bars={name: value for name, value in values.items() if value is not None},
    )


def _by_seed(series: Series) -> page.Table:
    forms = [f"{what} % at {place} %" for what in ("allocated", "fragmented") for place in accounts.SHOWN]
    columns = [
        page.Column("seed", "d"),
        *(page.Column(title, _PERCENT) for title in forms),
        page.Column("bound %", _PERCENT),
        page.Column("refused though fitting", "d"),
        page.Column("violations", "d"),
    ]
    rows = []
    for result, bound in zip(series.results, series.bounds, strict=True):
        outcome = result.outcome
        curves = (outcome.allocated_percent, outcome.fragmented_percent)
        figures = [curve[place] for curve in curves for place in accounts.SHOWN]
        faults = (outcome.refused_though_fitting, outcome.violations)
        rows.append((result.key.seed, *figures, bound[accounts.HEADLINE], *faults))
    return page.Table(title="Each seed", basis=page.Basis.SIMULATED, columns=columns, rows=rows)


def _name(series: Series, found: Sequence[Series]) -> str:
    """Return the name, with the limit where there are several."""
    limits = {one.setting.max_tenants for one in found}
    return series.setting.policy if len(limits) == 1 else f"{series.setting.policy}, {series.setting.max_tenants}"


def verdicts(found: Sequence[Series]) -> Iterator[str]:
    """For each limit on tenants: which placement allocates most over all traces, and what the default one lacks."""
    shipped = packingpolicy.Spec().placement.value
    for limit in dict.fromkeys(series.setting.max_tenants for series in found):
        means = _means(series for series in found if series.setting.max_tenants == limit)
        if len(means) < 2:
            continue
        best = max(means, key=lambda policy: means[policy])
        won = f"At most {limit} tenants per GPU: {best} allocates most, {means[best]:.2f} % over all traces"
        if shipped not in means:
            yield f"{won}."
            continue
        less = f"{shipped}, the default, allocates {means[best] - means[shipped]:.2f} points less"
        told = "it is the default" if best == shipped else less
        yield f"{won}; {told}."


def _alone(series: Series) -> str:
    """Where there is nothing to compare."""
    found, bound = series.allocated(accounts.HEADLINE), series.bound(accounts.HEADLINE)
    if found is None or bound is None:
        return f"{series.setting.policy} on {series.trace}: no demand comes near the cluster's GPUs."
    told = f"{series.setting.policy} allocates {found.mean:.2f} % of the GPUs when as many were asked for"
    return f"{told}; no placement could allocate more than {bound.mean:.2f} %."


def _means(found: Iterable[Series]) -> dict[str, float]:
    """Allocation at the headline column by policy, over all traces."""
    values: dict[str, list[float]] = {}
    for series in found:
        allocated = series.allocated(accounts.HEADLINE)
        if allocated is not None:
            values.setdefault(series.setting.policy, []).append(allocated.mean)
    return {policy: sum(of_policy) / len(of_policy) for policy, of_policy in values.items()}


def _told(found: Iterable[Series]) -> str:
    return faults(found) or (
        "No pod was refused that fits, and no placement took what was not there, by a count that shares no code with "
        "packing."
    )


def faults(found: Iterable[Series]) -> str | None:
    """Return what went wrong in any run, in words."""
    outcomes = [result.outcome for series in found for result in series.results]
    refused = sum(outcome.refused_though_fitting for outcome in outcomes)
    violations = sum(outcome.violations for outcome in outcomes)
    if not refused and not violations:
        return None
    return f"{refused} pods were refused though they fit, {violations} placements took what was not there"


def _mean(values: Iterable[float | None]) -> page.Estimate | None:
    """Of what is known."""
    return intervals.mean([value for value in values if value is not None])


def _middle(estimate: page.Estimate | None) -> float | None:
    return None if estimate is None else estimate.mean


def _minus(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one - other


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, _DIGITS)
