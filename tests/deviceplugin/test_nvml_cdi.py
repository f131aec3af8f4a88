"""The CDI specification of the stand-in's GPUs."""

import json
from pathlib import Path

from cotenant_standin import cdi, state


def test_each_gpu_is_named_by_index_and_by_uuid(tmp_path: Path) -> None:
    machine = state.create(tmp_path, (state.H200, state.T4))
    names = [device["name"] for device in cdi.specification(machine)["devices"]]
    assert names == ["0", "1", machine.gpu(0).uuid, machine.gpu(1).uuid, "all"]


def test_a_gpu_brings_its_node_alone(tmp_path: Path) -> None:
    machine = state.create(tmp_path, (state.H200, state.T4))
    second = cdi.specification(machine)["devices"][3]
    assert [node["path"] for node in second["containerEdits"]["deviceNodes"]] == ["/dev/nvidia1"]


def test_the_file_says_where_the_driver_is(tmp_path: Path) -> None:
    machine = state.create(tmp_path / "gpus")
    written = json.loads(cdi.write(machine, tmp_path / "cdi").read_text())
    assert (written["kind"], written["cdiVersion"]) == ("nvidia.com/gpu", "0.5.0")
    common = written["containerEdits"]
    assert common["mounts"][0]["hostPath"] == str(tmp_path / "gpus")
    assert f"COTENANT_STANDIN={common['mounts'][0]['containerPath']}" in common["env"]
    assert {Path(node["hostPath"]).exists() for node in common["deviceNodes"]} == {True}
