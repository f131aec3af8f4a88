"""What was assumed, varied one by one: whether the case study's answer hangs on it. Pure; writes no file."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from cotenant_simulator.horus import experiment, goals, population, published, settings
from cotenant_simulator.report import page

_DIGITS: Final = 4
_USUAL: Final = population.Assumed()
_ARRIVALS: Final = (
    "Where jobs arrive over hours, utilization and makespan are from the first arrival to the last end: the wait for "
    "late jobs lowers the one and raises the other for every way."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One assumption that differs from the others; the first case has none.

    Attributes:
        mechanism: how jobs share GPUs in every way; None: each has its own.
    """

    name: str
    assumed: population.Assumed = _USUAL
    definitions: published.Definitions = published.Definitions.TORCHVISION
    mechanism: str | None = None


CASES: Final = (
    Case(name="as in the study's page"),
    Case(name="predictions are exact", assumed=dataclasses.replace(_USUAL, sigma=0.0)),
    Case(name="predictions are off by sigma 0.3", assumed=dataclasses.replace(_USUAL, sigma=0.3)),
    Case(name="users expect exact run times", assumed=dataclasses.replace(_USUAL, estimate_sigma=0.0)),
    Case(name="users are off by sigma 0.6", assumed=dataclasses.replace(_USUAL, estimate_sigma=0.6)),
    Case(name="users are off by sigma 1", assumed=dataclasses.replace(_USUAL, estimate_sigma=1.0)),
    Case(name="jobs arrive over 1 hour", assumed=dataclasses.replace(_USUAL, arrival_seconds=3600.0)),
    Case(name="jobs arrive over 3 hours", assumed=dataclasses.replace(_USUAL, arrival_seconds=10800.0)),
    Case(name="all GPUs are shared in turns", mechanism=settings.TIME_SLICING),
    Case(name="definitions of pytorch-cifar", definitions=published.Definitions.PYTORCH_CIFAR),
)
WAYS: Final = (
    settings.BASE,
    settings.HORUS,
    settings.COTENANT,
    "Cotenant, Hybrid",
    settings.DENSE,
    settings.DENSE_LONG,
)

Runs = Mapping[tuple[str, str], Mapping[int, experiment.Figures]]
"""By case and way, then by seed."""


def setting_of(case: Case, name: str) -> settings.Setting:
    """Return a way under a case."""
    found = settings.named(name)
    return found if case.mechanism is None else dataclasses.replace(found, mechanism=case.mechanism)


def page_of(runs: Runs, *, model: str, command: str) -> page.Page:
    """Return the page."""
    met = {(case.name, way): _goals(runs, case, way) for case in CASES for way in WAYS}
    return page.Page(
        title="A published case study: what was assumed, varied",
        answer=_answer(met),
        command=command,
        conditions=(
            f"Simulated, as in the study's page but for what a row names; model {model}.",
            _ARRIVALS,
            goals.rival(met[CASES[0].name, settings.HORUS]),
        ),
        parts=[_table(runs, met), _bars(met)],
        document=_document(runs, model=model),
    )


def _goals(runs: Runs, case: Case, way: str) -> goals.Goals:
    return goals.of_figures(way, runs[case.name, way], runs[case.name, settings.BASE])


def _answer(met: Mapping[tuple[str, str], goals.Goals]) -> str:
    good = [case.name for case in CASES if all(met[case.name, settings.DENSE_LONG].met)]
    bad = [case.name for case in CASES if case.name not in good]
    told = f"{settings.DENSE_LONG} is no worse than published in {len(good)} of {len(CASES)} cases"
    return f"{told}; not where {'; '.join(bad)}." if bad else f"{told}."


def _table(runs: Runs, met: Mapping[tuple[str, str], goals.Goals]) -> page.Table:
    return page.Table(
        title="One assumption after the other",
        basis=page.Basis.SIMULATED,
        columns=[
            page.Column("assumed"),
            page.Column("way"),
            page.Column("utilization %", ".1f"),
            page.Column("makespan change %", "+.1f"),
            page.Column("run time change %", "+.1f"),
            page.Column("from submission change %", "+.1f"),
            page.Column("worst slowdown %", ".0f"),
        ],
        rows=[
            [case.name, way, one.utilization, one.makespan, one.run, one.completion, one.worst_percent]
            for (case, way, one) in ((case, way, met[case.name, way]) for case in CASES for way in WAYS)
        ],
        note=(
            f"{len(runs[CASES[0].name, settings.BASE])} repeats, with 95 % intervals; changes are against Slot under "
            "the same assumption, seed by seed. The worst slowdown is of all repeats."
        ),
    )


def _bars(met: Mapping[tuple[str, str], goals.Goals]) -> page.Bars:
    return page.Bars(
        title=f"Makespan against Slot: {settings.DENSE_LONG}",
        basis=page.Basis.SIMULATED,
        y_label="%",
        bars={case.name: met[case.name, settings.DENSE_LONG].makespan for case in CASES},
    )


def _document(runs: Runs, *, model: str) -> dict[str, Any]:
    return {"v": 1, "simulated": True, "model": model, "cases": [_of(runs, case) for case in CASES]}


def _of(runs: Runs, case: Case) -> dict[str, Any]:
    return {
        "name": case.name,
        "definitions": case.definitions,
        **dataclasses.asdict(case.assumed),
        "ways": {way: [_seed(seed, one) for seed, one in runs[case.name, way].items()] for way in WAYS},
    }


def _seed(seed: int, found: experiment.Figures) -> dict[str, float]:
    return {"seed": seed, **{name: round(value, _DIGITS) for name, value in dataclasses.asdict(found).items()}}
