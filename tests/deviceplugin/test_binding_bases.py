"""A GPU's own edits are found wherever NVIDIA's parts write them, for this node's driver; else they are made."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cotenant_api import errors
from cotenant_api.names import GPUUID
from cotenant_deviceplugin.binding import cdi
from cotenant_deviceplugin.binding.bases import Bases
from cotenant_deviceplugin.binding.grants import Numbers
from node_kit.bookings import A, B

DRIVER = "580.65.06"
PLUGIN, MANAGEMENT = "k8s.device-plugin.nvidia.com/gpu", "management.nvidia.com/gpu"


def gpu_node(name: str) -> dict[str, str]:
    return {"path": f"/dev/nvidia{1 if name in (B, '1') else 0}"}


def written(
    *names: str, kind: str = "nvidia.com/gpu", driver: str | None = None, origin: str = "FROM=x"
) -> dict[str, Any]:
    library = {"hostPath": f"/usr/lib64/libcuda.so.{driver}", "containerPath": "/usr/lib64/libcuda.so.1"}
    devices = [{"name": name, "containerEdits": {"env": [origin], "deviceNodes": [gpu_node(name)]}} for name in names]
    common = {"mounts": [library]} if driver else {}
    return {"cdiVersion": "0.5.0", "kind": kind, "devices": devices, "containerEdits": common}


class Maker:
    """NVIDIA's tool: makes a specification, or says why not. It fails for all GPUs where it is asked for a lost one."""

    def __init__(self) -> None:
        self.names: tuple[str, ...] = (A, B)
        self.lost: set[str] = set()
        self.fault: str | None = None
        self.asked = 0

    async def generate(self, gpu: GPUUID | None = None) -> cdi.Object:
        """Return one for all GPUs, or for one."""
        self.asked += 1
        names = self.names if gpu is None else (gpu,)
        fault = self.fault or ("GPU is lost" if self.lost & set(names) else None)
        if fault is not None:
            raise errors.TemporaryError(fault, delay_seconds=1)
        return written(*names, kind="cotenant.dev/gpu", origin="FROM=made")


class Folders:
    """Two folders as a runtime has them, and the tool."""

    def __init__(self, root: Path) -> None:
        self.static, self.dynamic = root / "etc", root / "run"
        for folder in (self.static, self.dynamic):
            folder.mkdir()
        self.maker = Maker()
        self.now = 0.0
        self.bases = Bases((self.static, self.dynamic), maker=self.maker, monotonic=lambda: self.now)

    def origin(self) -> str:
        """Where the first GPU has its edits from."""
        (base,) = self.bases.bases({A: Numbers(0, 0)})
        text: str = base.edits[-1]["env"][0]
        return text


@pytest.fixture(name="folders")
def both(tmp_path: Path) -> Folders:
    return Folders(tmp_path)


@pytest.mark.parametrize("kind", ["nvidia.com/gpu", PLUGIN])
@pytest.mark.parametrize("folder", ["static", "dynamic"])
async def test_each_kind_that_gives_one_gpu_serves_from_each_folder(folders: Folders, kind: str, folder: str) -> None:
    (getattr(folders, folder) / "some.json").write_text(json.dumps(written(A, B, kind=kind, driver=DRIVER)))
    look = await folders.bases.look({A: Numbers(0, 0), B: Numbers(1, 1)}, DRIVER)
    assert (look.missing, look.reason, look.made, folders.maker.asked) == (frozenset(), None, False, 0)


async def test_the_hosts_own_specification_goes_before_that_of_nvidias_plugin(folders: Folders) -> None:
    (folders.dynamic / "plugin.json").write_text(json.dumps(written(A, kind=PLUGIN, origin="FROM=plugin")))
    (folders.static / "nvidia.yaml").write_text(json.dumps(written(A, origin="FROM=host")))
    await folders.bases.look({A: Numbers(0, 0)}, DRIVER)
    assert folders.origin() == "FROM=host"


async def test_where_all_gpus_come_at_once_one_is_made(folders: Folders) -> None:
    name = "management.nvidia.com-gpu.yaml"
    (folders.dynamic / name).write_text(json.dumps(written("all", kind=MANAGEMENT, driver=DRIVER)))
    look = await folders.bases.look({A: Numbers(0, 0), B: Numbers(1, 1)}, DRIVER)
    assert (look.missing, look.made) == (frozenset(), True)
    assert folders.origin() == "FROM=made"


async def test_what_another_driver_left_behind_serves_nobody(folders: Folders) -> None:
    (folders.dynamic / "plugin.json").write_text(json.dumps(written(A, kind=PLUGIN, driver="570.1", origin="FROM=old")))
    await folders.bases.look({A: Numbers(0, 0)}, f"{DRIVER} (stand-in)")
    assert folders.origin() == "FROM=made"


async def test_a_gpu_that_nobody_knows_is_missing_and_the_rest_is_served(folders: Folders) -> None:
    (folders.static / "nvidia.yaml").write_text(json.dumps(written("1")))
    folders.maker.names = ()
    look = await folders.bases.look({A: Numbers(0, 0), B: Numbers(1, 1)}, DRIVER)
    assert (look.missing, look.made) == (frozenset({A}), False)


async def test_the_reason_says_what_is_where_and_why_it_does_not_serve(folders: Folders) -> None:
    (folders.dynamic / "management.json").write_text(json.dumps(written("all", kind=MANAGEMENT)))
    (folders.dynamic / "plugin.json").write_text(json.dumps(written(A, kind=PLUGIN, driver="570.1")))
    (folders.static / "other.json").write_text(json.dumps(written(B)))
    for name in ("a.json", "b.json"):
        (folders.static / name).write_text(json.dumps(written(A)))
    folders.maker.fault = "no CDI specification can be made: there is no nvidia-ctk"
    look = await folders.bases.look({A: Numbers(0, 0)}, DRIVER)
    assert look.missing == {A}
    said = str(look.reason)
    assert f"no CDI specification of kind nvidia.com/gpu or {PLUGIN} in {folders.static} and {folders.dynamic}" in said
    assert f"{folders.dynamic}/management.json ({MANAGEMENT}) gives all GPUs at once" in said
    assert f"{folders.dynamic}/plugin.json ({PLUGIN}) is of driver 570.1, and {DRIVER} runs" in said
    assert f"{folders.static}/other.json (nvidia.com/gpu) does not know the GPU" in said
    assert f"{folders.static}/a.json (nvidia.com/gpu) is one of several files" in said
    assert said.endswith("there is no nvidia-ctk")
    with pytest.raises(errors.TemporaryError, match="gives all GPUs at once"):
        folders.origin()


async def test_what_was_made_is_kept_until_the_driver_changes_or_was_away(folders: Folders) -> None:
    for driver in (DRIVER, DRIVER, "590.1", "590.1"):
        await folders.bases.look({A: Numbers(0, 0)}, driver)
    assert folders.maker.asked == 2
    folders.bases.renew()
    await folders.bases.look({A: Numbers(0, 0)}, "590.1")
    assert folders.maker.asked == 3


async def test_a_gpu_that_is_new_has_one_made_again(folders: Folders) -> None:
    folders.maker.names = (A,)
    assert (await folders.bases.look({A: Numbers(0, 0)}, DRIVER)).missing == frozenset()
    folders.maker.names = (A, B)
    assert (await folders.bases.look({A: Numbers(0, 0), B: Numbers(1, 1)}, DRIVER)).missing == frozenset()
    assert folders.maker.asked == 2


async def test_a_specification_that_changes_is_read_again(folders: Folders) -> None:
    folders.maker.fault = "none"
    path = folders.static / "nvidia.yaml"
    assert (await folders.bases.look({A: Numbers(0, 0), B: Numbers(1, 1)}, DRIVER)).missing == {A, B}
    path.write_text(json.dumps(written(A)))
    assert (await folders.bases.look({A: Numbers(0, 0), B: Numbers(1, 1)}, DRIVER)).missing == {B}
    path.write_text(json.dumps(written(A, "1")))
    assert (await folders.bases.look({A: Numbers(0, 0), B: Numbers(1, 1)}, DRIVER)).missing == frozenset()


@pytest.mark.parametrize(
    "text", ["{", "[1]", "kind: nvidia.com/mig", "\t", json.dumps(written(A) | {"cdiVersion": "x"})]
)
async def test_a_file_that_says_nothing_of_the_gpu_leaves_it_missing(folders: Folders, text: str) -> None:
    folders.maker.fault = "none"
    (folders.static / "nvidia.yaml").write_text(text)
    (folders.static / "README").write_text(json.dumps(written(A)))
    assert (await folders.bases.look({A: Numbers(0, 0)}, DRIVER)).missing == {A}


async def test_a_folder_that_cannot_be_read_is_the_reason(folders: Folders) -> None:
    folders.static.rmdir()
    folders.static.write_text("a file")
    look = await folders.bases.look({A: Numbers(0, 0)}, DRIVER)
    assert look.missing == {A}
    assert str(folders.static) in str(look.reason)


SERVED = f'"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": [{{"name": "{A}"}}]'


@pytest.mark.parametrize(
    "text",
    [
        b"\xff\xfe",
        b"x: 2001-99-99",
        b"x: !!float a",
        b"[" * 100000,
        b'{"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": ["a"]}',
        b'{"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": 3}',
        b'{"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": [{"name": ["a"]}]}',
        f'{{{SERVED}, "containerEdits": "x"}}'.encode(),
        f'{{{SERVED}, "containerEdits": {{"mounts": 5}}}}'.encode(),
        f'{{{SERVED}, "containerEdits": {{"hooks": [{{"args": [3]}}]}}}}'.encode(),
        f"{{{SERVED}, 'containerEdits': {{'env': [2001-01-01]}}}}".encode(),
        f"{{{SERVED}}}".encode() + b" " * 1024 * 1024,
    ],
)
async def test_a_file_that_is_no_specification_takes_none_from_another(folders: Folders, text: bytes) -> None:
    (folders.static / "odd.yaml").write_bytes(text)
    (folders.dynamic / "nvidia.json").write_text(json.dumps(written(A)))
    look = await folders.bases.look({A: Numbers(0, 0)}, DRIVER)
    assert (look.missing, folders.maker.asked, folders.origin()) == (frozenset(), 0, "FROM=x")


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to(path)])
async def test_what_is_no_file_takes_no_specification_from_another(
    folders: Folders, make: Callable[[Path], None]
) -> None:
    make(folders.dynamic / "odd.yaml")
    (folders.dynamic / "nvidia.json").write_text(json.dumps(written(A)))
    assert (await folders.bases.look({A: Numbers(0, 0)}, DRIVER)).missing == frozenset()


async def test_what_is_remembered_of_files_goes_with_them(folders: Folders) -> None:
    (folders.static / "nvidia.json").write_text(json.dumps(written(A, B, driver=DRIVER)))
    for number in range(200):
        claim = folders.dynamic / f"claim-{number}.json"
        claim.write_text(json.dumps(written("x", kind="example.com/claim")))
        await folders.bases.look({A: Numbers(0, 0)}, DRIVER)
        claim.unlink()
    assert folders.bases.remembered <= 2


async def test_a_file_that_contains_itself_is_refused_and_told(folders: Folders) -> None:
    folders.maker.fault = "none"
    device = f"{{name: {A}, containerEdits: {{deviceNodes: [{{path: /dev/nvidia0}}], additionalGids: &a [*a]}}}}"
    text = f"{{cdiVersion: 0.5.0, kind: nvidia.com/gpu, devices: [{device}]}}"
    (folders.static / "nvidia.yaml").write_text(text)
    look = await folders.bases.look({A: Numbers(0, 0)}, DRIVER)
    assert "nvidia.yaml (nvidia.com/gpu) containerEdits: '...': must be 32" in look.reasons[A]


async def test_each_gpu_that_is_missing_has_its_own_reason(folders: Folders) -> None:
    folders.maker.fault = "none"
    (folders.static / "nvidia.yaml").write_text(json.dumps(written("0")))
    look = await folders.bases.look({A: Numbers(0, 3), B: Numbers(1, 1)}, DRIVER)
    assert "gives /dev/nvidia0, and the GPU is /dev/nvidia3" in look.reasons[A]
    assert "does not know the GPU" in look.reasons[B]


async def test_why_what_was_made_does_not_serve_is_told(folders: Folders) -> None:
    for _ in range(2):
        look = await folders.bases.look({A: Numbers(0, 7), B: Numbers(1, 1)}, DRIVER)
        assert (look.missing, look.made) == (frozenset({A}), True)
        assert str(look.reason).endswith("has made gives /dev/nvidia0, and the GPU is /dev/nvidia7")
    with pytest.raises(errors.TemporaryError, match="has made gives /dev/nvidia0"):
        folders.bases.bases({A: Numbers(0, 7)})


async def test_nothing_is_made_for_gpus_whose_nodes_nobody_knows(folders: Folders) -> None:
    look = await folders.bases.look({A: Numbers(0, None)}, DRIVER)
    assert (look.missing, folders.maker.asked) == (frozenset({A}), 0)
    assert "the driver does not tell the GPU's minor number" in look.reasons[A]
    look = await folders.bases.look({A: Numbers(0, None), B: Numbers(1, 1)}, DRIVER)
    look = await folders.bases.look({A: Numbers(0, None), B: Numbers(1, 1)}, DRIVER)
    assert (look.missing, look.made, folders.maker.asked) == (frozenset({A}), True, 1)


async def test_what_was_made_in_vain_is_made_again_less_and_less_often(folders: Folders) -> None:
    asked = []
    for _ in range(120):
        await folders.bases.look({A: Numbers(0, 7)}, DRIVER)
        asked.append(folders.maker.asked)
        folders.now += 10.0
    assert [asked.index(count) * 10 for count in range(1, 7)] == [0, 20, 60, 140, 300, 600]
    await folders.bases.look({A: Numbers(0, 0)}, DRIVER)
    assert folders.maker.asked == asked[-1]


async def test_what_was_made_in_vain_is_made_at_once_for_another_driver_or_other_numbers(folders: Folders) -> None:
    for numbers, driver in ((7, DRIVER), (8, DRIVER), (8, "590.1"), (8, "590.1")):
        await folders.bases.look({A: Numbers(0, numbers)}, driver)
    assert folders.maker.asked == 3


async def test_what_was_made_for_a_gpu_stays_when_another_has_a_new_number_and_the_tool_fails(folders: Folders) -> None:
    await folders.bases.look({A: Numbers(0, 0), B: Numbers(1, 1)}, DRIVER)
    folders.maker.lost = {B}
    for _ in range(2):
        look = await folders.bases.look({A: Numbers(0, 0), B: Numbers(1, 2)}, DRIVER)
        assert look.missing == {B}
        assert folders.origin() == "FROM=made"


async def test_what_was_made_serves_until_another_is_made_after_the_driver_was_away(folders: Folders) -> None:
    await folders.bases.look({A: Numbers(0, 0), B: Numbers(1, 1)}, DRIVER)
    folders.maker.fault = "the tool fails"
    folders.bases.renew()
    for asked in (2, 2):
        look = await folders.bases.look({A: Numbers(0, 0), B: Numbers(1, 1)}, DRIVER)
        assert (look.missing, folders.maker.asked) == (frozenset(), asked)
    folders.maker.fault = None
    folders.now += 20.0
    for _ in range(2):
        await folders.bases.look({A: Numbers(0, 0), B: Numbers(1, 1)}, DRIVER)
    assert folders.maker.asked == 3


async def test_what_was_made_gives_nobody_a_number_that_changed_while_the_driver_was_away(folders: Folders) -> None:
    await folders.bases.look({A: Numbers(0, 0), B: Numbers(1, 1)}, DRIVER)
    folders.maker.fault = "the tool fails"
    folders.bases.renew()
    assert (await folders.bases.look({A: Numbers(0, 1), B: Numbers(1, 0)}, DRIVER)).missing == {A, B}


async def test_a_lost_gpu_keeps_no_other_from_a_specification_of_its_own(folders: Folders) -> None:
    folders.maker.lost = {B}
    look = await folders.bases.look({A: Numbers(0, 0), B: Numbers(1, 1)}, DRIVER)
    assert (look.missing, look.made) == (frozenset({B}), True)
    assert look.reasons[B].endswith("; GPU is lost")
    assert folders.origin() == "FROM=made"


async def test_a_lost_gpu_is_asked_for_less_and_less_often_and_the_reason_stays(folders: Folders) -> None:
    folders.maker.lost = {B}
    asked = []
    for _ in range(31):
        look = await folders.bases.look({A: Numbers(0, 0), B: Numbers(1, 1)}, DRIVER)
        assert look.reasons[B].endswith("; GPU is lost")
        asked.append(folders.maker.asked)
        folders.now += 10.0
    # All GPUs and each alone; then, after 20, 40, 80 and 160 seconds, all GPUs and the lost one alone.
    assert sorted(set(asked)) == [3, 5, 7, 9, 11]


async def test_a_tool_that_makes_none_for_a_gpu_alone_is_told_in_both_its_words(folders: Folders) -> None:
    class Older(Maker):
        async def generate(self, gpu: GPUUID | None = None) -> cdi.Object:
            self.fault = "GPU is lost" if gpu is None else "flag provided but not defined: -device-id"
            return await super().generate(gpu)

    bases = Bases((folders.static,), maker=Older())
    look = await bases.look({A: Numbers(0, 0)}, DRIVER)
    assert str(look.reason).endswith("; GPU is lost; for this GPU alone: flag provided but not defined: -device-id")
