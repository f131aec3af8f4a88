"""What the product's backend makes of whole recorded answers: `MPSv2` asks, and a recording answers word for word.

Of PIDs alone others may stand there. Drivers are named by their whole version.
"""

import asyncio
import functools
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from cotenant_api.names import GPUUID
from cotenant_deviceplugin.mps import control, layout, v2
from cotenant_deviceplugin.mps.backend import Server
from mps_kit import active, exchanges, programs, session
from mps_kit.exchanges import State

GPU: Final = GPUUID(session.GPU)
_DEFAULT: Final = "get_default_active_thread_percentage"
_STATES: Final = (State.NO_SERVER, State.STARTING, State.ENDING)


class Recorded(control.Control):
    """A control daemon whose answers are recorded."""

    def __init__(self, answers: Mapping[str, str]) -> None:
        super().__init__(Path("/nonexistent"))
        self._answers = answers

    async def ask(self, *commands: str) -> str:
        """Return the recorded answers, one after the other."""
        return "".join(self._answers[command] for command in commands)


class Backend(v2.MPSv2):
    """The product's backend, of which a recording is asked."""

    def __init__(self, root: Path, answers: Mapping[str, str]) -> None:
        super().__init__(root, cuda_version="13.0", alive=lambda _: True)
        self._answers = answers

    def _control(self, _: GPUUID) -> control.Control:
        return Recorded(self._answers)


@functools.cache
def recordings() -> tuple[tuple[str, str], ...]:
    """Return every driver and state of which there are answers."""
    told = [(session.kept(major)["driver"], state.value) for major in programs.DRIVERS for state in _STATES]
    return (*told, *((driver, active.ACTIVE) for driver in active.drivers()))


@functools.cache
def observed(driver: str, state: str, *, server: int, clients: tuple[int, ...] = ()) -> Server:
    """Return what the agent observes where a daemon answers as recorded; `clients`: only of an ACTIVE server."""
    answers = {
        command.replace("SERVER", str(server)): output.replace("SERVER", str(server))
        for command, output in _answers(driver, state, server=server, clients=clients).items()
    }
    with tempfile.TemporaryDirectory() as folder:
        for path in (layout.pipe(Path(folder), GPU), layout.log(Path(folder), GPU)):
            path.mkdir(parents=True)
        return asyncio.run(Backend(Path(folder), answers).observe(GPU))


def _answers(driver: str, state: str, *, server: int, clients: Sequence[int]) -> dict[str, str]:
    if state == active.ACTIVE:
        recording = active.kept(driver)
        found = active.in_state(recording, state)
        pids = [*map(str, recording["clients"])]
        listed = "".join(f"{pid}\n" for pid in clients)
        whole = "".join(f"{pid}\n" for pid in pids)
        return {
            command: output.replace(whole, listed).replace(f"{recording['server']}\n", f"{server}\n")
            for command, output in found.items()
        }
    return _by_command(session.kept(driver.partition(".")[0])["exchanges"], state)


def _by_command(told: Sequence[Mapping[str, Any]], state: str) -> dict[str, str]:
    """Return a state's answers, by command. A question that was put among others alone has its answer at their end."""
    found: dict[str, str] = {}
    for each in told:
        commands = each.get("commands", [])
        if each["state"] != state or each.get("raw") or not commands:
            continue
        if len(commands) == 1:
            found.setdefault(commands[0], each["output"])
        elif list(commands) == exchanges.DESCRIBE:
            found.setdefault(_DEFAULT, each["output"].splitlines(keepends=True)[-1])
            if "".join(found[command] for command in commands) != each["output"]:
                raise ValueError(f"{state}: five questions have other answers together than alone")
    return found
