"""The side of the job with an SLO: what it publishes of its requests."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant_runtime import segment as segments
from cotenant_runtime import serving
from cotenant_runtime.layout import Inference, Phase
from cotenant_runtime.segment import Segment
from cotenant_runtime.serving import Server, latest_start

MS = 1_000_000


class Time:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 10**12

    def __call__(self) -> int:
        """Return the time."""
        return self.now


class World:
    """A server on a segment, and its clock."""

    def __init__(self, path: Path) -> None:
        segments.create(path)
        self.segment = Segment(path)
        self.time = Time()
        self.server = Server(self.segment.claim(), clock=self.time)

    def state(self) -> Inference:
        """Return what is published."""
        slot = self.segment.read(0)
        assert slot is not None
        assert isinstance(slot.state, Inference)
        return slot.state

    def answer(self, milliseconds: int, *, deadline: float = 0.1) -> None:
        """Serve one request that takes so long."""
        with self.server.serving(deadline=deadline):
            self.time.now += milliseconds * MS


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "GPU")


@pytest.fixture(autouse=True)
def another_process() -> Iterator[None]:
    yield
    serving._PROCESS.tried = False
    serving._PROCESS.server = None


def test_a_server_without_requests_is_there_and_idle(world: World) -> None:
    assert world.state() == Inference()


def test_an_open_request_publishes_arrival_phase_and_deadline(world: World) -> None:
    now = world.time.now
    with world.server.serving(deadline=0.1):
        found = world.state()
    assert (found.phase, found.pending) == (Phase.HEAVY, 1)
    assert (found.arrival_ns, found.deadline_ns) == (now, now + 100 * MS)


def test_until_a_service_time_is_known_a_request_needs_the_device_at_once(world: World) -> None:
    with world.server.serving(deadline=0.1):
        assert world.state().latest_start_ns == world.time.now


def test_the_latest_start_leaves_the_time_that_requests_have_taken(world: World) -> None:
    for _ in range(4):
        world.answer(20)
    with world.server.serving(deadline=0.1):
        found = world.state()
    assert found.service_ns == 20 * MS
    assert found.latest_start_ns == world.time.now + 80 * MS


def test_a_light_phase_needs_nothing_of_the_device(world: World) -> None:
    with world.server.serving(deadline=0.1) as request:
        request.phase(Phase.LIGHT)
        assert (world.state().phase, world.state().latest_start_ns) == (Phase.LIGHT, 0)
        request.phase(Phase.HEAVY)
        assert world.state().phase is Phase.HEAVY


def test_requests_that_met_their_deadline_are_counted(world: World) -> None:
    world.answer(20)
    world.answer(200)
    found = world.state()
    assert (found.requests, found.met, found.pending, found.phase) == (2, 1, 0, Phase.IDLE)


def test_a_request_that_failed_counts_as_late_and_is_closed(world: World) -> None:
    with pytest.raises(KeyError), world.server.serving(deadline=0.1):
        raise KeyError
    assert (world.state().requests, world.state().met, world.state().pending) == (1, 0, 0)


def test_time_in_a_queue_counts_for_the_deadline_and_not_as_service(world: World) -> None:
    early = world.time.now
    world.time.now += 50 * MS
    for _ in range(2):
        with world.server.serving(deadline=0.1, arrived=early / 1e9):
            assert world.state().deadline_ns == early + 100 * MS
            world.time.now += 10 * MS
    assert world.state().service_ns == 10 * MS


@pytest.mark.parametrize("deadline", [-1.0, float("nan"), float("inf")])
def test_a_deadline_that_is_no_time_is_now(world: World, deadline: float) -> None:
    with world.server.serving(deadline=deadline):
        assert world.state().deadline_ns == world.time.now


def test_the_earliest_deadline_is_published_with_all_that_wait(world: World) -> None:
    first = world.server.begin(deadline_seconds=0.5)
    second = world.server.begin(deadline_seconds=0.1)
    assert (world.state().deadline_ns, world.state().pending) == (second.deadline_ns, 2)
    world.server.end(second)
    assert world.state().deadline_ns == first.deadline_ns


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=20), st.integers(1, 10**9))
def test_served_from_the_latest_start_on_every_deadline_is_met(deadlines: list[int], service: int) -> None:
    time = latest_start(deadlines, service, now_ns=0)
    late = []
    for deadline in sorted(deadlines):
        time += service
        late.append(time > deadline)
    assert not any(late)
    assert any(
        latest_start(deadlines, service, now_ns=0) + (place + 1) * service == deadline
        for place, deadline in enumerate(sorted(deadlines))
    )


def test_without_the_environment_serving_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COTENANT_SPACE_TIME", raising=False)
    serving._PROCESS.tried = False
    with serving.serving(deadline=0.1) as request:
        request.phase(Phase.LIGHT)
    assert serving.server() is None


def test_a_segment_that_is_missing_leaves_the_job_as_it_was(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("COTENANT_SPACE_TIME", "Inference")
    monkeypatch.setenv("COTENANT_SPACE_TIME_SEGMENT", str(tmp_path / "absent"))
    serving._PROCESS.tried = False
    with serving.serving(deadline=0.1):
        assert serving.server() is None
    assert "requests are served as before" in caplog.text
