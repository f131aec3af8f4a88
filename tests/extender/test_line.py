"""The line is kept step by step, and is what it would be if it were made anew."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from cotenant_api import names
from cotenant_api.names import PodUID
from cotenant_extender.queue import line, order
from extender import builders, queueing
from extender.builders import NOW

Object = dict[str, Any]
NAMES = [f"p{number}" for number in range(6)]


class Lines(RuleBasedStateMachine):
    """Pods come, change, are lifted and go; time passes; the policy changes."""

    def __init__(self) -> None:
        super().__init__()
        self.now, self.version = NOW, 1
        self.source = builders.cluster(queue={"maxWaitSeconds": 60})
        self.line = line.Line()
        self.followed: list[order.Entry] = []
        self.update()

    def update(self) -> None:
        """The line takes in what changed, and whoever follows it, too."""
        assert self.source.policy is not None
        touched = set(self.source.touched)
        self.source.touched.clear()
        self.line.update(self.source, self.source.policy.spec.queue, touched, now=self.now)
        if self.line.journal is None:
            self.followed = list(self.line.entries)
        for place, entry in self.line.journal or ():
            if entry is None:
                del self.followed[place]
            else:
                self.followed.insert(place, entry)
        self.line.journal = []

    @rule(
        name=st.sampled_from(NAMES),
        share=st.sampled_from([10, 40, 90]),
        gang=st.sampled_from(["", "", "g", "h"]),
        gates=st.sampled_from([(), (names.PACKING_GATE,), (names.PACKING_GATE, "other")]),
        priority=st.sampled_from([0, 3]),
        waited=st.sampled_from([0, 5, 59, 61]),
    )
    def put(self, name: str, share: int, gang: str, gates: tuple[str, ...], priority: int, waited: int) -> None:
        """A pod as it is now; everything about it may have changed."""
        self.version += 1
        notes = builders.gang(gang, 2) if gang else {}
        raw = builders.pod(
            name,
            share,
            annotations=notes,
            gates=gates,
            priority=priority,
            created=self.now - waited,
            version=self.version,
            uid=f"uid-{name}-{share}",
        )
        builders.put(self.source, raw, now=self.now)

    @rule(data=st.data())
    def go(self, data: st.DataObject) -> None:
        """A pod is gone."""
        if self.source.pods:
            self.source.pod_gone(data.draw(st.sampled_from(sorted(self.source.pods))))

    @rule(data=st.data())
    def bind(self, data: st.DataObject) -> None:
        """A pod is bound."""
        if self.source.pods:
            uid: PodUID = data.draw(st.sampled_from(sorted(self.source.pods)))
            self.version += 1
            record = self.source.pods[uid]
            raw = builders.pod(record.name, record.share, uid=uid, version=self.version, node="n0")
            builders.put(self.source, raw, now=self.now)

    @rule()
    def queue(self) -> None:
        """A pass of another queue earmarks what fits, and takes note of what changed before this one could."""
        touched = set(self.source.touched)
        queueing.run(self.source, now=self.now)
        self.source.touched.update(touched | {uid for uid, _ in self.source.earmarks.items()})

    @rule(seconds=st.sampled_from([1, 11, 70]))
    def wait(self, seconds: int) -> None:
        """Time passes."""
        self.now += seconds

    @rule(order=st.sampled_from(["FIFO", "DecreasingShare"]))
    def change_the_policy(self, order: str) -> None:
        """Another order."""
        self.source.policy_changed(builders.in_force(queue={"maxWaitSeconds": 60, "order": order}))

    @invariant()
    def it_is_what_it_would_be_if_made_anew(self) -> None:
        """Members, order, and what a follower of the journal has."""
        self.update()
        assert self.source.policy is not None
        fresh = line.Line()
        fresh.update(self.source, self.source.policy.spec.queue, set(self.source.pods), now=self.now)
        assert [(entry.key, entry.name) for entry in self.line.entries] == [
            (entry.key, entry.name) for entry in fresh.entries
        ]
        assert self.followed == self.line.entries


Lines.TestCase.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
TestLines = Lines.TestCase


def test_of_pods_that_are_gone_no_times_are_kept_until_they_would_have_waited_long() -> None:
    source, kept = builders.cluster(queue={"maxWaitSeconds": 3600}), line.Line()
    assert source.policy is not None
    rules = source.policy.spec.queue
    for number in range(3 * line.SPARE_LOOKS):
        builders.put(source, builders.pod(f"p{number}"))
    kept.update(source, rules, set(source.pods), now=NOW)
    assert kept.looks == 3 * line.SPARE_LOOKS
    everybody = set(source.pods)
    for uid in everybody:
        source.pod_gone(uid)
    kept.update(source, rules, everybody, now=NOW + 1)
    assert kept.looks == 0


def test_a_stream_of_pods_that_come_and_go_leaves_few_times_behind() -> None:
    source, kept = builders.cluster(queue={"maxWaitSeconds": 3600}), line.Line()
    assert source.policy is not None
    for number in range(1000):
        source.touched.clear()
        builders.put(source, builders.pod(f"p{number}"))
        kept.update(source, source.policy.spec.queue, set(source.touched), now=NOW + number)
        source.touched.clear()
        source.pod_gone(PodUID(f"uid-p{number}"))
        kept.update(source, source.policy.spec.queue, set(source.touched), now=NOW + number)
    assert kept.looks <= line.SPARE_LOOKS + 2
