"""Nothing that is decided or written depends on the order of a set, which is another in every process."""

from dataclasses import replace

import pytest

from cotenant_api.names import Namespace, NodeName, PodUID
from cotenant_api.pod import GangKey
from cotenant_extender import records
from cotenant_extender.kube import pods
from cotenant_extender.ledger import ledger
from extender import builders, running, virtual
from extender.builders import NOW
from extender.queueing import evicted, held, member, queue, run

NAMES = [f"{letter}{number}" for letter in "abcd" for number in range(4)]
"""So many that some of their sets begin with one kind, and some with the other."""


def preempting_gang(waits: str, promised: str) -> ledger.Ledger:
    """Victims have left for a gang of two: one pod has an earmark on a GPU held for both, the other waits again."""
    source = builders.cluster(nodes=2, gpus=1)
    for index in range(2):
        raw = builders.bound(f"low{index}", 80, f"n{index}", f"GPU-n{index}-0")
        raw["status"]["startTime"] = builders.timestamp(NOW - 3600)
        builders.put(source, raw)
    builders.put(source, *(member(name, 60, size=2, priority=5) for name in (waits, promised)))
    assert sorted(evicted(source)) == ["low0", "low1"]
    source.pod_gone(PodUID("uid-low0"))
    source.gpunode(
        records.gpunode_record(builders.gpunode("n0", gpus=1, version=2)), now=NOW, tells_of=source.graves.doubtful
    )
    record = source.pods[PodUID(f"uid-{promised}")]
    source.earmark(record.uid, builders.place(source, record), now=NOW)
    return source


@pytest.mark.parametrize("waits", NAMES)
def test_what_is_held_for_a_gang_stays_while_it_can_serve_those_that_wait(waits: str) -> None:
    source = preempting_gang(waits, "other")
    run(source)
    assert held(source) == ["GPU-n0-0", "GPU-n1-0"]


@pytest.mark.parametrize("waits", NAMES)
def test_what_is_held_for_a_gang_is_free_when_it_cannot_serve_one_that_waits(waits: str) -> None:
    source = preempting_gang(waits, "other")
    node = source.nodes[NodeName("n1")].record
    assert node is not None
    source.node(replace(node, schedulable=False))
    ended = queue(source).preemptions.review(source, queue(source).line, now=NOW)
    assert (ended, held(source)) == ([GangKey(Namespace("team"), "g", 2, "", 5)], [])


def test_rows_that_changed_together_are_written_in_strict_order() -> None:
    source = builders.cluster(nodes=1)
    source.seen()
    for name in reversed(NAMES):
        builders.add_node(source, name)
    written = source.seen()
    order = sorted(range(len(written)), key=lambda row: int(written.versions[row]))
    assert [written.nodes[row].name for row in order] == ["n0", *NAMES]


@virtual.time
async def test_gpunodes_are_read_in_the_order_in_which_they_became_doubtful() -> None:
    server = running.server()
    doubtful = [NodeName(name) for name in reversed(NAMES)]
    async with running.extender(server) as rig:
        await rig.serving()
        rig.extender.writer.confirm([*doubtful, *doubtful])
        path = f"{pods.GPUNODES}/"
        await running.until(lambda: server.sent("GET", path) >= len(doubtful), "read")
        read = [asked.removeprefix(path) for method, asked in server.requests if method == "GET" and path in asked]
    assert read == doubtful
