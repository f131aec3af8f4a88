"""Many runs at once: in this process, in several, and on a dask cluster: the same results in the same order."""

import contextlib
import functools
from collections.abc import Callable

import distributed
import joblib
import pytest

from cotenant_api import errors
from cotenant_simulator import sweeps
from cotenant_simulator.openb import replay, trace
from simulator import kit, sweeps_kit


def squares() -> list[Callable[[], int]]:
    return [functools.partial(sweeps_kit.squared, number) for number in range(6)]


def runs() -> list[Callable[[], replay.Outcome]]:
    nodes = tuple(kit.node(f"n{number}", gpus=2) for number in range(4))
    pods = tuple(kit.pod(milli, cpu=1000 + milli) for milli in (230, 470, 470, 810, 1000))
    read = trace.Trace(name="by-hand", nodes=nodes, pods=pods)
    return [functools.partial(sweeps_kit.outcome, read, seed) for seed in (44, 42, 43)]


@pytest.mark.parametrize("processes", [1, 2])
def test_results_come_in_the_order_asked_for(processes: int) -> None:
    assert list(sweeps.run(squares(), processes=processes)) == [0, 1, 4, 9, 16, 25]


def test_processes_come_to_what_one_comes_to() -> None:
    assert list(sweeps.run(runs(), processes=2)) == list(sweeps.run(runs(), processes=1))


def test_a_dask_cluster_comes_to_what_one_process_comes_to() -> None:
    cluster = distributed.LocalCluster(  # type: ignore[no-untyped-call]
        n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None
    )
    with cluster, distributed.Client(cluster), joblib.parallel_config(backend="dask"):  # type: ignore[no-untyped-call]
        there = list(sweeps.run(runs()))
    assert there == list(sweeps.run(runs(), processes=1))


@pytest.mark.parametrize("processes", [1, 2])
def test_an_error_comes_as_it_was_raised(processes: int) -> None:
    with pytest.raises(errors.InvalidInputError, match=r"--seeds: 3: must be another") as raised:
        list(sweeps.run([functools.partial(sweeps_kit.refused, 3)] * 3, processes=processes))
    assert (raised.value.field, raised.value.value, raised.value.remedy) == ("--seeds", 3, "must be another")


def test_a_process_that_is_killed_is_said_with_what_to_do() -> None:
    tasks = [functools.partial(sweeps_kit.killed, number) for number in range(3)]
    with pytest.raises(errors.PermanentError, match=r"a process of 2 was ended from outside, .* fewer processes"):
        list(sweeps.run(tasks, processes=2))
    assert list(sweeps.run(squares(), processes=2)) == [0, 1, 4, 9, 16, 25]


# joblib's own thread may look for a task that was taken back at that moment (KeyError in loky); nobody waits for it.
@pytest.mark.filterwarnings(
    "ignore:Exception in thread ExecutorManagerThread:pytest.PytestUnhandledThreadExceptionWarning"
)
@pytest.mark.parametrize("processes", [1, 2])
def test_who_stops_listening_ends_the_rest_without_a_warning(processes: int) -> None:
    with contextlib.closing(sweeps.run(squares() * 20, processes=processes)) as results:
        assert next(results) == 0


@pytest.mark.parametrize("processes", [1, 2])
def test_nothing_to_do_is_nothing(processes: int) -> None:
    none: list[Callable[[], int]] = []
    assert list(sweeps.run(none, processes=processes)) == []
