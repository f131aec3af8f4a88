"""What the stand-in for NVIDIA's container runtime puts into containers, and what it leaves alone."""

import json
from pathlib import Path
from typing import Any

import pytest

from cotenant_standin import container_runtime, state
from cotenant_standin.container_runtime import Part

PARTS = [Part("utility", "/here/libnvidia-ml.so.1", "/lib/libnvidia-ml.so.1"), Part("compute", "/here/c", "/usr/bin/c")]


@pytest.fixture
def machine(tmp_path: Path) -> state.State:
    return state.create(tmp_path, (state.H200,) * 2)


def edited(machine: state.State, *environment: str) -> dict[str, Any]:
    specification = {"process": {"env": ["PATH=/bin", *environment]}, "mounts": [], "linux": {}}
    return container_runtime.edited(specification, machine, PARTS)


@pytest.mark.parametrize("asked", [(), ("NVIDIA_VISIBLE_DEVICES=void",), ("NVIDIA_VISIBLE_DEVICES=none",)])
def test_a_container_that_asks_for_no_device_is_left_alone(machine: state.State, asked: tuple[str, ...]) -> None:
    found = edited(machine, *asked)
    assert found["mounts"] == []
    assert found["linux"] == {}


def test_a_container_gets_every_device_and_the_parts_that_it_names(machine: state.State) -> None:
    found = edited(machine, "NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_DRIVER_CAPABILITIES=utility")
    assert {device["path"] for device in found["linux"]["devices"]} >= {
        "/dev/nvidia0",
        "/dev/nvidia1",
        "/dev/nvidiactl",
    }
    assert [mount["destination"] for mount in found["mounts"]] == ["/lib/libnvidia-ml.so.1", str(state.DEFAULT_FOLDER)]


def test_capabilities_add_up(machine: state.State) -> None:
    found = edited(machine, "NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_DRIVER_CAPABILITIES=compute,utility")
    assert len(found["mounts"]) == len(PARTS) + 1


def test_what_is_installed_runs_by_the_python_of_the_container(tmp_path: Path) -> None:
    container_runtime.install(tmp_path, nvml=Path("/x/libnvidia-ml.so.1"), cuda=Path("/x/libcuda.so.1"))
    control = (tmp_path / "in-container" / "nvidia-cuda-mps-control").read_text()
    assert control.startswith("#!/usr/bin/python3 -IS\n")
    assert repr(container_runtime.SOURCE) in control
    parts = json.loads((tmp_path / container_runtime.PARTS).read_text())
    assert {part["capability"] for part in parts} == {"compute", "utility"}
