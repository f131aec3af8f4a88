"""Our specification is NVIDIA's edits for the GPUs, and ours on top."""

import math
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from cotenant_api import errors
from cotenant_deviceplugin.binding import cdi, choice
from cotenant_deviceplugin.binding.grants import Numbers
from cotenant_deviceplugin.binding.ledger import Nonce
from cotenant_deviceplugin.mps.backend import Edits
from node_kit.bookings import A, B

CONTROL = {"path": "/dev/nvidiactl"}
LIBRARY = {"hostPath": "/lib/libcuda.so.1", "containerPath": "/lib/libcuda.so.1", "options": ["ro", "bind"]}
HOOK = {
    "hookName": "createContainer",
    "path": "/usr/bin/nvidia-cdi-hook",
    "args": ["nvidia-cdi-hook", "update-ldcache"],
}
PIPE = {"hostPath": "/run/cotenant/mps/GPU-a/pipe", "containerPath": "/run/mps", "options": ["rbind"]}


def device(name: str, index: int, **edits: Any) -> dict[str, Any]:
    return {"name": name, "containerEdits": {"deviceNodes": [{"path": f"/dev/nvidia{index}"}]} | edits}


def base(*devices: dict[str, Any], version: str = "0.5.0", **edits: Any) -> dict[str, Any]:
    common = {"env": ["NVIDIA_VISIBLE_DEVICES=void"], "deviceNodes": [CONTROL], "mounts": [LIBRARY], "hooks": [HOOK]}
    return {"cdiVersion": version, "kind": "nvidia.com/gpu", "devices": [*devices], "containerEdits": common | edits}


def bases(specification: dict[str, Any], *gpus: Any) -> list[cdi.Base]:
    found = [cdi.base_of(specification, gpu, Numbers(index, index)) for index, gpu in enumerate(gpus)]
    return [each for each in found if each is not None]


def edits_of(specification: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = specification["devices"][0]["containerEdits"]
    return found


def test_a_part_of_a_gpu_has_the_gpus_edits_the_limits_and_the_pipe() -> None:
    edits = Edits(environment={"CUDA_MPS_PIPE_DIRECTORY": "/run/mps", "A": "1"}, mounts=(PIPE,))
    assert cdi.specification(Nonce("n1"), bases(base(device(A, 0)), A), edits) == {
        "cdiVersion": "0.5.0",
        "kind": "cotenant.dev/share",
        "devices": [
            {
                "name": "n1",
                "containerEdits": {
                    "env": ["NVIDIA_VISIBLE_DEVICES=void", "A=1", "CUDA_MPS_PIPE_DIRECTORY=/run/mps"],
                    "deviceNodes": [CONTROL, {"path": "/dev/nvidia0"}],
                    "mounts": [LIBRARY, PIPE],
                    "hooks": [HOOK],
                },
            }
        ],
    }


def test_whole_gpus_have_the_edits_of_all_and_common_ones_once() -> None:
    found = cdi.specification(Nonce("n1"), bases(base(device(A, 0), device(B, 1)), A, B), Edits(environment={}))
    edits = edits_of(found)
    assert edits["deviceNodes"] == [CONTROL, {"path": "/dev/nvidia0"}, {"path": "/dev/nvidia1"}]
    assert edits["mounts"] == [LIBRARY]


def test_our_environment_wins() -> None:
    specification = base(device(A, 0), env=["NVIDIA_VISIBLE_DEVICES=all", "X=1"])
    edits = Edits(environment={"NVIDIA_VISIBLE_DEVICES": "void"})
    found = edits_of(cdi.specification(Nonce("n1"), bases(specification, A), edits))
    assert found["env"] == ["NVIDIA_VISIBLE_DEVICES=void", "X=1"]


def test_a_device_without_a_uuid_is_found_by_its_index() -> None:
    assert bases(base(device("0", 0), device("all", 9)), A)
    assert not bases(base(device("1", 1)), A)


@pytest.mark.parametrize(
    ("numbers", "devices", "why"),
    [
        (Numbers(0, 1), [device("0", 0)], "gives /dev/nvidia0, and the GPU is /dev/nvidia1"),
        (Numbers(0, 1), [device(A, 0)], "gives /dev/nvidia0, and the GPU is /dev/nvidia1"),
        (Numbers(0, 0), [device(A, 10)], "gives /dev/nvidia10, and the GPU is /dev/nvidia0"),
        (Numbers(0, 0), [{"name": A}], "gives no device node, and the GPU is /dev/nvidia0"),
        (Numbers(0, None), [device(A, 0)], "minor number the driver does not tell"),
    ],
)
def test_edits_of_another_gpu_do_not_serve_whatever_their_name(numbers: Numbers, devices: Any, why: str) -> None:
    """As in a file that was written before a GPU fell off the bus, or was moved to another slot."""
    found = choice.Found(Path("/etc/cdi/nvidia.yaml"), base(*devices))
    assert cdi.base_of(found.content, A, numbers) is None
    assert why in (choice.unfit(found, choice.Wanted(A, numbers, None)) or "")


def test_a_gpu_whose_minor_number_is_not_its_index_gets_its_own_node() -> None:
    moved = base(device("0", 3), device("1", 0))
    found = cdi.base_of(moved, A, Numbers(0, 3))
    assert found is not None
    assert found.edits[-1]["deviceNodes"] == [{"path": "/dev/nvidia3"}]


def test_a_node_below_the_drivers_root_counts_by_where_the_host_has_it() -> None:
    node = {"path": "/dev/nvidia0", "hostPath": "/run/nvidia/driver/dev/nvidia1"}
    edits = base({"name": A, "containerEdits": {"deviceNodes": [node]}})
    assert cdi.base_of(edits, A, Numbers(0, 0)) is None
    below = {"path": "/dev/nvidia1", "hostPath": "/run/nvidia/driver/dev/nvidia1"}
    edits = base({"name": A, "containerEdits": {"deviceNodes": [below]}})
    assert cdi.base_of(edits, A, Numbers(0, 1)) is not None


def with_nodes(*nodes: dict[str, Any], **edits: Any) -> dict[str, Any]:
    return base({"name": A, "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}, *nodes], **edits}})


def made_of(specification: dict[str, Any]) -> dict[str, Any]:
    return edits_of(cdi.specification(Nonce("n1"), bases(specification, A), Edits(environment={})))


@pytest.mark.parametrize(
    ("node", "why"),
    [
        ({"path": "/dev/nvidia1"}, "gives /dev/nvidia0 and /dev/nvidia1, and"),
        ({"path": "/dev/nvidia0", "hostPath": "/dev//nvidia3"}, "gives /dev/nvidia0 and /dev/nvidia3, and"),
        ({"path": "/dev/nvidia0", "hostPath": "//dev/nvidia3"}, "gives /dev/nvidia0 and /dev/nvidia3, and"),
        ({"path": "/dev/nvidia0", "hostPath": "/dev/char/195:3"}, "gives /dev/char/195:3, which"),
        ({"path": "/dev/nvidia0", "hostPath": "/dev/x/dev/nvidia0"}, "gives /dev/x/dev/nvidia0, which"),
        ({"path": "/dev/gpu", "hostPath": "/dev/nvidia0"}, "gives /dev/gpu, which"),
        ({"path": "/dev/nvidia-caps/nvidia-cap21"}, "gives /dev/nvidia-caps/nvidia-cap21, which"),
        ({"path": "/dev/nvidia*"}, "gives /dev/nvidia*, which"),
        ({"path": "dev/nvidia0"}, "gives dev/nvidia0, which"),
        ({"path": 7}, "gives 7, which"),
        ({"path": "/dev/nvidiactl", "hostPath": "/dev/nvidia0"}, "gives /dev/nvidia0 as /dev/nvidiactl"),
        ({"path": "/dev/nvidia-uvm", "hostPath": "/dev/dri/card1"}, "gives /dev/dri/card1, which"),
        ({"path": "/dev/dri/../nvidia1"}, "gives /dev/nvidia0 and /dev/nvidia1, and"),
    ],
)
def test_what_is_not_known_to_be_the_gpus_or_the_drivers_is_refused(node: dict[str, Any], why: str) -> None:
    found = choice.Found(Path("/etc/cdi/nvidia.yaml"), with_nodes(node))
    assert cdi.base_of(found.content, A, Numbers(0, 0)) is None
    assert why in (choice.unfit(found, choice.Wanted(A, Numbers(0, 0), None)) or "")


@pytest.mark.parametrize(
    "node",
    [
        {"path": "/dev/nvidia-uvm"},
        {"path": "/dev/nvidia-uvm-tools", "hostPath": "/run/nvidia/driver/dev/nvidia-uvm-tools"},
        {"path": "/dev/nvidia-modeset", "hostPath": ""},
        {"path": "/dev/nvidiactl", "hostPath": "/dev/null"},
    ],
)
def test_the_drivers_own_nodes_serve(node: dict[str, Any]) -> None:
    assert node["path"] in {each["path"] for each in made_of(with_nodes(node))["deviceNodes"]}


def test_a_container_gets_the_node_that_was_compared_whatever_numbers_the_file_has() -> None:
    """A major number of another boot would be obeyed over the path."""
    node = {"path": "/dev//nvidia-uvm", "hostPath": "/dev/x/../nvidia-uvm", "major": 510, "minor": 3, "type": "c"}
    more = {"fileMode": 438, "permissions": "rwm"}
    assert made_of(with_nodes(node | more))["deviceNodes"] == [
        CONTROL,
        {"path": "/dev/nvidia0"},
        {"path": "/dev/nvidia-uvm", "hostPath": "/dev/nvidia-uvm"} | more,
    ]


def hook(*arguments: str) -> dict[str, Any]:
    return HOOK | {"args": ["nvidia-cdi-hook", *arguments]}


def test_a_container_gets_no_display_which_may_be_another_gpus() -> None:
    link = ["--link", "../card3::/dev/dri/by-path/pci-0000:01:00.0-card"]
    library = ["--link", "libcuda.so.1::/usr/lib64/libcuda.so"]
    hooks = [
        hook("create-symlinks", *link),
        hook("create-symlinks", f"--link={link[1]}", *library, *link),
        hook("chmod", "--mode", "755", "--path", "/dev/dri"),
        hook("chmod", "--mode", "755", "--path=/dev/dri"),
    ]
    found = made_of(with_nodes({"path": "/dev/dri/card3"}, {"path": "/dev/dri/renderD130"}, hooks=hooks))
    assert found["deviceNodes"] == [CONTROL, {"path": "/dev/nvidia0"}]
    assert found["hooks"] == [HOOK, hook("create-symlinks", *library)]


def contained(depth: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


def repeated(times: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(times):
        found = [found, found]
    return found


def in_itself() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


@pytest.mark.parametrize(
    "value",
    [
        in_itself(),
        contained(2000),
        repeated(25),
        [date(2001, 1, 1)],
        {1: "x"},
        {"x": {b"y"}},
        [math.nan],
        {"x": math.inf},
        -math.inf,
    ],
)
def test_edits_that_no_file_could_hold_are_refused(value: Any) -> None:
    with pytest.raises(errors.InvalidInputError, match="containerEdits"):
        cdi.base_of(with_nodes(additionalGids=value), A, Numbers(0, 0))


def test_a_uuid_goes_before_an_index() -> None:
    (found,) = bases(base(device("0", 7), device(A, 0)), A)
    assert found.edits[-1] == {"deviceNodes": [{"path": "/dev/nvidia0"}]}


def test_a_device_may_be_named_by_type_and_index() -> None:
    assert bases(base(device("gpu0", 0), device("gpu1", 1)), A, B)[1].edits[-1] == {
        "deviceNodes": [{"path": "/dev/nvidia1"}]
    }


def test_a_specification_without_devices_knows_no_gpu() -> None:
    assert not bases(base() | {"devices": None}, A)


COMPAT = HOOK | {"args": ["nvidia-cdi-hook", "enable-cuda-compat", "--host-driver-version=580.1"]}
MEMORY = HOOK | {"hookName": "createRuntime", "args": ["nvidia-cdi-hook", "apply-cuda-memory-limits", "--gpu-id", A]}


def test_a_client_of_mps_gets_no_newer_libcuda_and_no_limits_of_its_own_making() -> None:
    specification = base(device(A, 0, hooks=[MEMORY]), hooks=[COMPAT, HOOK])
    shared = cdi.specification(Nonce("n1"), bases(specification, A), Edits(environment={}, shared=True))
    assert edits_of(shared)["hooks"] == [HOOK]
    whole = cdi.specification(Nonce("n1"), bases(specification, A), Edits(environment={}))
    assert edits_of(whole)["hooks"] == [COMPAT, HOOK, MEMORY]


def test_later_fields_and_their_version_are_kept() -> None:
    specification = base(device(A, 0, additionalGids=[44], intelRdt={"closID": "x"}), version="0.7.0")
    found = cdi.specification(Nonce("n1"), bases(specification, A), Edits(environment={}))
    assert found["cdiVersion"] == "0.7.0"
    assert edits_of(found)["additionalGids"] == [44]
    assert edits_of(found)["intelRdt"] == {"closID": "x"}


def test_an_older_version_is_raised_to_what_our_name_needs() -> None:
    found = cdi.specification(Nonce("1a"), bases(base(device(A, 0), version="0.3.0"), A), Edits(environment={}))
    assert found["cdiVersion"] == "0.5.0"


def test_versions_are_compared_as_numbers() -> None:
    assert bases(base(device(A, 0), version="0.10.0"), A)[0].version > (0, 9, 0)
    with pytest.raises(errors.InvalidInputError, match="cdiVersion"):
        bases(base(device(A, 0), version="latest"), A)


def test_gpus_that_exclude_each_other_are_refused() -> None:
    specification = base(device(A, 0, intelRdt={"closID": "x"}), device(B, 1, intelRdt={"closID": "y"}))
    with pytest.raises(errors.InvalidInputError, match="intelRdt"):
        cdi.specification(Nonce("n1"), bases(specification, A, B), Edits(environment={}))
