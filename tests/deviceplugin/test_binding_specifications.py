"""Specifications are found where runtimes look, and ours are whole or not there."""

import json
import os
from pathlib import Path

import pytest
import yaml

from cotenant_api import errors
from cotenant_deviceplugin.binding.bases import Bases
from cotenant_deviceplugin.binding.grants import Numbers
from cotenant_deviceplugin.binding.ledger import Nonce
from cotenant_deviceplugin.binding.specifications import SpecificationFiles
from cotenant_deviceplugin.mps.backend import Edits
from node_kit.bookings import A, B

N1, N2 = Nonce("n1"), Nonce("n2")
LIMIT = Edits(environment={"LIMIT": "30"})


def nvidia(*names: str, **node: str) -> dict[str, object]:
    devices = [{"name": name, "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"} | node]}} for name in names]
    return {"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": devices, "containerEdits": {}}


class Folders:
    """Two folders as a runtime has them."""

    def __init__(self, root: Path) -> None:
        self.static, self.dynamic = root / "etc", root / "run"
        self.static.mkdir()
        self.files = SpecificationFiles(self.dynamic, Bases((self.static, self.dynamic)))

    def written(self, nonce: Nonce = N1) -> str:
        """The specification of a nonce."""
        return (self.dynamic / f"cotenant.dev-share_{nonce}.json").read_text()


@pytest.fixture(name="folders")
def both(tmp_path: Path) -> Folders:
    return Folders(tmp_path)


@pytest.mark.parametrize("suffix", ["yaml", "json"])
async def test_a_name_resolves_to_the_gpus_edits_and_limits(folders: Folders, suffix: str) -> None:
    text = yaml.safe_dump(nvidia(A)) if suffix == "yaml" else json.dumps(nvidia(A))
    (folders.static / f"nvidia.{suffix}").write_text(text)
    await folders.files.write(N1, {A: Numbers(0, 0)}, LIMIT)
    edits = json.loads(folders.written())["devices"][0]["containerEdits"]
    assert edits == {"deviceNodes": [{"path": "/dev/nvidia0"}], "env": ["LIMIT=30"]}
    assert os.listdir(folders.dynamic) == ["cotenant.dev-share_n1.json"]  # noqa: PTH208


async def test_the_later_folder_wins(folders: Folders) -> None:
    folders.dynamic.mkdir()
    (folders.static / "nvidia.yaml").write_text(yaml.safe_dump(nvidia(A, hostPath="/old/dev/nvidia0")))
    (folders.dynamic / "nvidia.yaml").write_text(yaml.safe_dump(nvidia(A, hostPath="/new/dev/nvidia0")))
    await folders.files.write(N1, {A: Numbers(0, 0)}, LIMIT)
    assert "/new/dev/nvidia0" in folders.written()


async def test_two_files_of_one_folder_exclude_each_other(folders: Folders) -> None:
    for name in ("a.yaml", "b.json"):
        (folders.static / name).write_text(json.dumps(nvidia(A)))
    with pytest.raises(errors.TemporaryError, match="several files of its folder that know the GPU"):
        await folders.files.write(N1, {A: Numbers(0, 0)}, LIMIT)


async def test_a_specification_that_changes_is_read_again(folders: Folders) -> None:
    path = folders.static / "nvidia.yaml"
    for node in ("/old/dev/nvidia0", "/newer/dev/nvidia0"):
        path.write_text(yaml.safe_dump(nvidia(A, node=node)))
        await folders.files.write(N1, {A: Numbers(0, 0)}, LIMIT)
        assert node in folders.written()


async def test_gpus_that_exclude_each_other_are_not_served_together(folders: Folders) -> None:
    value = nvidia(A, B)
    for number, device in enumerate(value["devices"]):  # type: ignore[arg-type,var-annotated]
        device["containerEdits"]["intelRdt"] = {"closID": str(number)}
    (folders.static / "nvidia.yaml").write_text(yaml.safe_dump(value))
    with pytest.raises(errors.TemporaryError, match="must agree"):
        await folders.files.write(N1, {A: Numbers(0, 0), B: Numbers(1, 0)}, LIMIT)


async def test_what_stands_already_is_not_written_again(folders: Folders) -> None:
    (folders.static / "nvidia.yaml").write_text(yaml.safe_dump(nvidia(A)))
    await folders.files.write(N1, {A: Numbers(0, 0)}, LIMIT)
    before = (folders.dynamic / "cotenant.dev-share_n1.json").stat().st_ino
    await folders.files.write(N1, {A: Numbers(0, 0)}, LIMIT)
    assert (folders.dynamic / "cotenant.dev-share_n1.json").stat().st_ino == before
    await folders.files.write(N1, {A: Numbers(0, 0)}, Edits(environment={"LIMIT": "40"}))
    assert "LIMIT=40" in folders.written()


async def test_names_are_listed_and_removed(folders: Folders) -> None:
    (folders.static / "nvidia.yaml").write_text(yaml.safe_dump(nvidia(A)))
    assert await folders.files.names() == frozenset()
    await folders.files.write(N1, {A: Numbers(0, 0)}, LIMIT)
    await folders.files.write(N2, {A: Numbers(0, 0)}, LIMIT)
    (folders.dynamic / "other.json").write_text("{}")
    assert await folders.files.names() == {N1, N2}
    await folders.files.remove({N1, Nonce("never")})
    assert await folders.files.names() == {N2}


async def test_what_a_dead_agent_left_half_written_is_listed_so_that_it_goes(folders: Folders) -> None:
    (folders.static / "nvidia.yaml").write_text(yaml.safe_dump(nvidia(A)))
    await folders.files.write(N1, {A: Numbers(0, 0)}, LIMIT)
    half = folders.dynamic / ".cotenant.dev-share_n2.partial"
    half.write_text("{")
    assert await folders.files.names() == {N1, N2}
    await folders.files.remove({N2})
    assert not half.exists()


async def test_a_name_that_gives_other_gpus_resolves_no_more_and_stays_listed(folders: Folders) -> None:
    devices = [*nvidia(A)["devices"], *nvidia(B, path="/dev/nvidia1")["devices"]]  # type: ignore[misc]
    (folders.static / "nvidia.yaml").write_text(yaml.safe_dump(nvidia() | {"devices": devices}))
    await folders.files.write(N1, {A: Numbers(0, 0)}, LIMIT)
    await folders.files.write(N2, {A: Numbers(0, 0), B: Numbers(1, 1)}, LIMIT)
    await folders.files.restrict({N1: {0}, N2: {1, 0}, Nonce("never"): {0}})
    assert len(list(folders.dynamic.glob("*.json"))) == 2
    for wanted in ({N1: {1}, N2: {1}}, {N1: {1}, N2: set()}):
        await folders.files.restrict(wanted)
        assert not list(folders.dynamic.glob("*.json"))
        assert await folders.files.names() == {N1, N2}
        await folders.files.write(N1, {A: Numbers(0, 0)}, LIMIT)
        await folders.files.write(N2, {A: Numbers(0, 0), B: Numbers(1, 1)}, LIMIT)
    await folders.files.remove({N1, N2})
    assert not list(folders.dynamic.iterdir())


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\xff",
        b"[" * 100_000,
        b"[]",
        b"{}",
        b'{"cdiVersion": "0.5.0"}',
        b'{"cdiVersion": "0.5.0", "devices": [1]}',
    ],
)
async def test_a_file_that_cannot_be_read_resolves_no_more(folders: Folders, text: bytes) -> None:
    folders.dynamic.mkdir()
    (folders.dynamic / "cotenant.dev-share_n1.json").write_bytes(text)
    await folders.files.restrict({N1: {0}})
    assert [path.name for path in folders.dynamic.iterdir()] == [".cotenant.dev-share_n1.withdrawn"]


async def test_a_folder_that_cannot_be_used_is_a_temporary_error(folders: Folders) -> None:
    (folders.static / "nvidia.yaml").write_text(yaml.safe_dump(nvidia(A)))
    folders.dynamic.write_text("a file")
    with pytest.raises(errors.TemporaryError, match="run"):
        await folders.files.write(N1, {A: Numbers(0, 0)}, LIMIT)
    with pytest.raises(errors.TemporaryError, match="run"):
        await folders.files.remove({N1})
