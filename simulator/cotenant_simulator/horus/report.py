"""The case study's page: what each way came to, with intervals, beside the published figures. Pure; writes no file."""

import dataclasses
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cotenant_simulator.engine import ways
from cotenant_simulator.horus import experiment, goals, plots, population, published, settings
from cotenant_simulator.report import intervals, page

_DIGITS: Final = 4
_EXACT: Final = 9
"""Below, differences are those of binary fractions."""

Read = Callable[[experiment.Run], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was run.

    Attributes:
        model: of prediction and co-location, by reference.
        command: that makes the page again.
    """

    definitions: str
    assumed: population.Assumed
    model: str
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One figure of a run, and a column.

    Attributes:
        title: with the unit.
        form: of its numbers.
        read: from a run.
        key: of its interval in the document.
        against: whether it is a change against `settings.BASE`, in percent.
    """

    title: str
    form: str
    read: Read
    key: str
    against: bool = False


CLUSTER: Final = (
    Measure(title="utilization %", form=".1f", read=lambda run: run.figures.utilization_percent, key="utilization"),
    Measure(title="work %", form=".1f", read=lambda run: run.work_percent, key="work"),
    Measure(title="makespan s", form=".0f", read=lambda run: run.figures.makespan_seconds, key="makespan"),
    Measure(
        title="change %",
        form="+.1f",
        read=lambda run: run.figures.makespan_seconds,
        key="makespanChange",
        against=True,
    ),
)
JOBS: Final = (
    Measure(title="run time s", form=".0f", read=lambda run: run.figures.run_seconds, key="run"),
    Measure(title="change %", form="+.1f", read=lambda run: run.figures.run_seconds, key="runChange", against=True),
    Measure(title="from submission s", form=".0f", read=lambda run: run.figures.completion_seconds, key="completion"),
    Measure(
        title="change %",
        form="+.1f",
        read=lambda run: run.figures.completion_seconds,
        key="completionChange",
        against=True,
    ),
    Measure(
        title="median slowdown %",
        form=".1f",
        read=lambda run: 100 * run.figures.slowdown_median,
        key="slowdownMedian",
    ),
)


def page_of(results: Sequence[experiment.Result], asked: Asked) -> page.Page:
    """Return the page.

    Raises:
        ValueError: the setting that others are compared with is missing.
    """
    base = base_of(results)
    met = [goals.of(result, base) for result in results]
    return page.Page(
        title="A published case study",
        answer=goals.answer(met),
        command=asked.command,
        conditions=list(_conditions(results, asked)),
        parts=[
            *_tables(results, base),
            _published(),
            goals.table(met),
            _bounds(base),
            _policies(results),
            *plots.parts(results, base),
        ],
        document=document(results, asked),
    )


def base_of(results: Sequence[experiment.Result]) -> experiment.Result:
    """Return what others are compared with.

    Raises:
        ValueError: it is missing.
    """
    base = next((result for result in results if result.setting.name == settings.BASE), None)
    if base is None:
        raise ValueError(f"without {settings.BASE} there is nothing to compare with")
    return base


def document(results: Sequence[experiment.Result], asked: Asked) -> dict[str, Any]:
    """All runs as one JSON object."""
    base = base_of(results)
    return {
        "v": 1,
        "simulated": True,
        "gpus": published.GPUS,
        "gpuModel": published.GPU_MODEL,
        "jobs": published.JOBS,
        "definitions": asked.definitions,
        "sigma": asked.assumed.sigma,
        "model": asked.model,
        "settings": [
            {
                "name": result.setting.name,
                "mechanism": result.setting.mechanism,
                "packing": dict(result.setting.packing),
                "longFirst": result.setting.classes is not None,
                "seeds": [{"seed": seed, **_rounded(found.figures)} for seed, found in result.runs.items()],
                "intervals": {measure.key: _interval(estimate(result, base, measure)) for measure in (*CLUSTER, *JOBS)},
            }
            for result in results
        ],
    }


def estimate(result: experiment.Result, base: experiment.Result, measure: Measure) -> page.Estimate:
    """Over seeds, with its interval; what is compared is compared seed by seed: the jobs are the same.

    Raises:
        ValueError: there is no run.
    """
    values = changes(result, base, measure.read) if measure.against else list(map(measure.read, result.runs.values()))
    found = intervals.mean(values)
    if found is None:
        raise ValueError(f"{result.setting.name}: no run")
    return found


def changes(result: experiment.Result, base: experiment.Result, read: Read) -> list[float]:
    """In percent, by seed."""
    return [round(100 * (read(run) / read(base.runs[seed]) - 1), _EXACT) for seed, run in result.runs.items()]


def _tables(results: Sequence[experiment.Result], base: experiment.Result) -> Iterator[page.Table]:
    repeats = f"{published.JOBS} jobs on {published.GPUS} GPUs, {len(base.runs)} repeats"
    yield page.Table(
        title=f"The cluster: {repeats}",
        basis=page.Basis.SIMULATED,
        columns=[page.Column("way"), page.Column("GPUs shared by"), *_columns(CLUSTER)],
        rows=[
            [result.setting.name, _sharing(result), *(estimate(result, base, measure) for measure in CLUSTER)]
            for result in results
        ],
        note=(
            "Means over repeats with 95 % intervals; changes are against Slot, seed by seed. Utilization: time in "
            "which a GPU runs any kernel. Work: time that the jobs' kernels take alone; it is more than utilization "
            "where kernels run side by side, and less where attempts are repeated. Long first: jobs have "
            "PriorityClasses by the run time that "
            "their users expect."
        ),
    )
    worst = page.Column("worst slowdown %", ".0f")
    counted = [page.Column("OOM", ".1f"), page.Column("failed", "d")]
    yield page.Table(
        title=f"The jobs: {repeats}",
        basis=page.Basis.SIMULATED,
        columns=[page.Column("way"), *_columns(JOBS), worst, *counted],
        rows=[_job_cells(result, base) for result in results],
        note=(
            "Run time: while a job holds its GPU; from submission: with the wait. Slowdown: run time over the job's "
            "run time alone, of the median job in the mean of repeats, and of the worst job of all repeats. OOM: "
            "attempts that ran out of memory."
        ),
    )


def _columns(measures: Sequence[Measure]) -> list[page.Column]:
    return [page.Column(measure.title, measure.form) for measure in measures]


def _sharing(result: experiment.Result) -> str:
    return "nobody" if isinstance(result.setting.way, ways.Slot) else result.setting.mechanism


def _job_cells(result: experiment.Result, base: experiment.Result) -> list[page.Cell]:
    figures = [run.figures for run in result.runs.values()]
    return [
        result.setting.name,
        *(estimate(result, base, measure) for measure in JOBS),
        100 * max(run.slowdown_worst for run in figures),
        sum(run.out_of_memory for run in figures) / len(figures),
        sum(run.failed for run in figures),
    ]


def _published() -> page.Table:
    slot = published.ROWS[settings.BASE].completion_seconds
    return page.Table(
        title="Yeung et al., HotCloud 2020, section 6 and table 4",
        basis=page.Basis.PUBLISHED,
        columns=[
            page.Column("way"),
            page.Column("utilization %", ".1f"),
            page.Column("makespan change %", "+.1f"),
            page.Column("run time s", ".0f"),
            page.Column("change %", "+.1f"),
        ],
        rows=[
            [
                name,
                row.utilization_percent,
                row.makespan_change_percent,
                row.completion_seconds,
                100 * (row.completion_seconds / slot - 1),
            ]
            for name, row in published.ROWS.items()
        ],
        note=(
            "The study calls the last figures job completion times; slots have the least, so that they must be run "
            "times without the wait. Changes are against Slot. Against Reactive it gives a makespan 26.5 % shorter."
        ),
    )


def _bounds(base: experiment.Result) -> page.Table:
    """By the jobs of the base: those of all ways are the same."""
    rows: list[list[page.Cell]] = []
    kinds: Sequence[tuple[str, Read]] = (
        ("the longest job", lambda run: run.bounds.longest_seconds),
        ("a GPU for each job", lambda run: run.bounds.slot_seconds),
        ("GPUs shared in turns", lambda run: run.bounds.turns_seconds),
        ("GPUs shared by MPS", lambda run: run.bounds.mps_seconds),
    )
    for name, read in kinds:
        shorter = [100 * (read(run) / run.figures.makespan_seconds - 1) for run in base.runs.values()]
        work = [100 * run.bounds.busy_seconds / (run.bounds.gpus * read(run)) for run in base.runs.values()]
        rows.append(
            [name, intervals.mean(list(map(read, base.runs.values()))), intervals.mean(shorter), intervals.mean(work)]
        )
    return page.Table(
        title="What no schedule can beat",
        basis=page.Basis.SIMULATED,
        columns=[
            page.Column("bound"),
            page.Column("makespan s", ".0f"),
            page.Column("change %", "+.1f"),
            page.Column("work %", ".1f"),
        ],
        rows=rows,
        note=(
            "Work over capacity, and never less than the longest job; by what jobs really need, without waste. Changes "
            "are against Slot as simulated. Work: what this makespan would mean; above 100 % kernels run side by side."
        ),
    )


def _policies(results: Sequence[experiment.Result]) -> page.Table:
    return page.Table(
        title="The policies",
        basis=page.Basis.SIMULATED,
        columns=[page.Column("way"), page.Column("PackingPolicy.spec, where it differs from what ships")],
        rows=[[result.setting.name, yaml(result.setting.packing) or "as it ships"] for result in results],
    )


def yaml(fields: Any) -> str:
    """On one line, in YAML's flow style, braces left out around the whole."""
    return ", ".join(f"{name}: {_flow(value)}" for name, value in fields.items())


def _flow(value: Any) -> str:
    return "{" + yaml(value) + "}" if isinstance(value, dict) else json.dumps(value).strip('"')


def _conditions(results: Sequence[experiment.Result], asked: Asked) -> Iterator[str]:
    assumed, classes = asked.assumed, settings.LONG_FIRST
    yield (
        "Simulated: the extender's own ledger, queue and packing in virtual time; nothing was measured on a GPU. "
        f"Needs and speeds together are those of model {asked.model}; it knows no measured pairs under MPS, so that "
        "there jobs lose by a lack of SM time or memory bandwidth, and in no other way."
    )
    yield (
        f"Published: {published.GPUS} GPUs ({published.GPU_MODEL}), {published.JOBS} jobs, run times of 2 minutes to 2 "
        "hours, at most 3 jobs on a GPU, submission again after out of memory, and the figures of the published table."
    )
    arrival = "all at once" if not assumed.arrival_seconds else f"over {assumed.arrival_seconds / 3600:g} hours"
    yield (
        f"Assumed: jobs are drawn evenly from {published.Definitions(asked.definitions)} definitions of the study's "
        f"models at its batch sizes, submitted {arrival}, with log-uniform run times; real utilization is lognormal "
        f"about its prediction with sigma {assumed.sigma:g}, memory with {population.MEMORY_SIGMA:g}, alike for all "
        "jobs of one model."
    )
    yield (
        f"Assumed for long first: users expect run times that are lognormal about the real ones with sigma "
        f"{assumed.estimate_sigma:g}; at {classes.long_seconds:g} s or more a job has the highest PriorityClass, below "
        f"{classes.short_seconds:g} s the next, else the lowest; minimumRunSeconds keeps all from eviction "
        f"(queue.maxMinimumRunSeconds: {population.NEVER}). The study does not say by what "
        "its first fit is decreasing, nor what its users said of run times."
    )
    if any(result.setting.name == settings.DENSE for result in results):
        yield (
            "The dense policy books by SM activity, gives back the margin of the shipped model (upper bounds are 1.4 "
            "times medians), limits nobody's threads and serves first come first; without limits neighbours are "
            "protected by the GPU's fairness alone, which is modelled and not measured. The one with limits keeps "
            "them, and part of the margin. Both were chosen on seeds 1000 to 1019."
        )
    if not assumed.arrival_seconds:
        yield (
            "Hybrid corrects what is booked later; with all jobs submitted at once all are booked before anything is "
            "measured, and it is what it would be without."
        )


def _interval(found: page.Estimate) -> dict[str, float]:
    return {name: round(value, _DIGITS) for name, value in dataclasses.asdict(found).items()}


def _rounded(found: experiment.Figures) -> dict[str, float]:
    return {name: round(value, _DIGITS) for name, value in dataclasses.asdict(found).items()}
