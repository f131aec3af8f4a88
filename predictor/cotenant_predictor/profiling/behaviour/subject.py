"""A tenant's process that is experimented with.

Reads commands as JSON lines, answers each with a line, as `worker` does.

An error of the driver is no failure of the process but an answer: `{"error": {"function", "code", "name", "text"}}`.
It ends when its input ends.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import statistics
import sys
import time
from collections.abc import Mapping
from typing import Any, TextIO

from cotenant_predictor.profiling import engines, worker
from cotenant_predictor.profiling.behaviour.driver import Device, DriverError

_CHUNK_MIB = 16
_MIB = 2**20


def attached(device: engines.Device) -> Device:
    """Return the driver of this machine, or the modelled device. Imports what that needs, and no torch."""
    module = "cotenant_predictor.profiling." + (
        "simulated.subject" if device is engines.Device.MODELLED else "behaviour.libcuda"
    )
    found = importlib.import_module(module)
    made: Device = found.ModelledDevice() if device is engines.Device.MODELLED else found.Cuda()
    return made


def serve(device: Device, commands: worker.Commands, answers: TextIO) -> None:
    """Answer commands until told to quit."""
    _answer(answers, {"pid": os.getpid(), "uid": os.getuid()})
    while (command := commands.next(None)) is not None and command["do"] != "quit":
        if command["do"] != "stop":
            try:
                reply = _done(device, command, commands)
            except DriverError as error:
                reply = {"error": error.to_object()}
            _answer(answers, reply)


def _done(device: Device, command: Mapping[str, Any], commands: worker.Commands) -> dict[str, Any]:
    match command["do"]:
        case "open":
            device.open()
            return {"facts": device.facts()}
        case "allocate":
            return _allocated(device, int(command["upToMiB"]))
        case "context":
            before = device.memory()
            device.second_context()
            return {"before": before, "after": device.memory()}
        case "torch":
            return _with_torch(int(command["mib"]))
        case "work":
            return _worked(device, command["until"], commands)
    device.fault()
    return {}


def _allocated(device: Device, up_to_mib: int) -> dict[str, Any]:
    """Take memory in small pieces until refused."""
    held = 0
    try:
        while held < up_to_mib:
            device.allocate(min(_CHUNK_MIB, up_to_mib - held))
            held += min(_CHUNK_MIB, up_to_mib - held)
    except DriverError as error:
        return {"allocatedMiB": held, "refused": error.to_object(), **_memory(device)}
    return {"allocatedMiB": held, "refused": None, **_memory(device)}


def _memory(device: Device) -> dict[str, Any]:
    try:
        return dict(device.memory())
    except DriverError as error:
        return {"memoryReason": str(error)}


def _with_torch(mib: int) -> dict[str, Any]:
    """Return the words in which a user of torch meets the limit."""
    try:
        torch = importlib.import_module("torch")
    except ModuleNotFoundError:
        return {"reason": "torch is not installed"}
    try:
        torch.empty(mib * _MIB, dtype=torch.uint8, device="cuda")
    except RuntimeError as error:
        return {"text": f"{type(error).__name__}: {error}"[:512]}
    return {"text": "no error"}


def _worked(device: Device, until: float | None, commands: worker.Commands) -> dict[str, Any]:
    """Do steps one behind the other until a moment of the monotonic clock, until told to stop, or until an error."""
    begun = last = time.monotonic()
    lengths: list[float] = []
    longest_ended = begun
    error: DriverError | None = None
    while (until is None or last < until) and not _stopped(commands):
        try:
            device.step()
        except DriverError as met:
            error = met
            break
        now = time.monotonic()
        if not lengths or now - last > max(lengths):
            longest_ended = now
        lengths.append(now - last)
        last = now
    return {
        "steps": len(lengths),
        "perSecond": round(len(lengths) / max(last - begun, 1e-9), 3),
        "medianMilliseconds": round(1000 * statistics.median(lengths), 3) if lengths else None,
        "longestMilliseconds": round(1000 * max(lengths), 3) if lengths else None,
        "longestEndedAt": longest_ended,
        "endedAt": time.monotonic(),
        "error": None if error is None else error.to_object(),
    }


def _stopped(commands: worker.Commands) -> bool:
    command = commands.next(0)
    if command is not None and command["do"] != "stop":
        commands.put_back(command)
        return True
    return command is not None or commands.ended


def _answer(answers: TextIO, reply: Mapping[str, Any]) -> None:
    answers.write(json.dumps({"outcome": "Ok", **reply}, separators=(",", ":")) + "\n")
    answers.flush()


def main() -> None:
    """Serve on standard input and output; what libraries print goes to standard error."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", type=engines.Device, choices=list(engines.Device), required=True)
    arguments = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever conducts the experiment ends it
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    serve(attached(arguments.device), worker.Commands(sys.stdin.fileno()), answers)


if __name__ == "__main__":
    main()
