"""Results as Markdown. Pure."""

from collections.abc import Sequence

from cotenant_e2e.space_time.arrivals import Arrivals
from cotenant_e2e.space_time.results import ATTAINMENT, MULTIPLES, SLOWDOWN_RATIO, Cell, Run, Verdict, order, percentile
from cotenant_e2e.space_time.results import verdicts as judged

WHERE = {"cpu": "a CPU, not on a GPU", "cuda": "a GPU"}


def lines(run: Run) -> list[str]:
    """Return conditions, verdicts, then every figure."""
    found = [*_conditions(run), "", *_verdicts(run), ""]
    for kind in Arrivals:
        found += [*_table(run, kind), ""]
    found += [f"Left out: {reason}." for reason in run.left_out]
    return found[:-1] if not found[-1] else found


def picture(run: Run) -> str:
    """Return what the plot shows, in words."""
    return (
        f"99th percentile of the requests and time of a training batch under each way to share, on {WHERE[run.device]}"
    )


def summary(verdicts: Sequence[Verdict]) -> str:
    """Return one line: how many comparisons met the bar."""
    judged_ones = [one for one in verdicts if one.split is not None]
    met = sum(one.met for one in judged_ones)
    without = len(verdicts) - len(judged_ones)
    text = f"The bar is met in {met} of {len(judged_ones)} comparisons in which a static split holds the SLO."
    return text if not without else f"{text} In {without} more no static split holds it."


def _conditions(run: Run) -> list[str]:
    told = run.conditions
    kind = "**A quick run: shows that the command works, no more.** " if run.quick else ""
    machine = f"{told['cores']} cores, {told['processor']}, Linux {told['kernel']}, torch {told['torch']}"
    answer = f"{1e3 * run.deadline:.0f} ms"
    return [
        f"{kind}Every figure was measured on {WHERE[run.device]}: {machine}, load {told['load']:.2f} before.",
        f"A request takes {1e3 * run.service:.1f} ms on the idle device, and must be answered in {answer}.",
        f"{run.per_second:.1f} requests come each second; each row comes from {told['cell_seconds']:g} s.",
    ]


def _verdicts(run: Run) -> list[str]:
    bar = (
        f"Bar: where the best static split holds the SLO (at least {ATTAINMENT:.0%} of requests in time), space-time "
        f"sharing holds it, too, with at most {SLOWDOWN_RATIO:g} of the split's slowdown of training and at most "
        f"{MULTIPLES[run.device]:g} x alone. The slowdown is the multiple of alone, less one."
    )
    found = [
        bar,
        "",
        "| training | requests | best split that holds | training x alone | most | ours x alone | ours in time | bar |",
        "|---|---|---|---:|---:|---:|---:|---|",
    ]
    verdicts = judged(run)
    for one in verdicts:
        split, ours = one.split, one.ours
        best = "none | | |" if split is None else f"{split.mechanism} | {split.multiple:.2f} | {one.most:.2f} |"
        word = "-" if split is None else "met" if one.met else "**missed**"
        found.append(
            f"| {one.training} | {one.arrivals} | {best} {ours.multiple:.2f} | {ours.attainment:.1%} | {word} |"
        )
    return [*found, "", summary(verdicts)]


def _table(run: Run, kind: Arrivals) -> list[str]:
    cells = [cell for cell in run.cells if cell.arrivals == kind.value]
    alone = run.alone[kind.value]
    within = sum(one <= run.deadline for one in alone) / len(alone)
    head = (
        f"{kind.value}, {len(alone)} requests a row; without training {within:.1%} are in time, p50 "
        f"{1e3 * percentile(alone, 50):.1f} ms, p99 {1e3 * percentile(alone, 99):.1f} ms:"
    )
    found = [
        head,
        "",
        "| training | shared by | in time | p50 ms | p99 ms | training x alone | training at the gate |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for training in dict.fromkeys(cell.training for cell in cells):
        own = {cell.mechanism: cell for cell in cells if cell.training == training}
        found += [_row(own[name]) for name in order(list(own.values()))]
    return found


def _row(cell: Cell) -> str:
    waited = "" if cell.waited_ratio is None else f"{cell.waited_ratio:.1%}"
    return (
        f"| {cell.training} | {cell.mechanism} | {cell.attainment:.1%} | {1e3 * cell.percentile(50):.1f} | "
        f"{1e3 * cell.percentile(99):.1f} | {cell.multiple:.2f} | {waited} |"
    )
