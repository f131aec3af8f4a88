"""`cotenant node-doctor`: each check finds what it is for; one real run on stand-in GPUs finds what is broken there."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cotenant_api import cli, findings
from cotenant_api.names import GPUUID, GPUModel
from cotenant_deviceplugin.doctor import checks, reading
from cotenant_deviceplugin.doctor.checks import runtime, toolkit
from cotenant_deviceplugin.doctor.machine import Configuration, Daemon, Machine
from cotenant_deviceplugin.gpus import hardware
from cotenant_standin import building, cdi
from node_kit import gpu_machine

UUID = GPUUID("GPU-0")
FILE = Path("/etc/config.toml")
PIPE = Path("/run/cotenant/mps/GPU-0/pipe")
EXCLUSIVE = hardware.Readings(compute_mode=hardware.ComputeMode.EXCLUSIVE_PROCESS)


def device(**changed: Any) -> hardware.Device:
    base: dict[str, Any] = {"uuid": UUID, "index": 0, "model": GPUModel("NVIDIA-H200"), "memory_mib": 1, "sm_count": 1}
    return hardware.Device(**(base | {"compute_capability": "9.0", "minor": 0} | changed))


def configuration(content: Mapping[str, Any] | None, fault: str | None = None) -> Configuration:
    return Configuration(path=FILE, content=content, fault=fault)


def containerd(**cri: Any) -> Configuration:
    return configuration({"plugins": {runtime.PLUGINS[0]: cri}})


def machine(**changed: Any) -> Machine:
    """One in which nothing is wrong."""
    base: dict[str, Any] = {
        "driver": hardware.Driver(driver_version="580.1", cuda_version="13.0"),
        "devices": (device(),),
        "readings": {UUID: EXCLUSIVE},
        "cdi_dirs": (Path("/etc/cdi"),),
        "daemons": {UUID: Daemon(pipe=PIPE, status="ACTIVE", clients=2)},
        "container_runtime": "containerd://2.3.7",
        "containerd": containerd(),
        "toolkit": configuration({toolkit.BY_VARIABLE: False}),
        "shm_mib": 1024,
        "plugins": ("cotenant.sock",),
    }
    return Machine(**(base | changed))


def found(check: str, **changed: Any) -> list[findings.Finding]:
    every = checks.examined(machine(**changed))
    return [one for one in every if one.check == check and one.level is not findings.Level.OK]


def readings(**changed: Any) -> dict[str, Any]:
    return {"readings": {UUID: hardware.Readings(**changed)}}


def test_where_nothing_is_wrong_every_check_says_so() -> None:
    every = checks.examined(machine())
    assert [one for one in every if one.level is not findings.Level.OK] == []
    assert {one.check for one in every} == set(checks.every_check())


def test_a_machine_of_which_nothing_is_seen_is_told_with_remedies() -> None:
    every = checks.examined(Machine())
    assert all(one.remedy for one in every)
    assert {one.check for one in every if one.level is findings.Level.ERROR} == {"driver"}


@pytest.mark.parametrize(
    ("check", "changed", "level"),
    [
        ("driver", {"driver": None, "driver_fault": "no driver"}, "error"),
        ("driver", {"driver": hardware.Driver(driver_version="565.57.01", cuda_version="12.7")}, "error"),
        ("driver", {"devices": ()}, "error"),
        ("driver", {"devices": (device(mig=True),)}, "warning"),
        ("driver", readings(fault="NVML: lost"), "error"),
        ("driver", readings(recovery_action=hardware.RecoveryAction.GPU_RESET), "error"),
        ("driver", readings(remap_failed=True), "error"),
        ("driver", readings(remap_pending=True), "warning"),
        ("compute-mode", readings(compute_mode=hardware.ComputeMode.PROHIBITED), "error"),
        ("compute-mode", readings(compute_mode=hardware.ComputeMode.DEFAULT), "warning"),
        ("mps", {"daemons": {}}, "warning"),
        ("mps", {"daemons": {UUID: Daemon(pipe=PIPE, fault="no MPS control daemon")}}, "error"),
        ("mps", {"daemons": {UUID: Daemon(pipe=PIPE, status="FAULT")}}, "error"),
        ("runtime", {"container_runtime": None, "containerd": None}, "warning"),
        ("runtime", {"container_runtime": "containerd://1.6.20"}, "error"),
        ("runtime", {"container_runtime": "containerd://1.7.2"}, "error"),
        ("runtime", {"containerd": containerd(enable_cdi=False)}, "error"),
        ("runtime", {"containerd": configuration(None, "cannot be read")}, "error"),
        ("runtime", {"containerd": containerd(containerd={"default_runtime_name": "nvidia"})}, "warning"),
        ("toolkit", {"toolkit": None}, "warning"),
        ("toolkit", {"toolkit": configuration(None, "cannot be read")}, "error"),
        ("toolkit", {"toolkit": configuration({})}, "warning"),
        ("toolkit", {"toolkit": configuration({toolkit.BY_VARIABLE: False, toolkit.BY_MOUNT: True})}, "warning"),
        ("cdi", {"specification_fault": "/etc/cdi: denied"}, "error"),
        ("shared-memory", {"shm_mib": 8}, "warning"),
        ("shared-memory", {"shm_mib": None}, "warning"),
        ("device-plugins", {"plugins": ("cotenant.sock", "nvidia-gpu.sock")}, "warning"),
        ("device-plugins", {"plugins": ()}, "warning"),
        ("device-plugins", {"plugins": None}, "warning"),
    ],
)
def test_what_is_wrong_is_found_with_a_remedy(check: str, changed: dict[str, Any], level: str) -> None:
    (one,) = found(check, **changed)
    assert one.level == level
    assert one.remedy


@pytest.mark.parametrize(
    ("check", "changed"),
    [
        ("compute-mode", readings(compute_mode=hardware.ComputeMode.DEFAULT) | {"daemons": {}}),
        ("mps", {"daemons": {UUID: Daemon(pipe=PIPE)}}),
        ("runtime", {"container_runtime": "containerd://1.7.2", "containerd": containerd(enable_cdi=True)}),
        ("runtime", {"container_runtime": None, "containerd": containerd(enable_cdi=True)}),
        ("runtime", {"container_runtime": "cri-o://1.30.1", "containerd": None}),
    ],
)
def test_what_is_as_it_should_be_is_no_finding(check: str, changed: dict[str, Any]) -> None:
    assert found(check, **changed) == []


def test_a_real_run_finds_what_is_broken_and_what_is_not(tmp_path: Path) -> None:
    places = {name: tmp_path / name for name in ("cdi", "kubelet/device-plugins", "host/etc/containerd/conf.d")}
    for path in places.values():
        path.mkdir(parents=True)
    (tmp_path / "kubelet/device-plugins/nvidia-gpu.sock").touch()
    imports = f'imports = ["/etc/containerd/conf.d/*.toml"]\n[plugins."{runtime.PLUGINS[1]}"]\nenable_cdi = true\n'
    (tmp_path / "host/etc/containerd/config.toml").write_text(imports)
    default = f'[plugins."{runtime.PLUGINS[1]}".containerd]\ndefault_runtime_name = "nvidia"\n'
    (tmp_path / "host/etc/containerd/conf.d/99-nvidia.toml").write_text(default)
    with gpu_machine.started() as gpus:
        cdi.write(gpus.state, tmp_path / "cdi")
        gpus.control_daemon()
        tenant = gpus.tenant()
        options = {
            "--nvml": building.nvml(),
            "--root": tmp_path / "host",
            "--kubelet-dir": tmp_path / "kubelet",
            "--mps-root": gpus.mps_root,
            "--mps-control": gpus.program[0],
            "--cdi-dir": tmp_path / "cdi",
            "--output": "json",
        }
        words = [str(word) for pair in options.items() for word in pair]
        script = "import sys; from cotenant_api import cli; sys.exit(cli.main())"
        ran = subprocess.run(
            [sys.executable, "-c", script, "node-doctor", *words],
            env=gpus.environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        tenant.process.kill()
    every = json.loads(ran.stdout)["findings"]
    levels = {(one["check"], one["level"]) for one in every}
    assert levels >= {("driver", "ok"), ("mps", "ok"), ("cdi", "ok"), ("runtime", "ok"), ("runtime", "warning")}
    assert levels >= {("toolkit", "warning"), ("compute-mode", "warning"), ("device-plugins", "warning")}
    assert "error" not in {level for _, level in levels}
    assert ran.returncode == 0, ran.stderr


def test_without_a_driver_the_doctor_says_so_and_ends_with_its_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--nvml", str(tmp_path / "none.so"), "--root", str(tmp_path), "--mps-root", str(tmp_path)]
    assert cli.main(["node-doctor", *words]) == findings.ERRORS_FOUND
    assert "the NVIDIA driver cannot be asked" in capsys.readouterr().out


def test_the_clusters_doctor_calls_it_for_the_machine_that_it_is_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--node-local", "-o", "json"]) in (0, findings.ERRORS_FOUND)
    assert {one["check"] for one in json.loads(capsys.readouterr().out)["findings"]} >= {"driver", "toolkit"}


def test_a_configuration_that_is_no_toml_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("a = [")
    read = reading.configuration(tmp_path, ("missing.toml", "config.toml"))
    assert read is not None
    assert (read.content, read.path.name) == (None, "config.toml")
    assert "cannot be read" in str(read.fault)
