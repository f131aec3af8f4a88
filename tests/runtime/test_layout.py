"""The bytes of the segment: what is written is read, and nothing else is believed."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from cotenant_runtime import layout
from cotenant_runtime.layout import Inference, Phase, Slot, Training

TIMES = st.integers(0, 2**62)
COUNTS = st.integers(0, layout.MAX_COUNT)
SPANS = st.integers(0, layout.MAX_SPAN_NS)

inferences = st.builds(
    Inference,
    phase=st.sampled_from([Phase.IDLE, Phase.QUEUED, Phase.HEAVY, Phase.LIGHT]),
    fill=st.integers(0, layout.FULL_FILL),
    arrival_ns=TIMES,
    deadline_ns=TIMES,
    latest_start_ns=TIMES,
    pending=st.integers(0, layout.MAX_PENDING),
    service_ns=SPANS,
    requests=st.just(layout.MAX_COUNT),
    met=COUNTS,
)
trainings = st.builds(
    Training,
    phase=st.sampled_from([Phase.IDLE, Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER, Phase.WAITING]),
    step=COUNTS,
    group=COUNTS,
    busy_until_ns=TIMES,
    waited_ns=TIMES,
    ran_ns=TIMES,
    step_ns=SPANS,
    alone_step_ns=SPANS,
)
slots = st.builds(
    Slot,
    sequence=st.integers(0, 2**64 - 1),
    heartbeat_ns=TIMES,
    pid=st.integers(0, 2**31 - 1),
    state=st.one_of(inferences, trainings),
)


@given(slots)
def test_a_slot_is_read_as_it_was_written(slot: Slot) -> None:
    data = layout.pack(slot)
    assert len(data) == layout.SLOT_BYTES
    assert layout.parse(data) == slot


@given(st.binary(min_size=0, max_size=2 * layout.SLOT_BYTES))
def test_arbitrary_bytes_are_no_slot(data: bytes) -> None:
    assert layout.parse(data) is None


@given(slots, slots, st.integers(1, layout.SLOT_BYTES - 1))
def test_a_torn_slot_is_not_read(old: Slot, new: Slot, cut: int) -> None:
    torn = layout.pack(new)[:cut] + layout.pack(replace(old, sequence=(new.sequence + 1) % 2**64))[cut:]
    assert layout.parse(torn) in {None, new}


@given(st.binary(min_size=layout.SLOT_BYTES - 4, max_size=layout.SLOT_BYTES - 4))
def test_a_slot_with_a_right_checksum_has_every_field_in_its_range(body: bytes) -> None:
    found = layout.parse(layout.sealed(body))
    if found is not None:
        assert layout.parse(layout.pack(found)) == found


@given(slots, st.integers(8, layout.SLOT_BYTES - 5), st.binary(min_size=1, max_size=8))
def test_a_field_that_a_hostile_writer_has_set_is_in_its_range_or_the_slot_is_ignored(
    slot: Slot, place: int, content: bytes
) -> None:
    body = bytearray(layout.pack(slot)[:-4])
    body[place : place + len(content)] = content[: len(body) - place]
    found = layout.parse(layout.sealed(bytes(body)))
    if found is not None:
        assert layout.parse(layout.pack(found)) == found


def test_an_empty_slot_is_no_slot() -> None:
    assert layout.parse(bytes(layout.SLOT_BYTES)) is None


def test_a_writer_never_fails_on_a_value_out_of_range() -> None:
    wild = Inference(fill=10**6, arrival_ns=-5, pending=10**12, service_ns=10**20, requests=1, met=7)
    found = layout.parse(layout.pack(Slot(2**70, 1, 1, wild)))
    assert found is not None
    assert found.state == Inference(
        fill=layout.FULL_FILL,
        pending=layout.MAX_PENDING,
        service_ns=layout.MAX_SPAN_NS,
        requests=1,
        met=1,
    )


def test_a_header_of_another_version_is_refused() -> None:
    other = bytearray(layout.header())
    other[8] += 1
    assert layout.is_header(layout.header())
    assert not layout.is_header(bytes(other))
