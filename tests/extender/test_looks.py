"""Looks at pods that are alike: whatever changes in between, they say what is said of a pod that is new."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant_api import names, packingpolicy
from cotenant_api.names import GPUUID, PodUID
from cotenant_extender import records
from cotenant_extender.ledger import ledger
from cotenant_extender.packing import looks, placing, rules, view
from extender import builders
from extender.builders import NOW

NODES = 9
LEARNED = 300
"""After so many questions the prices of a mix stand."""
KINDS = (
    {"share": 30},
    {"share": 60, "namespace": "other"},
    {"share": 100},
    {"share": 200},
    {"share": 30, "priority": 5},
    {"share": 40, "annotations": {names.GPU_MEMORY: "40Gi"}},
)

WAITING = tuple(records.pod_record(builders.pod(f"waits{number}", 20 + number % 7 * 10)) for number in range(200))


def asked(number: int, kind: int) -> view.Request:
    found = records.pod_record(builders.pod(f"asked{number}", **KINDS[kind])).request
    assert found is not None
    return found


def world(placement: str, most: int | None) -> ledger.Ledger:
    source = builders.cluster(nodes=NODES, gpus=2, placement=placement, maxGPUsPerNamespace=most)
    for record in WAITING:
        source.pod(record, now=NOW)
    for _ in range(LEARNED if placement == packingpolicy.Placement.DUAL_PRICE else 0):
        placing.choose(source.seen(), asked(0, 0), source.known)
    return source


def happen(source: ledger.Ledger, what: str, index: int) -> None:
    name, uid = f"n{index}", PodUID(f"uid-b{index}")
    match what:
        case "book":
            builders.put(source, builders.bound(f"b{index}", 40, name, f"GPU-{name}-0"))
        case "free" if uid in source.pods:
            source.pod_gone(uid)
        case "hold":
            hold = view.Hold(holders=frozenset({PodUID("uid-asked0")}), priority=1, since=NOW)
            source.set_hold(hold, {source.order[index % len(source.order)]: frozenset({GPUUID(f"GPU-{name}-1")})})
        case "gone":
            source.gpunode_gone(source.order[index % len(source.order)])
        case "new":
            builders.add_node(source, f"new{index}")
        case "smaller":
            source.gpunode(records.gpunode_record(builders.gpunode(name, gpu={"memoryMiB": 60_000})), now=NOW)
        case _:
            pass


EVENTS = st.tuples(
    st.sampled_from(["book", "free", "hold", "gone", "new", "smaller", "ask"]), st.integers(0, NODES - 1)
)


@pytest.mark.parametrize("placement", list(packingpolicy.Placement))
@settings(deadline=None, max_examples=10)
@given(events=st.lists(EVENTS, min_size=4, max_size=16), most=st.sampled_from([None, 1, 3]))
def test_a_look_is_what_a_new_one_would_be(placement: str, events: list[tuple[str, int]], most: int | None) -> None:
    source = world(placement, most)
    kept = looks.Looks(source.seen())
    for number, (what, index) in enumerate(events):
        happen(source, what, index)
        seen = source.seen()
        kept = kept if kept.fleet is seen else looks.Looks(seen)
        request = asked(number, index % len(KINDS))
        offers, anew = kept.offers(request), rules.offers(seen, request, check_host=True)
        assert np.array_equal(offers.fits, anew.fits)
        assert np.array_equal(offers.cells, anew.cells)
        for mine, other in zip(offers.needs, anew.needs, strict=True):
            here, there = np.broadcast_arrays(mine, other)
            assert np.array_equal(here, there)
        for row, slot in np.argwhere(anew.cells).tolist():
            assert rules.on_gpu(seen, request, row, slot) == anew.needs.at(row, slot)
        assert kept.choose(request, source.known) == placing.choose(seen, request, source.known)


def test_a_gpu_on_which_a_pod_needs_more_than_elsewhere_is_looked_at_anew() -> None:
    source, request = builders.cluster(nodes=NODES, gpus=2), asked(0, 5)
    kept = looks.Looks(source.seen())
    assert kept.offers(request).fits.all()
    # Of a GPU this small the same memory is more than the share that the pod asks for.
    source.gpunode(records.gpunode_record(builders.gpunode("n0", version=2, gpu={"memoryMiB": 60_000})), now=NOW)
    assert kept.fleet is source.seen()
    expected = rules.offers(source.seen(), request, check_host=True).fits
    assert not expected.all()
    assert np.array_equal(kept.offers(request).fits, expected)
