"""The segment as a file: claims, crashes, and what a hostile co-tenant does to it."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant_runtime import layout
from cotenant_runtime import segment as segments
from cotenant_runtime.layout import Inference, Training
from cotenant_runtime.segment import Segment, SegmentError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "GPU-0"
    segments.create(made)
    return made


def test_a_new_segment_is_empty_and_for_owner_and_group_alone(path: Path) -> None:
    assert path.stat().st_mode & 0o777 == 0o660
    assert path.stat().st_size == layout.SEGMENT_BYTES
    assert list(Segment(path).slots()) == []


def test_what_one_process_writes_another_reads(path: Path) -> None:
    writer = Segment(path).claim()
    writer.write(Inference(requests=3, met=2), now_ns=7)
    ((index, slot),) = Segment(path).slots()
    assert index == writer.index
    assert (slot.sequence, slot.heartbeat_ns, slot.pid) == (1, 7, os.getpid())
    assert slot.state == Inference(requests=3, met=2)


def test_a_slot_has_one_writer(path: Path) -> None:
    first, second = Segment(path).claim(3), Segment(path)
    assert first.index == 3
    with pytest.raises(SegmentError, match="slot 3 is taken"):
        second.claim(3)
    assert second.claim().index != 3


def test_a_slot_beyond_the_segment_is_refused(path: Path) -> None:
    with pytest.raises(SegmentError, match="slot 99 is taken or does not exist"):
        Segment(path).claim(99)


def test_when_all_slots_are_taken_a_claim_says_so(path: Path) -> None:
    held = [Segment(path) for _ in range(layout.SLOTS)]
    for one in held:
        one.claim()
    with pytest.raises(SegmentError, match="no slot is free"):
        Segment(path).claim()
    held[5].close()
    assert Segment(path).claim().index == 5


def test_a_successor_goes_on_with_the_sequence_of_a_dead_writer(path: Path) -> None:
    first = Segment(path)
    first.claim(0).write(Training(step=1), now_ns=1)
    first.close()
    second = Segment(path).claim(0)
    second.write(Training(step=2), now_ns=2)
    found = second.segment.read(0)
    assert found is not None
    assert found.sequence == 2


def test_a_cleared_slot_is_empty(path: Path) -> None:
    writer = Segment(path).claim()
    writer.write(Training(), now_ns=1)
    writer.clear()
    assert list(writer.segment.slots()) == []


def test_a_child_of_the_writer_writes_nothing(path: Path) -> None:
    writer = Segment(path).claim()
    writer.write(Training(step=1), now_ns=1)
    child = os.fork()
    if child == 0:
        writer.write(Training(step=2), now_ns=2)
        writer.clear()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    found = writer.segment.read(writer.index)
    assert found is not None
    assert found.state == Training(step=1)


@pytest.mark.parametrize("content", [b"", b"x" * layout.SEGMENT_BYTES, layout.header()[:-1]])
def test_a_file_that_is_no_segment_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "other"
    file.write_bytes(content)
    with pytest.raises(SegmentError, match="is no segment of version 1"):
        Segment(file)


def test_a_link_in_place_of_the_segment_is_refused(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(path)
    with pytest.raises(OSError, match="symbolic links"):
        Segment(link)


def test_a_co_tenant_that_shortens_the_file_ends_nobody(path: Path) -> None:
    reader = Segment(path)
    writer = Segment(path).claim()
    writer.write(Training(), now_ns=1)
    os.truncate(path, 0)
    assert list(reader.slots()) == []
    writer.write(Training(step=5), now_ns=2)
    found = reader.read(writer.index)
    assert found is not None
    assert found.state == Training(step=5)


def test_a_segment_that_was_closed_reads_as_empty_and_writes_nothing(path: Path) -> None:
    segment = Segment(path)
    writer = segment.claim()
    segment.close()
    writer.write(Training(), now_ns=1)
    assert list(segment.slots()) == []


@given(content=st.binary(min_size=1, max_size=layout.SEGMENT_BYTES), place=st.integers(0, layout.SEGMENT_BYTES))
def test_whatever_is_in_the_file_reading_gives_valid_slots_or_none(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, place: int
) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "GPU"
    segments.create(path)
    reader = Segment(path)
    with path.open("r+b") as file:
        file.seek(place)
        file.write(content)
    for _, slot in reader.slots():
        assert layout.parse(layout.pack(slot)) == slot
    reader.close()
