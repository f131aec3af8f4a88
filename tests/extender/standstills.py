"""Random histories of a small cluster in which pods without a share have CPU, and nothing happens for long.

Jobs that can start nowhere, or do not start on what is held for them, wait too long, beside others who could use GPUs.
"""

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, MultipleResults, initialize, multiple, rule

from cotenant_extender.queue import vain
from extender import builders, crowds, histories, idling

JOBS = st.tuples(st.sampled_from([10, 60, 100]), st.sampled_from(["1", "7", "8", "8"]), st.sampled_from([0, 61]))
"""Hundredths, CPUs, and seconds that a job has waited."""
OTHERS = st.lists(st.sampled_from([("1", "Never"), ("1", "Never"), ("1", "Always"), None]), min_size=1, max_size=3)


class Standstills(crowds.Crowds):
    """Histories of nodes on some of which GPUs are empty."""

    pods = Bundle("pods")
    fill = come = None  # type: ignore[assignment]

    @initialize(
        target=pods,
        wait=st.sampled_from([10, 60]),
        gpus=st.sampled_from([1, 2]),
        taken=st.lists(st.sampled_from([0, 0, 30, 60]), min_size=1, max_size=3),
        others=OTHERS,
    )
    def begin(
        self, wait: int, gpus: int, taken: list[int], others: list[tuple[str, str] | None]
    ) -> MultipleResults[str]:
        """Nodes with 8 CPUs; on some of them somebody runs on the first GPU."""
        self.source.policy_changed(builders.in_force(queue={"maxWaitSeconds": wait}))
        made = []
        for number, share in enumerate(taken):
            node = f"n{number}"
            self.nodes[node], self.hosts[node], self.listed[node] = (gpus, builders.H200), {"cpu": "8"}, set()
            builders.add_node(self.source, node, gpus=gpus)
            histories.Histories.cordon(self, number, False)
            if share:
                made.append(f"b{number}")
                self.truth[made[-1]] = builders.bound(made[-1], share, node, f"GPU-{node}-0")
                self.tell(self.truth[made[-1]])
        self.put_beside(others)
        return multiple(*made)

    @rule(target=pods, several=st.lists(JOBS, min_size=1, max_size=3))
    def stand_still(self, several: list[tuple[int, str, int]]) -> MultipleResults[str]:
        """Jobs come, and nothing happens for so long that they wait too long, and that a hold in vain is given up."""
        made = []
        for share, cpu, waited in several:
            made.append(f"p{self.version}")
            self.truth[made[-1]] = raw = builders.pod(made[-1], share, created=self.now - waited)
            raw["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
            self.tell(raw)
        assert self.source.policy is not None
        judge, seconds = idling.Idling(), self.source.policy.spec.queue.max_wait_seconds + vain.IDLE_SECONDS
        for _ in range(int(seconds / idling.LOOK_SECONDS) + 12):
            self.wait(idling.LOOK_SECONDS)
            for lift in self.queue.plan(self.source, self.source.policy, now=self.now).lifts:
                self.lift(lift)
            assert judge.look(self.source, now=self.now) == []
        return multiple(*made)

    @rule()
    def all_end(self) -> None:
        """Whoever has a GPU, or is promised one, is gone."""
        for record in [
            record for record in self.source.pods.values() if record.asks and record.uid in self.source.claims
        ]:
            self.delete(record.name, missed=False)
        histories.Histories.read_gpunodes(self)
