"""The simulated GPU of these tests, and programs that run on it."""

import functools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cotenant_predictor.profiling import mps
from cotenant_predictor.profiling.simulated import device
from cotenant_predictor.profiling.store import Store

CONTROL = (sys.executable, "-m", "cotenant_predictor.profiling.simulated.mps_control")
SPEEDUP = 1.0


@pytest.fixture
def simulate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., device.SimulatedDevice]:
    """Makes the GPU, with facts of its own, and names it in the environment."""

    def make(**facts: Any) -> device.SimulatedDevice:
        folder = tmp_path / "gpu"
        monkeypatch.setenv(device.FOLDER, str(folder))
        return device.SimulatedDevice.create(folder, **{"speedup": SPEEDUP, **facts})

    return make


@pytest.fixture
def daemon(simulate: Callable[..., device.SimulatedDevice]) -> Iterator[mps.ControlDaemon]:
    """A control daemon of the simulated GPU."""
    simulate()
    started = mps.ControlDaemon.start(CONTROL, gpu_uuid="GPU-1")
    try:
        yield started
    finally:
        started.stop()


class Lab:
    """A folder with a simulated GPU, and the results that are measured on it in `campaign`."""

    def __init__(self, folder: Path, **facts: Any) -> None:
        self.folder, self.campaign = folder, folder / "campaign"
        self.gpu = device.SimulatedDevice.create(folder / "gpu", **{"speedup": SPEEDUP, **facts})

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """Begin a campaign of the smoke set, with short times."""
        command = [sys.executable, "-m", "cotenant_predictor.profiling", "run", "--device", "modelled", "--no-graphs"]
        quick = ["--window-seconds", "0.2", "--ramp-seconds", "0.05", "--requests", "20", "--grace-seconds", "1.5"]
        output = ["--output", str(self.campaign), "--commit", "test"]
        environment = {**os.environ, device.FOLDER: str(self.folder / "gpu")}
        return subprocess.Popen(
            [*command, *quick, *output, *arguments], stderr=subprocess.PIPE, text=True, env=environment
        )

    def measure(self, *arguments: str) -> str:
        """Carry out a campaign; what it printed."""
        with self.start(*arguments) as process:
            text = process.communicate(timeout=120)[1]
        assert process.returncode == 0, text
        return text

    def results(self, stage: str = "") -> list[dict[str, Any]]:
        """What was measured, of one stage or all."""
        found = Store(self.campaign).results()
        return [result for result in found if stage in ("", result["run"]["stage"])]


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Lab]:
    """Makes a lab; its facts are the GPU's."""
    return functools.partial(Lab, tmp_path)


@pytest.fixture(scope="session")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """A lab in which a whole campaign was carried out, once for all tests that only look at it."""
    found = Lab(tmp_path_factory.mktemp("measured"))
    (found.folder / "printed").write_text(found.measure("--stages", "alone,pairs,memory,compare,triples"))
    return found
