"""What the slots ask for, and for how long they are believed."""

from hypothesis import given
from hypothesis import strategies as st

from cotenant_runtime import demand, layout
from cotenant_runtime.demand import HEARTBEAT_NS, LAPSE_NS
from cotenant_runtime.layout import Inference, Phase, Slot, Training

NOW = 10**12


def slot(state: Inference | Training, *, heartbeat_ns: int = NOW) -> Slot:
    return Slot(sequence=1, heartbeat_ns=heartbeat_ns, pid=1, state=state)


def open_request(latest_start_ns: int = NOW + 5, **more: int) -> Inference:
    return Inference(phase=Phase.HEAVY, pending=1, latest_start_ns=latest_start_ns, **more)


def test_without_slots_nothing_is_asked_for() -> None:
    assert demand.combined([], NOW) == demand.NOTHING


def test_training_asks_for_nothing() -> None:
    assert not demand.combined([slot(Training(phase=Phase.WAITING))], NOW).attached


def test_a_job_without_requests_is_attached_and_needs_nothing() -> None:
    found = demand.combined([slot(Inference())], NOW)
    assert (found.attached, found.latest_start_ns) == (True, None)


def test_the_earliest_latest_start_of_all_jobs_counts() -> None:
    found = demand.combined([slot(open_request(NOW + 9)), slot(open_request(NOW + 3))], NOW)
    assert found.latest_start_ns == NOW + 3


def test_a_light_phase_needs_nothing() -> None:
    assert demand.combined([slot(Inference(phase=Phase.LIGHT, pending=1))], NOW).latest_start_ns is None


def test_what_two_jobs_fill_is_added() -> None:
    assert demand.combined([slot(Inference(fill=300)), slot(Inference(fill=400))], NOW).fill == 700


def test_a_job_that_has_not_measured_counts_as_half_the_device() -> None:
    assert demand.combined([slot(Inference())], NOW).fill == demand.UNKNOWN_FILL


def test_the_claim_of_a_dead_writer_ends() -> None:
    last = slot(open_request(), heartbeat_ns=NOW - LAPSE_NS)
    assert demand.combined([last], NOW).attached
    assert not demand.combined([last], NOW + 1).attached


def test_a_heartbeat_from_the_future_is_not_believed() -> None:
    assert not demand.combined([slot(open_request(), heartbeat_ns=NOW + HEARTBEAT_NS)], NOW).attached


def test_a_latest_start_beyond_every_deadline_asks_for_the_device_at_once() -> None:
    found = demand.combined([slot(open_request(NOW + layout.MAX_SPAN_NS + 1))], NOW)
    assert found.latest_start_ns == NOW


@given(st.lists(st.builds(open_request, st.integers(0, 2**62), fill=st.integers(0, 1000)), max_size=4))
def test_no_content_of_slots_gives_more_than_the_whole_device(states: list[Inference]) -> None:
    found = demand.combined([slot(state) for state in states], NOW)
    assert 0 < found.fill <= layout.FULL_FILL
    assert found.latest_start_ns is None or found.latest_start_ns <= NOW + layout.MAX_SPAN_NS
