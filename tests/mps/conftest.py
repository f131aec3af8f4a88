"""Every test here runs over NVIDIA's control program of each driver that could be fetched, and over the stand-in.

At the end it says which were proven. None at all is a failure: `scripts/test-mps` fetches them.
"""

from collections.abc import Iterator

import pytest

from cotenant_deviceplugin.mps import versions
from mps_kit import programs, session, standin
from mps_kit.place import Place
from node_kit import quick

REAL, STAND_IN = "nvidia", "stand-in"
_PROGRAMS = [f"{kind}-{driver}" for driver in programs.DRIVERS for kind in (REAL, STAND_IN)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each case over each program."""
    if "place" in metafunc.fixturenames:
        metafunc.parametrize("place", _PROGRAMS, indirect=True)


@pytest.fixture(scope="session", autouse=True)
def _interrupts() -> None:
    session.heed_interrupts()


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """A place of the program that the parameter names."""
    kind, _, driver = str(request.param).rpartition("-")
    with quick.folder() as folder:
        if kind == REAL:
            real = {program.major: program for program in programs.found()}.get(int(driver))
            if real is None:
                pytest.skip(f"driver {driver} could not be fetched")
            yield Place(program=real, folder=folder)
            return
        recorded = session.kept(driver)
        arguments = tuple(recorded["arguments"])
        program = standin.StandIn(folder=folder, version=recorded["driver"], arguments=arguments)
        yield Place(program=program, folder=folder)


@pytest.fixture
def supported(place: Place) -> Place:
    """The place, where the product supports the driver."""
    if versions.unfit(place.program.version):
        pytest.skip(f"driver {place.program.version} is older than {versions.LEAST_DRIVER}")
    return place


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Which of NVIDIA's programs all this was held against."""
    there = {program.major: program.version for program in programs.found()}
    absent = [driver for driver in programs.DRIVERS if int(driver) not in there]
    terminalreporter.write_line(
        f"proven with NVIDIA's control program of drivers: {', '.join(there.values()) or 'none'}"
    )
    if absent:
        terminalreporter.write_line(f"could not be fetched: {', '.join(absent)}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """None at all proves nothing."""
    if not programs.found():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
