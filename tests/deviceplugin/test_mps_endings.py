"""When the clients of a pod that is being deleted are ended."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant_api.names import GPUUID, PodUID
from cotenant_deviceplugin.mps import endings
from mps_kit import active, heard

DELETION = datetime(2026, 1, 1, 12, 0, 30, tzinfo=UTC)
GPU = GPUUID("GPU-a")
POD = PodUID("p")


def ending(
    *, grace_seconds: int = 30, seen_seconds: float = -1.0, processes: frozenset[int] = frozenset({7, 8})
) -> endings.Ending:
    """Return the end of a pod; `seen_seconds`: below 0 the clock of the API server alone counts."""
    return endings.Ending(
        pod=POD, gpu=GPU, deletion=DELETION, grace_seconds=grace_seconds, seen_seconds=seen_seconds, processes=processes
    )


def ended(seconds: float, *, clients: set[int], grace_seconds: int = 30) -> list[int]:
    """PIDs that are ended so long before (-) or after the end of the grace period."""
    now = DELETION + timedelta(seconds=seconds)
    due = endings.due([ending(grace_seconds=grace_seconds)], clients={GPU: clients}, now=now)
    assert all((each.pod, each.gpu) == (POD, GPU) for each in due)
    return [each.pid for each in due]


def test_nothing_is_ended_more_than_five_seconds_before_the_end() -> None:
    assert ended(-5.001, clients={7, 8}) == []


def test_what_is_still_a_client_is_ended_five_seconds_before_the_end() -> None:
    assert ended(-5, clients={8, 9}) == [8]


def test_agent_that_was_down_ends_clients_late_rather_than_never() -> None:
    assert ended(120, clients={7}) == [7]


def test_a_node_whose_clock_is_behind_counts_from_when_it_saw_the_deletion() -> None:
    behind = DELETION - timedelta(hours=1)
    for seconds, found in ((24.9, []), (25.0, [7, 8])):
        due = endings.due([ending(seen_seconds=seconds)], clients={GPU: {7, 8}}, now=behind)
        assert [each.pid for each in due] == found


@pytest.mark.parametrize("grace_seconds", [0, 1, 4])
def test_grace_period_shorter_than_the_lead_ends_clients_at_once(grace_seconds: int) -> None:
    assert ended(-grace_seconds, clients={7}, grace_seconds=grace_seconds) == [7]


def test_client_is_named_again_until_it_is_none_any_more() -> None:
    assert ended(-4, clients={7}) == ended(-3, clients={7}) == [7]
    assert ended(-2, clients=set()) == []


def test_pod_on_a_gpu_without_server_has_no_clients_to_end() -> None:
    assert endings.due([ending()], clients={}, now=DELETION) == ()


TIMES = st.integers(min_value=-60_000, max_value=60_000).map(lambda milliseconds: milliseconds / 1000)
SOME = st.frozensets(st.integers(min_value=1, max_value=6))


@given(seconds=TIMES, later=TIMES, clients=SOME, processes=SOME, grace=st.integers(min_value=0, max_value=120))
def test_whoever_is_due_is_a_client_of_the_pod_never_too_early_and_stays_due(
    seconds: float, later: float, clients: frozenset[int], processes: frozenset[int], grace: int
) -> None:
    def due(after: float) -> set[int]:
        now = DELETION + timedelta(seconds=after)
        pod = ending(grace_seconds=grace, processes=processes)
        return {each.pid for each in endings.due([pod], clients={GPU: clients}, now=now)}

    found = due(seconds)
    assert found in (set(), set(processes & clients))
    assert not found or seconds >= -min(endings.LEAD_SECONDS, grace)
    assert found <= due(max(seconds, later))


@given(
    recording=st.sampled_from(heard.recordings()),
    listed=st.lists(st.integers(min_value=1, max_value=6), unique=True, max_size=3).map(tuple),
    processes=SOME,
    seconds=TIMES,
)
def test_whoever_is_due_is_among_the_clients_that_a_daemon_has_told_of(
    recording: tuple[str, str], listed: tuple[int, ...], processes: frozenset[int], seconds: float
) -> None:
    """Read by the product from the recorded answers of a driver, with these clients where the server was ACTIVE."""
    seen = heard.observed(*recording, server=100, clients=listed)
    now = DELETION + timedelta(seconds=seconds)
    found = endings.due([ending(processes=processes)], clients={GPU: frozenset(seen.clients)}, now=now)
    late = recording[1] == active.ACTIVE and seconds >= -endings.LEAD_SECONDS
    assert {each.pid for each in found} == (processes & set(listed) if late else set())
