"""One tenant's process.

Reads commands as JSON lines from standard input, answers each with a line on standard output.

`load` the jobs, `run` them from a moment on, `profile` one step, `stop` a run, `quit`. It ends when its input ends,
so that none outlives the campaign. An error that torch raises is an answer; any other ends the process with its
traceback.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import select
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from . import engines
from .catalog import Job

_WAKE_SECONDS = 0.05


class Commands:
    """Lines from a descriptor, also without waiting."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._rest, self.ended = descriptor, b"", False
        self._waiting: list[Mapping[str, Any]] = []

    def next(self, timeout_seconds: float | None) -> Mapping[str, Any] | None:
        """Return the next command; None at the end, or when none came in time."""
        if self._waiting:
            return self._waiting.pop()
        while b"\n" not in self._rest:
            if not select.select([self._descriptor], [], [], timeout_seconds)[0]:
                return None
            data = os.read(self._descriptor, 65536)
            if not data:
                self.ended = True
                return None
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        found: Mapping[str, Any] = json.loads(line)
        return found

    def put_back(self, command: Mapping[str, Any]) -> None:
        """Put back a command whose turn it is not yet."""
        self._waiting.append(command)


def serve(engine: engines.Engine, commands: Commands, answers: TextIO) -> None:
    """Answer commands until told to quit."""
    _answer(answers, {"outcome": "Ok", "pid": os.getpid()})
    while (command := commands.next(None)) is not None and command["do"] != "quit":
        if command["do"] == "stop":
            continue
        try:
            reply = {"outcome": "Ok", **_done(engine, command, commands)}
        except engines.OutOfMemoryError as error:
            reply = {"outcome": "OutOfMemory", "error": str(error)}
        except RuntimeError as error:
            reply = {"outcome": "Crashed", "error": str(error)[:256]}
        _answer(answers, reply)


def _done(engine: engines.Engine, command: Mapping[str, Any], commands: Commands) -> Mapping[str, Any]:
    if command["do"] == "load":
        engine.load([Job.from_object(job) for job in command["jobs"]])
        return {"reservedMiB": engine.reserved_mib()}
    if command["do"] == "profile":
        return engine.profile()
    reports = _run(engine, command, commands)
    return {"tenants": [report.to_object() for report in reports], "reservedMiB": engine.reserved_mib()}


def _run(engine: engines.Engine, command: Mapping[str, Any], commands: Commands) -> Sequence[engines.Report]:
    """All tenants at once; those without an end of their own stop when the ones with requests are through."""
    stop, tenants = threading.Event(), command["tenants"]
    with concurrent.futures.ThreadPoolExecutor(len(tenants)) as threads:
        running = [threads.submit(_tenant, engine, index, tenant, stop) for index, tenant in enumerate(tenants)]
        requests = [future for future, tenant in zip(running, tenants, strict=True) if tenant["load"] != "Steps"]
        while not all(future.done() for future in running):
            failed = any(future.done() and future.exception() for future in running)
            if failed or (requests and all(future.done() for future in requests)) or _told_to_stop(commands):
                stop.set()
            concurrent.futures.wait(running, timeout=_WAKE_SECONDS)
        return [future.result() for future in running]


def _tenant(engine: engines.Engine, index: int, tenant: Mapping[str, Any], stop: threading.Event) -> engines.Report:
    if tenant["load"] == "Steps":
        return engine.steps(index, start_at=tenant["startAt"], until=tenant["until"], stop=stop)
    return engine.requests(index, start_at=tenant["startAt"], arrivals=tenant["arrivals"], stop=stop)


def _told_to_stop(commands: Commands) -> bool:
    command = commands.next(0)
    if command is not None and command["do"] != "stop":
        commands.put_back(command)
        return False
    return command is not None or commands.ended


def _answer(answers: TextIO, reply: Mapping[str, Any]) -> None:
    answers.write(json.dumps(reply, separators=(",", ":")) + "\n")
    answers.flush()


def main() -> None:
    """Serve on standard input and output; what libraries print goes to standard error."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", type=engines.Device, choices=list(engines.Device), required=True)
    arguments = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    serve(engines.create(arguments.device), Commands(sys.stdin.fileno()), answers)


if __name__ == "__main__":
    main()
