"""A node without a CDI specification: the agent makes one with NVIDIA's nvidia-ctk, and containers start with it."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cotenant_e2e import waiting
from cotenant_e2e.node import agents, machine
from cotenant_standin import cdi, state
from node import driver_root
from node import tenants as kit
from node.tenants import Tenants

SECONDS = 60
SHARES = 400
STANDIN = {"name": "standin", "mountPath": str(state.DEFAULT_FOLDER), "readOnly": True}
"""The stand-in's state: to a real driver it is in the kernel, and needs no mount."""
VOLUME = {"name": "standin", "hostPath": {"path": str(agents.STANDIN)}}
LISTED = f"ls -l /{driver_root.LIBRARIES}; "


@pytest.fixture(name="driver")
def as_the_gpu_operator(tenants: Tenants, tmp_path: Path) -> Iterator[Path]:
    """The node as the GPU Operator leaves it: a driver below a folder, a toolkit, and no specification for one GPU."""
    gpus = tenants.gpus
    root = driver_root.make(tmp_path / "run/nvidia/driver", version=state.DRIVER_VERSION, gpus=len(gpus.state.gpus()))
    toolkit = driver_root.install_toolkit(tmp_path / "toolkit")
    tenants.cluster.kill(agents.AGENT)
    (machine.CDI / cdi.FILE).unlink()
    management = {"cdiVersion": "0.5.0", "kind": "management.nvidia.com/gpu", "devices": [{"name": "all"}]}
    (machine.CDI / "management.nvidia.com-gpu.yaml").write_text(json.dumps(management))
    gpus.start_agent(flags={"--driver-root": root, "--toolkit": toolkit})
    yield root
    tenants.cluster.kill(agents.AGENT)
    (machine.CDI / "management.nvidia.com-gpu.yaml").unlink()
    gpus.write_base_specification()
    gpus.start_agent()
    gpus.wait_until_offered(SHARES)


def test_a_tenant_has_its_gpu_the_drivers_libraries_and_its_limits(tenants: Tenants, driver: Path) -> None:
    tenants.gpus.wait_until_offered(SHARES)
    tenants.create("one", 30, script=LISTED + kit.HOLD, mounts=[STANDIN], volumes=[VOLUME])
    pod = tenants.running("one")
    shown, booked = tenants.shown(pod), kit.placement_of(pod)
    assert shown
    assert booked
    assert kit.matches(shown, booked)
    assert shown.devices >= tenants.gpus.devices(booked.gpus[0].uuid)
    assert not shown.devices & tenants.gpus.devices_but(booked.gpus[0].uuid)
    listed = "\n".join(tenants.lines(pod))
    assert f"libcuda.so.{state.DRIVER_VERSION}" in listed
    assert "libcuda.so.1 -> " in listed  # by the hook create-symlinks
    (allocation,) = [each for each in tenants.ledger() if each.pod_uid == pod["metadata"]["uid"]]
    written = allocation.specification.read_text()
    assert str(driver) in written
    assert "enable-cuda-compat" not in written
    assert "create-symlinks" in written


def test_what_a_driver_container_mounts_later_is_seen_by_a_pod_that_runs(tenants: Tenants, tmp_path: Path) -> None:
    """As the agent's DaemonSet has it: a driver may come, or be replaced, while the agent runs."""
    place = machine.DRIVERS / "driver"
    template = Tenants.template(0, schedulerName="default-scheduler")
    (container,) = template["spec"]["containers"]
    container["command"] = ["sh", "-c", f"until [ -e {place}/usr ]; do sleep 0.1; done; echo seen"]
    container["resources"] = {}
    mount = {"name": "driver", "mountPath": str(place), "readOnly": True, "mountPropagation": "HostToContainer"}
    container["volumeMounts"] = [mount]
    template["spec"]["volumes"] = [{"name": "driver", "hostPath": {"path": str(place), "type": "DirectoryOrCreate"}}]
    template["metadata"]["name"] = "waits"
    tenants.client.create(tenants.pods(), {"apiVersion": "v1", "kind": "Pod"} | template)
    tenants.wait("waits", "running", lambda pod: pod["status"].get("phase") == "Running")
    (tmp_path / "usr").mkdir()
    tmp_path.chmod(0o755)
    subprocess.run(["mount", "--bind", tmp_path, place], check=True)
    try:
        tenants.wait("waits", "seen", lambda pod: pod["status"].get("phase") == "Succeeded")
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


def test_without_a_driver_the_node_says_what_is_missing_and_gives_shares_once_it_is_there(
    tenants: Tenants, driver: Path
) -> None:
    gpus = tenants.gpus
    gpus.wait_until_offered(SHARES)
    hidden = driver.rename(driver.with_name("hidden"))
    gpus.node.cluster.kill(agents.AGENT)
    gpus.node.cluster.restart(agents.AGENT)
    waiting.wait_until(lambda: gpus.ready() == ("False", "NoCDI"), "NoCDI", SECONDS)
    said = next(each["message"] for each in gpus.status()["conditions"] if each["type"] == "Ready")
    assert "management.nvidia.com-gpu.yaml (management.nvidia.com/gpu) gives all GPUs at once" in said
    assert f"there is no libnvidia-ml.so.1 below {driver}" in said
    hidden.rename(driver)
    gpus.wait_until_offered(SHARES)
