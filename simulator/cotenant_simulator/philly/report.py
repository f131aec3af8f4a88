"""The page of real arrivals: each way against one job a GPU, whatever the truth is. Pure; writes no file."""

from collections.abc import Mapping
from typing import Any

from cotenant_simulator.philly import experiment, population, settings, truths
from cotenant_simulator.report import intervals, page, tails

Results = Mapping[experiment.Key, experiment.Figures]
"""The runs of one job a GPU stand under the formula alone: nobody shares, so that every truth gives the same."""


def page_of(found: Results, *, model: str, command: str) -> page.Page:
    """Return the page.

    Args:
        found: all runs.
        model: that predicted, by its digest.
        command: that makes it again.
    """
    return page.Page(
        title="Real arrivals over measured pairs",
        answer=" ".join(_sentence(found, way) for way in _ways()),
        command=command,
        conditions=_conditions(found, model=model),
        parts=[part(found, load) for load in _loads(found) for part in (_changes, _slowdowns)] + [_clusters(found)],
        document=_document(found, model=model),
    )


def changes(found: Results, *, load: float, truth: truths.Truth, way: str) -> list[float]:
    """Of the mean time from submission to end, in percent of that with one job a GPU, by virtual cluster."""
    values = []
    for key, one in sorted(found.items(), key=lambda item: item[0].cluster):
        if (key.load, key.truth, key.way) == (load, truth, way):
            base = found[experiment.base(key)]
            values.append(100 * (one.mean_seconds / base.mean_seconds - 1))
    return values


def _loads(found: Results) -> list[float]:
    return sorted({key.load for key in found})


def _ways() -> list[str]:
    return [setting.name for setting in settings.ALL if setting.name != settings.BASE]


def _worst(found: Results, *, load: float, truth: truths.Truth, way: str) -> float:
    """Return the 99th percentile of the slowdowns of all virtual clusters, in percent."""
    keys = [key for key in found if (key.load, key.truth, key.way) == (load, truth, way)]
    return 100 * tails.percentile(sorted(value for key in keys for value in found[key].slowdowns))


def _sentence(found: Results, way: str) -> str:
    loads = _loads(found)
    cases = [changes(found, load=load, truth=truth, way=way) for load in loads for truth in truths.Truth]
    means = [mean for case in cases if (mean := intervals.mean(case)) is not None]
    better = sum(one.high < 0 for one in means)
    worse = sum(one.low > 0 for one in means)
    return (
        f"{way}: sooner done than with one job a GPU in {better} of {len(means)} cases, later in {worse}, not sure in "
        f"{len(means) - better - worse}."
    )


def _changes(found: Results, load: float) -> page.Table:
    return page.Table(
        title=f"Load {load:g}: time from submission to end, change of the mean in %",
        basis=page.Basis.SIMULATED,
        columns=[page.Column("way"), *(page.Column(str(truth), "+.1f") for truth in truths.Truth)],
        rows=[
            [way, *(intervals.mean(changes(found, load=load, truth=truth, way=way)) for truth in truths.Truth)]
            for way in _ways()
        ],
        note=f"Against {settings.BASE}, cluster by cluster: means over the virtual clusters with 95 % intervals.",
    )


def _slowdowns(found: Results, load: float) -> page.Table:
    return page.Table(
        title=f"Load {load:g}: slowdown of one job in a hundred, %",
        basis=page.Basis.SIMULATED,
        columns=[page.Column("way"), *(page.Column(str(truth), ".0f") for truth in truths.Truth)],
        rows=[[way, *(_worst(found, load=load, truth=truth, way=way) for truth in truths.Truth)] for way in _ways()],
        note="How much longer a job holds its GPU than it would run alone: the 99th percentile over all jobs.",
    )


def _clusters(found: Results) -> page.Table:
    loads = _loads(found)
    return page.Table(
        title="The virtual clusters, with one job a GPU",
        basis=page.Basis.SIMULATED,
        columns=[
            page.Column("cluster"),
            page.Column("jobs", ".0f"),
            page.Column("of one GPU", ".0f"),
            page.Column("their part of the work %", ".0f"),
            page.Column("GPUs", ".0f"),
            *(page.Column(f"load {load:g}: hours to the end", ".1f") for load in loads),
        ],
        rows=[_cluster(found, name) for name in sorted({key.cluster for key in found})],
        note="Only jobs of one GPU can share: their part of the work bounds what sharing can be worth.",
    )


def _cluster(found: Results, name: str) -> list[page.Cell]:
    runs = {key: one for key, one in found.items() if key.cluster == name and key.way == settings.BASE}
    given = population.submitted(name, next(iter(runs)).jobs)
    small = [one for one in given if one.gpus == 1]
    part = 100 * population.work_seconds(small) / population.work_seconds(given)
    gpus = population.GPUS_PER_NODE * len(population.nodes(given))
    hours = [one.mean_seconds / 3600 for _, one in sorted(runs.items(), key=lambda run: run[0].load)]
    return [name, float(len(given)), float(len(small)), part, float(gpus), *hours]


def _conditions(found: Results, *, model: str) -> list[str]:
    unfinished = sum(one.unfinished for one in found.values())
    out_of_memory = sum(one.out_of_memory for one in found.values())
    simulated = (
        "Simulated: the extender's own ledger, queue and packing in virtual time, on V100s; predictions by model "
        f"{model}. Jobs that were never done: {unfinished}; attempts out of memory, over all runs: {out_of_memory}."
    )
    published = (
        "Published: when jobs came, how long they are and on how many GPUs (virtual clusters of Philly); which of "
        f"Gavel's 26 jobs each is was drawn by Gavel's authors. The first {next(iter(found)).jobs} of each cluster."
    )
    measured = (
        "Measured: under `measured` and `measured again` the speeds of the pairs that ran, on V100, by Gavel's "
        "authors; whether MPS was on is not recorded. Pairs that did not run have the formula's speeds."
    )
    formula = (
        "`formula`: jobs lose by a lack of SM time or memory bandwidth alone. `formula and 8 %`: and by "
        f"{100 * truths.TAX:.0f} % for each neighbour."
    )
    pairs = (
        f"At most {settings.MAX_TENANTS} jobs on a GPU under every way: of three no speeds were measured. Jobs of "
        "several GPUs have whole ones."
    )
    assumed = (
        "Assumed: what a job needs is lognormal about what is predicted, as in the case study; arrivals are drawn out "
        "or pressed together to the load."
    )
    return [simulated, published, measured, formula, pairs, assumed]


def _document(found: Results, *, model: str) -> Mapping[str, Any]:
    return {
        "model": model,
        "runs": [
            {
                "cluster": key.cluster,
                "load": key.load,
                "truth": str(key.truth),
                "way": key.way,
                "mean_seconds": one.mean_seconds,
                "p99_seconds": tails.percentile(one.completions),
                "p99_slowdown": tails.percentile(one.slowdowns),
                "occupied_percent": one.occupied_percent,
                "unfinished": one.unfinished,
                "out_of_memory": one.out_of_memory,
            }
            for key, one in found.items()
        ],
    }
