"""Random histories of a small cluster that is full: jobs come at once, age and get GPUs held, and nodes close.

What a pass forgets of what the last ones remembered goes wrong here more often than in the histories of
`test_histories`: see `tests/mutants/test_histories.py`.
"""

from collections import Counter

from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    initialize,
    invariant,
    multiple,
    rule,
)

from cotenant_api import names, packingpolicy
from extender import builders, histories

single = st.tuples(st.integers(20, 100), st.just(1), st.just(0.0), st.just(0))
too_large = st.tuples(st.sampled_from([41, 71]), st.just(1), st.just(0.0), st.just(0))
"""By one hundredth, beside who is there."""
urgent = st.tuples(st.integers(20, 100), st.just(1), st.just(0.0), st.just(5))
aged_gang = st.tuples(st.just(100), st.just(2), st.just(61.0), st.just(0))
jobs = st.sampled_from([*[single] * 6, *[too_large] * 2, *[aged_gang] * 2, urgent]).flatmap(lambda kind: kind)
"""Hundredths, pods, seconds that they have waited, and priority."""


class Crowds(histories.Histories):
    """Histories in which what comes is followed by passes, and nothing is bound: earmarks count as well."""

    pods = Bundle("pods")
    start = create = bind = bind_fails = report_unschedulable = run = None  # type: ignore[assignment]
    hear_again = relist = tell_agents = read_gpunodes = change_policy = cordon = lose_a_gpu = None  # type: ignore[assignment]

    @initialize(
        target=pods,
        order=st.sampled_from(packingpolicy.Order),
        wait=st.sampled_from([10, 60]),
        gpus=st.sampled_from([2, 1, 2]),
        taken=st.lists(st.sampled_from([30, 60]), min_size=2, max_size=3),
    )
    def fill(self, order: packingpolicy.Order, wait: int, gpus: int, taken: list[int]) -> MultipleResults[str]:
        """Nodes with 8 CPUs, on all GPUs of which somebody runs."""
        self.source.policy_changed(builders.in_force(queue={"maxWaitSeconds": wait, "order": order}))
        made = []
        for number, share in enumerate(taken):
            node = f"n{number}"
            self.nodes[node] = gpus, builders.H200
            builders.add_node(self.source, node, gpus=gpus)
            self.hosts[node] = {"cpu": "8"}
            histories.Histories.cordon(self, number, False)
            for slot in range(gpus):
                made.append(f"b{number}-{slot}")
                self.truth[made[-1]] = builders.bound(made[-1], share, node, f"GPU-{node}-{slot}")
                self.tell(self.truth[made[-1]])
        return multiple(*made)

    def run_queue(self, refuses: bool) -> None:
        """Passes belong to what comes."""
        histories.Histories.run_queue(self, refuses)

    @rule(
        target=pods,
        several=st.lists(jobs, min_size=2, max_size=3),
        cordoned=st.sampled_from([None, 0, 1, 2]),
        reopened=st.sampled_from([None, None, 0, 1, 2]),
        requests=st.sampled_from(histories.REQUESTS),
    )
    def come(
        self,
        several: list[tuple[int, int, float, int]],
        cordoned: int | None,
        reopened: int | None,
        requests: dict[str, str],
    ) -> MultipleResults[str]:
        """Jobs come, and a node closes or opens, before the next pass."""
        for number, closed in ((reopened, False), (cordoned, True)):
            if number is not None and f"n{number}" in self.nodes:
                histories.Histories.cordon(self, number, closed)
        made = []
        for share, size, waited, priority in several:
            name = f"p{self.version}"
            notes = {names.QUEUED_SINCE: builders.timestamp(self.now - waited)}
            notes |= builders.gang(name, size) if size > 1 else {}
            for index in range(size):
                made.append(f"{name}-{index}")
                self.truth[made[-1]] = builders.pod(
                    made[-1], share, annotations=dict(notes), priority=priority, created=self.now
                )
                self.truth[made[-1]]["spec"]["containers"][0]["resources"]["requests"] |= requests
                self.tell(self.truth[made[-1]])
        self.run_queue(refuses=False)
        return multiple(*made)

    @invariant()
    def no_gpu_is_promised_beyond_what_it_has(self) -> None:
        """Earmarks count as what is bound does."""
        booked = Counter[str]()
        for claim in self.source.claims.values():
            for entry in claim.bookings:
                booked[entry.uuid] += entry.share
        assert all(share <= 100 for share in booked.values())
