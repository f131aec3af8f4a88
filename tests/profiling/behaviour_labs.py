"""Campaigns of experiments on both stand-ins, each in a process of its own and all at once."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cotenant_predictor.profiling.simulated import device
from cotenant_predictor.profiling.store import Store
from gpu import standin

GPU = Path(standin.__file__).parent
QUICK = ("--no-graphs", "--window-seconds", "0.2", "--ramp-seconds", "0.1", "--grace-seconds", "10", "--kills", "1")


class Campaign:
    """The set `behaviour`, or some stages of it, in a folder of its own."""

    def __init__(self, folder: Path, environment: Mapping[str, str], *arguments: str) -> None:
        self.folder = folder
        self.environment = {**environment, "PYTHONUNBUFFERED": "1"}
        self._arguments = arguments

    def start(self, stages: str) -> "subprocess.Popen[str]":
        """Begin it."""
        command = [sys.executable, "-m", "cotenant_predictor.profiling", "run", "--set", "behaviour", *QUICK]
        where = ["--stages", stages, "--output", str(self.folder), "--commit", "test", *self._arguments]
        return subprocess.Popen([*command, *where], env=self.environment, stderr=subprocess.PIPE, text=True)

    def carry_out(self, stages: str) -> str:
        """What it prints."""
        with self.start(stages) as process:
            text = process.communicate(timeout=240)[1]
        assert process.returncode == 0, text
        return text

    def results(self) -> list[dict[str, Any]]:
        """All that it has written."""
        return list(Store(self.folder).results())

    def seen(self, name: str) -> dict[str, Any]:
        """What the first run of an experiment has found."""
        found: dict[str, Any] = next(
            result["experiment"] for result in self.results() if result["run"].get("experiment") == name
        )
        return found


@contextlib.contextmanager
def on_stand_in(folder: Path) -> Iterator[Campaign]:
    """On the stand-in's driver, control program and libraries: nothing is told that it is no GPU."""
    with standin.started() as environment:
        yield Campaign(folder, environment, "--product", str(GPU / "product.py"))


def on_simulated_device(folder: Path) -> Campaign:
    """On the modelled GPU."""
    device.SimulatedDevice.create(folder / "gpu")
    return Campaign(folder / "campaign", {**os.environ, device.FOLDER: str(folder / "gpu")}, "--device", "modelled")
