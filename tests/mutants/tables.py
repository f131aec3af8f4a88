"""What came of the mutants, as tables."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mutants import equivalent, kept, mutation, sampling, stages

HEADER = (
    "| mutants | tried | by tests | by slow tests | by simulation | timeout | no change | open | survive | killed |",
    "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
)
LATE, EQUIVALENT, OPEN, SURVIVES = "timeout", "equivalent", "open", "survives"
GROUPS = (*sampling.PACKAGES, sampling.RIM)


class Found(NamedTuple):
    """A mutant, and what came of it."""

    mutant: mutation.Mutant
    result: kept.Result


def table(found: Sequence[Found]) -> list[str]:
    """Return a row for the planted defects, one for each group of the sample, and one for the sample."""
    ended = [some for some in found if some.result.tried or equivalent.reason(some.mutant) is not None]
    sampled = [some for some in ended if some.mutant.group != mutation.PLANTED]
    planted = [some for some in ended if some.mutant.group == mutation.PLANTED]
    rows = [("planted by hand", planted)]
    rows += [(f"sampled: {group}", [some for some in sampled if some.mutant.group == group]) for group in GROUPS]
    rows += [("all of the sample", sampled)]
    return [*HEADER, *(_row(name, part) for name, part in rows if part)]


def _row(name: str, found: Sequence[Found]) -> str:
    count = Counter(_end(some) for some in found)
    killed = sum(count[stage] for stage in stages.Stage)
    alive = count[LATE] + count[OPEN] + count[SURVIVES]
    share = f"{100 * killed / (killed + alive):.1f} %" if killed + alive else "-"
    numbers = (count[end] for end in (*stages.Stage, LATE, EQUIVALENT, OPEN, SURVIVES))
    return f"| {name} | {len(found)} | {' | '.join(map(str, numbers))} | {share} |"


def _end(found: Found) -> str:
    if found.result.stage:
        return found.result.stage
    if equivalent.reason(found.mutant) is not None:
        return EQUIVALENT
    if found.result.late:
        return LATE
    return SURVIVES if found.result.survived else OPEN


def planted(found: Sequence[Found]) -> Iterator[str]:
    """Tell what killed each planted defect."""
    for mutant, result in found:
        if mutant.group == mutation.PLANTED:
            killer = f"killed by {result.killer}" if result.stage else _unkilled(result)
            yield f"{mutant.name} ({mutant.place}): {killer}"


def survivors(found: Sequence[Found]) -> Iterator[str]:
    """Tell file, line and edit of each that nothing killed; those that change no behaviour last, with the reason."""
    for mutant, result in found:
        if not result.stage and equivalent.reason(mutant) is None:
            yield f"{mutant.place} ({mutant.name}): {mutant.edit}: {_unkilled(result)}"
    for mutant, result in found:
        why = equivalent.reason(mutant)
        if why is not None:
            said = f"is said to change nothing, but is killed by {result.killer}" if result.stage else "changes nothing"
            yield f"{mutant.place} ({mutant.name}): {mutant.edit}: {said}: {why}"


def _unkilled(result: kept.Result) -> str:
    if result.late:
        return f"runs out of CPU time in {result.late}"
    tried = ", ".join(result.lived) or "nothing"
    return "survives" if result.survived else f"not tried to the end; lives after {tried}"


def good(found: Sequence[Found]) -> bool:
    """Return whether every planted defect was killed, nine in ten of the sample, and none that changes nothing."""
    ends = [(some.mutant.group == mutation.PLANTED, _end(some)) for some in found if some.result.tried]
    alive = [by_hand for by_hand, end in ends if end in (LATE, OPEN, SURVIVES)]
    sampled = [end for by_hand, end in ends if not by_hand and end != EQUIVALENT]
    wrong = [some for some in found if some.result.stage and equivalent.reason(some.mutant) is not None]
    return not wrong and True not in alive and 10 * len(alive) <= len(sampled)


def cost(found: Sequence[Found]) -> str:
    """Tell the CPU time of what was tried."""
    seconds = [some.result.seconds for some in found if some.result.tried]
    each = sum(seconds) / max(len(seconds), 1)
    return f"{len(seconds)} mutants took {sum(seconds) / 60:.0f} minutes of a core, {each:.1f} s each"
