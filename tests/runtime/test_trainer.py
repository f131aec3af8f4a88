"""The training side in virtual time: what it waits for, what it launches ahead, what it publishes."""

from pathlib import Path

import pytest

from cotenant_runtime import gate, layout
from cotenant_runtime import segment as segments
from cotenant_runtime.devices.virtual import Virtual
from cotenant_runtime.gate import Group, Limits
from cotenant_runtime.groups import Book, Key
from cotenant_runtime.layout import Inference, Phase, Training
from cotenant_runtime.segment import Segment, Writer
from cotenant_runtime.trainer import Clock, Trainer

MS = 1_000_000
HEAVY = Key("model:body", "Forward")
SMALL = Key("model:head", "Forward")


class World:
    """A trainer on a virtual device, with a job with an SLO on another slot of the same segment."""

    def __init__(self, path: Path, *, heavy: Group, limits: Limits) -> None:
        segments.create(path)
        self.device = Virtual(scatter=0)
        self.book = Book()
        self.book.restore({HEAVY: heavy, SMALL: Group(duration_ns=2 * MS, fill=50)})
        self.neighbour: Writer = Segment(path).claim()
        self.trainer = Trainer(
            Segment(path).claim(),
            device=self.device,
            book=self.book,
            limits=limits,
            clock=Clock(self.device.clock, self.device.sleep),
        )

    def publish(self, state: Inference) -> None:
        """Have the neighbour publish a state."""
        self.neighbour.write(state, now_ns=self.device.now_ns)
        self.trainer.refresh()

    def request(self) -> None:
        """Have the neighbour need the device now."""
        now = self.device.now_ns
        self.publish(Inference(phase=Phase.HEAVY, fill=900, pending=1, latest_start_ns=now))

    def before(self, key: Key = HEAVY) -> int:
        """Return how long the trainer was kept."""
        begin = self.device.now_ns
        self.trainer.before(key)
        return self.device.now_ns - begin

    def published(self) -> Training:
        """Return what the trainer has published."""
        slot = self.neighbour.segment.read(1)
        assert slot is not None
        assert isinstance(slot.state, Training)
        return slot.state


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "GPU", heavy=Group(duration_ns=2 * MS, fill=950), limits=Limits())


def test_without_a_job_with_an_slo_nothing_waits_and_nothing_is_launched_ahead(world: World) -> None:
    assert [world.before() for _ in range(50)] == [0] * 50
    assert world.device.unfinished_ns() == 0


def test_a_heavy_group_waits_until_the_claim_of_a_job_that_has_died_ends(world: World) -> None:
    world.trainer.limits = Limits(longest_wait_ns=60_000 * MS)
    world.trainer._gate = gate.initial(now_ns=world.device.now_ns, limits=world.trainer.limits)
    world.request()
    waited = world.before() / MS
    assert 2000 <= waited <= 2001


def test_a_heavy_group_waits_no_longer_than_the_longest_wait(world: World) -> None:
    world.request()
    assert 1000 <= world.before() / MS <= 1001
    assert world.published().waited_ns == pytest.approx(1000 * MS, rel=0.01)


def test_a_group_that_fills_little_passes(world: World) -> None:
    world.request()
    assert world.before(SMALL) == 0


def test_a_heavy_group_passes_while_the_request_is_in_a_light_phase(world: World) -> None:
    world.publish(Inference(phase=Phase.LIGHT, fill=900, pending=1))
    assert world.before() == 0


def test_work_launched_ahead_stays_within_the_stated_delay(world: World) -> None:
    """The device lags behind: without the bound, 200 groups of 2 ms would be launched at once."""
    world.publish(Inference(fill=900))
    for _ in range(200):
        world.before()
        assert world.device.unfinished_ns() <= Limits().delay_ns
    assert world.device.now_ns > 300 * MS


def test_groups_that_are_short_together_pass_with_one_look(tmp_path: Path) -> None:
    world = World(tmp_path / "GPU", heavy=Group(duration_ns=MS // 10, fill=950), limits=Limits())
    world.request()
    assert [world.before() for _ in range(9)] == [0] * 9
    assert world.before() > 0


def test_position_and_cost_are_published(world: World) -> None:
    world.trainer.step()
    for _ in range(3):
        world.device.now_ns += 100 * MS
        world.trainer.step()
    world.request()
    world.before()
    assert world.published().group == 1
    world.trainer.step()
    found = world.published()
    assert (found.phase, found.step, found.group) == (Phase.IDLE, 5, 0)
    assert found.alone_step_ns == 100 * MS
    assert found.step_ns >= 1000 * MS
    assert found.waited_ns + found.ran_ns > 0


def test_timings_of_the_first_steps_replace_the_guess_once_their_work_is_finished(tmp_path: Path) -> None:
    world = World(tmp_path / "GPU", heavy=Group(duration_ns=2 * MS, fill=950), limits=Limits())
    key = Key("model:new", "Forward")
    world.book.add(key, module="Linear")
    for _ in range(6):
        world.trainer.before(key)
        world.device.launched(7 * MS)
        world.device.now_ns += 3 * MS
        world.trainer.step()
        world.device.now_ns += 10 * MS
    world.trainer.step()
    assert world.book.group(key) == Group(duration_ns=7 * MS, fill=layout.FULL_FILL)
    assert not world.book.wants(key)


def test_after_the_end_the_slot_is_empty(world: World) -> None:
    world.trainer.end()
    assert world.neighbour.segment.read(1) is None
