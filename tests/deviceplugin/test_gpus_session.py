"""One session with NVML for all threads."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pynvml
import pytest

from cotenant_deviceplugin.gpus import session
from cotenant_standin import building, state


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> state.State:
    monkeypatch.setenv(state.FOLDER_VARIABLE, str(tmp_path))
    return state.create(tmp_path)


@pytest.fixture
def shared(machine: state.State) -> Iterator[session.Session]:
    made = session.Session(library=building.nvml())
    yield made
    made.close()


class Holding:
    """A thread that is inside until it is told to leave."""

    def __init__(self, shared: session.Session) -> None:
        self._shared = shared
        self._inside, self._leave = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._hold)
        self._thread.start()
        self._inside.wait()

    def _hold(self) -> None:
        with self._shared.used():
            self._inside.set()
            self._leave.wait()

    def leave(self) -> None:
        """Go out."""
        self._leave.set()
        self._thread.join()


def fail(shared: session.Session, code: int, *, system: bool = False) -> None:
    def refuse() -> None:
        raise pynvml.NVMLError(code)

    with shared.used():
        if system:
            session.system(refuse)
        refuse()


@pytest.mark.parametrize("code", sorted(session.AWAY))
def test_a_refusal_that_says_that_the_driver_is_away_breaks_the_session(shared: session.Session, code: int) -> None:
    with pytest.raises(session.DriverAwayError):
        fail(shared, code)
    assert shared.broken
    with shared.used():
        assert pynvml.nvmlDeviceGetCount() == 1
    assert (shared.broken, shared.number) == (False, 2)


def test_a_refusal_about_one_gpu_breaks_nothing(shared: session.Session) -> None:
    with pytest.raises(pynvml.NVMLError_GpuIsLost):
        fail(shared, pynvml.NVML_ERROR_GPU_IS_LOST)
    assert not shared.broken


def test_a_driver_of_another_version_needs_another_agent(shared: session.Session) -> None:
    with pytest.raises(session.DriverAwayError, match="restart the node agent"):
        fail(shared, pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)


def test_a_broken_session_begins_anew_when_the_last_has_left(shared: session.Session, machine: state.State) -> None:
    holding = Holding(shared)
    machine.load()
    with pytest.raises(session.DriverAwayError), shared.used():
        session.system(pynvml.nvmlDeviceGetCount)
    assert shared.broken
    counted: list[int] = []

    def count() -> None:
        with shared.used():
            counted.append(pynvml.nvmlDeviceGetCount())

    waiting = threading.Thread(target=count)
    waiting.start()
    waiting.join(0.1)
    assert waiting.is_alive()
    holding.leave()
    waiting.join()
    assert counted == [1]


def test_a_call_that_hangs_keeps_nobody_from_a_session_that_broke_for_once(machine: state.State) -> None:
    shared = session.Session(library=building.nvml(), leave_seconds=0.01)
    holding = Holding(shared)
    with pytest.raises(session.DriverAwayError):
        fail(shared, pynvml.NVML_ERROR_UNKNOWN, system=True)
    for _ in range(2):
        with shared.used():
            assert pynvml.nvmlDeviceGetCount() == 1
    assert shared.number == 1
    machine.load()
    with pytest.raises(session.DriverAwayError):
        fail(shared, pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
    holding.leave()
    with shared.used():
        assert pynvml.nvmlDeviceGetCount() == 1
    assert shared.number == 2
    shared.close()


def test_closing_waits_for_the_last(shared: session.Session) -> None:
    holding = Holding(shared)
    closing = threading.Thread(target=shared.close)
    closing.start()
    closing.join(0.1)
    assert closing.is_alive()
    holding.leave()
    closing.join()
    with pytest.raises(pynvml.NVMLError_Uninitialized):
        pynvml.nvmlDeviceGetCount()


def test_closing_does_not_wait_for_a_call_that_hangs(machine: state.State) -> None:
    shared = session.Session(library=building.nvml(), leave_seconds=0.01)
    holding = Holding(shared)
    shared.close()
    # Nothing is shut down under its call.
    assert pynvml.nvmlDeviceGetCount() == 1
    holding.leave()
    shared.close()


def test_a_driver_that_tells_no_version_is_away(shared: session.Session, machine: state.State) -> None:
    version = machine.root / "driver_version"
    version.write_text("x" * 1000)
    with pytest.raises(session.DriverAwayError), shared.used():
        pytest.fail("not reached")
    assert not shared.simulated
    version.write_text(state.DRIVER_VERSION)
    with shared.used():
        assert shared.simulated
