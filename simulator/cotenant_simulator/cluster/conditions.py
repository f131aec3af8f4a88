"""What a what-if rests on, in words: observed, simulated, drawn, assumed, left out. Pure."""

from collections.abc import Iterator, Sequence
from typing import Final

from cotenant_simulator.cluster import cases, drawing, needs
from cotenant_simulator.live import snapshot

_ALWAYS: Final = (
    (
        "Simulated: the extender's ledger, queue and packing place the jobs again, in the order in which they came, "
        "under each policy from the beginning; API server, kube-scheduler and kubelet take no time."
    ),
    (
        "Modelled: speeds of jobs together, by the predictor's model of co-location under MPS; likewise how long a job "
        "would have run alone, from how long it ran beside those that are in the snapshot."
    ),
    (
        "Assumed: a run time beside others is one alone; on another GPU model it is in proportion to the predicted "
        "step; a job of which nothing is known keeps its whole share busy, and half as much of the memory."
    ),
    (
        "Not simulated: CPU and host memory, node selectors other than the GPU model, taints, quotas, nodes that come "
        "or go; tenancy Label is taken for SameNamespace."
    ),
)


def of(whole: snapshot.Snapshot, found: Sequence[cases.Case], window: drawing.Window, *, source: str) -> Sequence[str]:
    """Return a sentence each."""
    return list(_said(whole, found, window, source))


def _said(whole: snapshot.Snapshot, found: Sequence[cases.Case], window: drawing.Window, source: str) -> Iterator[str]:
    hours = window.seconds / 3600
    taken = whole.taken.isoformat()
    yield f"Observed: {source}, taken {taken}: {len(found)} jobs of the last {hours:,.1f} hours."
    yield from _ALWAYS
    yield (
        "Drawn by seed, alike for both: what a job really needs, about its prediction, by the predictor's own bounds "
        f"(exceeded by {100 * (1 - needs.LEVEL):.0f} % of held-out jobs). What was observed is taken as it was."
    )
    open_ended = sum(1 for case in found if case.state is not cases.State.FINISHED and not case.serves)
    if open_ended:
        yield (
            f"Drawn by seed: how long {open_ended} jobs that had not ended will run, from the run times that are "
            f"known; where fewer than {drawing.FEWEST} are, log-uniform from {drawing.SHORTEST_SECONDS:.0f} to "
            f"{drawing.LONGEST_SECONDS:.0f} s, or as long again as it has run, times a lognormal."
        )
    if any(case.serves for case in found):
        yield "Assumed: inference serves to the end of the replay."
    yield from _left_out(whole)


def _left_out(whole: snapshot.Snapshot) -> Iterator[str]:
    if whole.unread:
        one = whole.unread[0]
        named = f"{one.namespace}/{one.name} ({one.field})"
        yield f"Left out: {len(whole.unread)} objects that cannot be read, such as {named}."
    closed = sum(1 for node in whole.nodes for gpu in node.gpus if not (gpu.usable and node.ready))
    if closed:
        yield f"Left out: {closed} GPUs that take no pods (not ready, unhealthy, excluded or partitioned)."
