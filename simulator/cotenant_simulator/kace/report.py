"""The page of partner choice. Pure; writes no file."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cotenant_predictor.evaluation import colocation, intervals, partners, splits
from cotenant_simulator.kace import choosers, judging, published, scores
from cotenant_simulator.report import page

_DIGITS: Final = 4
_SHOWN: Final = (partners.RANDOM, partners.MEMCAP, partners.FOREST, partners.KACE, colocation.COTENANT)
"""Ways of which the distribution is drawn: all of them would hide each other."""
_TAKES: Final[Mapping[str, str]] = {
    partners.RANDOM: "any, by chance",
    partners.MEMCAP: "least memory",
    partners.SM_PERCENT: "highest utilization",
    partners.MEM_PERCENT: "least use of memory bandwidth",
    partners.BEST_RULE: "the best of the three rules above, known afterwards",
    choosers.LEAST_UTILIZATION: "least sum of utilizations",
    partners.FOREST: "predicted sum: random forest on utilizations",
    partners.KACE: "predicted sum: linear regression, as published",
    colocation.PHYSICS: "predicted sum: fair sharing, nothing learned",
    colocation.COTENANT: "predicted sum: Cotenant's model of co-location, taught by such pairs",
    choosers.AS_ASKED: "predicted sum: the same model of MPS, which alone the extender asks",
    partners.ORACLE: "largest measured sum",
}
_SIZES: Final[Mapping[int, str]] = {2: "pairs", 3: "triples"}
_SPLITS: Final[Mapping[str, str]] = {
    splits.RANDOM: "known jobs, unseen {sizes}",
    splits.LEAVE_GROUP_OUT: "jobs of an unseen group",
    splits.LEAVE_FAMILY_OUT: "jobs of an unseen model",
    splits.LEAVE_GPU_OUT: "an unseen GPU model",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One split of one size on all benches.

    Attributes:
        size: of the groups, of `judging.SIZES`.
        targets: by the name of the bench: GPU model and mechanism.
    """

    split: str
    size: int
    targets: Mapping[str, Sequence[judging.Target]]

    @property
    def all(self) -> list[judging.Target]:
        """Of all benches."""
        return [target for here in self.targets.values() for target in here]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where groups are from.

    Attributes:
        name: as conditions tell it.
        facts: sentences on what was measured and what is known of a job.
        simulated: whether a simulated GPU gave the figures.
        groups: how many there are, by size.
    """

    name: str
    facts: Sequence[str]
    simulated: bool
    groups: Mapping[int, int]


def page_of(results: Sequence[Result], source: Source, *, command: str) -> page.Page:
    """Return the page.

    Args:
        results: each with a target at least.
        source: of the groups.
        command: that makes it again.
    """
    basis = page.Basis.SIMULATED if source.simulated else page.Basis.MEASURED
    found = [(result, scores.of(result.all)) for result in results]
    parts: list[page.Table | page.Figure] = []
    for result, by_name in found:
        parts += [_table(result, by_name, basis), *_benches(result, basis), _bars(result, by_name, basis)]
        parts.append(_distribution(result, basis))
    return page.Page(
        title=f"Partner choice on {source.name}",
        answer=_answer(found),
        command=command,
        conditions=list(_conditions(source, results)),
        parts=[*parts, _published()],
        document=_document(found, source),
    )


def _title(result: Result) -> str:
    sizes = _SIZES[result.size]
    return f"{sizes.capitalize()}, {_SPLITS[result.split].format(sizes=sizes)}"


def _answer(found: Sequence[tuple[Result, Mapping[str, scores.Score]]]) -> str:
    told = []
    for result, by_name in found:
        ours, others = by_name[colocation.COTENANT], (choosers.AS_ASKED, partners.KACE, partners.RANDOM)
        beside = ", ".join(f"{name} {by_name[name].share.mean:.1f} %" for name in others)
        told.append(
            f"{_title(result)}: Cotenant's model reaches {ours.share.mean:.1f} % of the best partner ({beside})"
        )
    return "; ".join(told) + "."


def _table(result: Result, by_name: Mapping[str, scores.Score], basis: page.Basis) -> page.Table:
    count = len(result.all)
    return page.Table(
        title=_title(result),
        basis=basis,
        columns=[
            page.Column("chooser"),
            page.Column("takes"),
            page.Column("share of the oracle %", ".1f"),
            page.Column("of the gap from chance %", ".1f"),
            page.Column("takes the oracle's partner %", ".1f"),
            page.Column(f"best of all, of {count} targets", ".0f"),
        ],
        rows=[[name, _TAKES[name], score.share, score.gap, score.hit, score.best] for name, score in by_name.items()],
    )


def _benches(result: Result, basis: page.Basis) -> Iterator[page.Table]:
    """By GPU model, where there are several."""
    if len(result.targets) < 2:
        return
    by_bench = [scores.of(targets) for targets in result.targets.values()]
    yield page.Table(
        title=f"{_title(result)}: share of the oracle % by GPU model",
        basis=basis,
        columns=[page.Column("chooser"), *(page.Column(name, ".1f") for name in result.targets)],
        rows=[[name, *(by_name[name].share for by_name in by_bench)] for name in choosers.NAMES],
    )


def _bars(result: Result, by_name: Mapping[str, scores.Score], basis: page.Basis) -> page.Bars:
    return page.Bars(
        title=_title(result),
        basis=basis,
        y_label="share of the oracle %",
        bars={name: score.share for name, score in by_name.items()},
    )


def _distribution(result: Result, basis: page.Basis) -> page.Lines:
    targets = result.all
    series = []
    for name in _SHOWN:
        reached = sorted(100 * target.ways[name].share for target in targets)
        part = [100 * (place + 1) / len(targets) for place in range(len(targets))]
        series.append(page.Series(name=name, x=reached, y=part))
    return page.Lines(
        title=f"{_title(result)}: how good the choice is, from the worst target to the best",
        basis=basis,
        x_label="share of the oracle %, at most",
        y_label="targets %",
        series=series,
        steps=True,
    )


def _published() -> page.Table:
    return page.Table(
        title="KACE, on 21 workloads of its own on a V100-32GB under MPS",
        basis=page.Basis.PUBLISHED,
        columns=[page.Column("chooser"), page.Column("share of the oracle %", ".0f"), page.Column("best of all", "")],
        rows=[["KACE", published.SHARE_PERCENT, f"{published.WINS} of {published.TARGETS}"]],
        note="Approximate, as published; the pairs are not public, so that no row above is on the same jobs.",
    )


def _conditions(source: Source, results: Sequence[Result]) -> Iterator[str]:
    yield from source.facts
    for size, name in _SIZES.items():
        if size not in source.groups:
            yield f"No {name} are in these data, so nothing is said of them; --measurements reads a set that has them."
    yield (
        "A target is a job; candidates are the groups that were measured with it, itself as a partner included where "
        "it was. Score: sum of normalised speeds with the chosen candidate over the same with the best; of candidates "
        "that are liked equally, the mean."
    )
    yield (
        "No way is judged by a group that it learned from: unseen groups are held out in five parts, shuffled "
        f"{colocation.SHUFFLES} times unless --shuffles says otherwise; for unseen models every group in which the "
        "target's model has a part, at any batch size."
    )
    yield (
        "The extender asks the model of the mechanism MPS alone. Where the groups here are of another mechanism, what "
        "was learned from them is never asked on a cluster. As-asked is what the placement Interference would choose "
        "by; FirstFit, the default, asks nothing."
    )
    if 3 in source.groups:
        yield "Cotenant's model learns from groups of any size, the published ones from those of the size judged."
    names = {target.group for result in results for target in result.all}
    yield (
        f"Intervals: {intervals.LEVEL:.0%} percentile bootstrap, {intervals.DRAWS} draws of the {len(names)} models "
        "(all batch sizes and GPU models of one together). Best of all: ties count for each, the oracle is left out."
    )


def _document(found: Sequence[tuple[Result, Mapping[str, scores.Score]]], source: Source) -> dict[str, Any]:
    return {
        "v": 1,
        "source": source.name,
        "simulated": source.simulated,
        "groups": {_SIZES[size]: count for size, count in source.groups.items()},
        "results": [
            {
                "split": result.split,
                "of": _SIZES[result.size],
                "choosers": {name: _score(score) for name, score in by_name.items()},
                "targets": [
                    {"bench": bench, **_target(target)} for bench, here in result.targets.items() for target in here
                ],
            }
            for result, by_name in found
        ],
    }


def _score(score: scores.Score) -> dict[str, Any]:
    return {
        "shareOfOraclePercent": _estimate(score.share),
        "gapClosedPercent": None if score.gap is None else _estimate(score.gap),
        "takesOraclesPartnerPercent": _estimate(score.hit),
        "bestOfAll": score.best,
    }


def _target(target: judging.Target) -> dict[str, Any]:
    return {
        "name": target.name,
        "gpuModel": target.gpu_model,
        "candidates": target.candidates,
        "bestSum": round(target.best, _DIGITS),
        "choices": {
            name: {"share": round(way.share, _DIGITS), "hit": round(way.hit, _DIGITS), "beside": way.beside}
            for name, way in target.ways.items()
        },
    }


def _estimate(found: page.Estimate) -> dict[str, float]:
    return {name: round(value, _DIGITS) for name, value in dataclasses.asdict(found).items()}
