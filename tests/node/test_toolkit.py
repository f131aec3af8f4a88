"""NVIDIA's own nvidia-ctk, on stand-in GPUs: what it writes serves the agent, wherever driver and toolkit are."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cotenant_api import errors
from cotenant_api.names import GPUUID
from cotenant_deviceplugin.binding import cdi, choice
from cotenant_deviceplugin.binding.bases import Bases
from cotenant_deviceplugin.binding.grants import Numbers
from cotenant_deviceplugin.binding.ledger import Nonce
from cotenant_deviceplugin.binding.made import FIRST_PAUSE_SECONDS
from cotenant_deviceplugin.binding.toolkit import Places, Toolkit
from cotenant_deviceplugin.mps.backend import Edits
from cotenant_standin import state
from node import driver_root

DRIVER = "580.65.06"
NEWER = "590.44.01"


@dataclass(frozen=True)
class Layout:
    """A node: its GPUs, its driver and its toolkit."""

    machine: state.State
    places: Places
    cdi: Path

    @property
    def gpus(self) -> dict[GPUUID, Numbers]:
        """The GPUs, with their numbers."""
        return {GPUUID(gpu.uuid): Numbers(gpu.index, gpu.index) for gpu in self.machine.gpus()}

    @property
    def bases(self) -> Bases:
        """As the node agent has them."""
        return Bases((self.cdi,), maker=Toolkit(self.places))

    def load(self, version: str) -> None:
        """Another driver is installed and loaded."""
        state.write(self.machine.root / "driver_version", version)
        driver_root.make(self.places.here, version=version, gpus=2)

    def generate(self, name: str, *options: str) -> None:
        """Have NVIDIA's tool write a specification, as NVIDIA's own parts do."""
        command = [
            str(self.places.toolkit / "nvidia-ctk"),
            "cdi",
            "generate",
            f"--driver-root={self.places.here}",
            f"--output={self.cdi / name}",
            *options,
        ]
        subprocess.run(command, check=True, capture_output=True)


@pytest.fixture(name="layout")
def as_the_gpu_operator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Layout]:
    """A driver container's files below a prefix, seen where the host has them."""
    machine = state.create(tmp_path / "gpus", (state.H200, state.T4), seed=tmp_path.name)
    monkeypatch.setenv(state.FOLDER_VARIABLE, str(machine.root))
    places = Places(tmp_path / "run/nvidia/driver", toolkit=driver_root.install_toolkit(tmp_path / "toolkit"))
    (tmp_path / "cdi").mkdir()
    layout = Layout(machine, places, tmp_path / "cdi")
    layout.load(DRIVER)
    yield layout
    shutil.rmtree(tmp_path / "run")  # device nodes are no leftovers for a shared folder


def edits_of(made: cdi.Object, gpu: GPUUID, numbers: Numbers, *, shared: bool) -> dict[str, Any]:
    base = cdi.base_of(made, gpu, numbers)
    assert base is not None
    written = cdi.specification(Nonce("n1"), [base], Edits(environment={}, shared=shared))
    found: dict[str, Any] = written["devices"][0]["containerEdits"]
    return found


def hooks_of(edits: dict[str, Any]) -> list[str]:
    return [hook["args"][1] for hook in edits["hooks"]]


async def test_each_gpu_has_its_own_device_and_the_drivers_files_where_the_host_has_them(layout: Layout) -> None:
    made = await Toolkit(layout.places).generate()
    assert {str(gpu) for gpu in layout.gpus} <= {device["name"] for device in made["devices"]}
    assert choice.driver_versions(made) == {DRIVER}
    for gpu, numbers in layout.gpus.items():
        index = numbers.index
        edits = edits_of(made, gpu, numbers, shared=True)
        nodes = {node["path"]: node["hostPath"] for node in edits["deviceNodes"]}
        assert nodes[f"/dev/nvidia{index}"] == f"{layout.places.driver_root}/dev/nvidia{index}"
        assert {path for path in nodes if path[-1].isdigit()} == {f"/dev/nvidia{index}"}
        mounts = {mount["containerPath"]: mount["hostPath"] for mount in edits["mounts"]}
        library = f"/{driver_root.LIBRARIES}/libcuda.so.{DRIVER}"
        assert mounts[library] == f"{layout.places.driver_root}{library}"
        assert {hook["path"] for hook in edits["hooks"]} == {f"{layout.places.toolkit}/nvidia-cdi-hook"}


async def test_the_gpu_operators_shell_script_is_not_needed(layout: Layout) -> None:
    (layout.places.toolkit / "nvidia-ctk").write_text("#!/no/shell\n")
    assert (await Toolkit(layout.places).generate())["kind"] == "cotenant.dev/gpu"


async def test_a_tool_that_is_seen_elsewhere_writes_hooks_that_the_host_finds(layout: Layout) -> None:
    there = Path("/usr/local/nvidia/toolkit")
    places = Places(layout.places.driver_root, toolkit=there, toolkit_here=layout.places.toolkit)
    made = await Toolkit(places).generate()
    gpu, numbers = next(iter(layout.gpus.items()))
    assert {hook["path"] for hook in edits_of(made, gpu, numbers, shared=False)["hooks"]} == {
        f"{there}/nvidia-cdi-hook"
    }
    assert str(layout.places.toolkit) not in json.dumps(made)


async def test_clients_of_mps_keep_the_servers_libcuda_and_set_no_limits_of_their_own(layout: Layout) -> None:
    made = await Toolkit(layout.places).generate()
    gpu, numbers = next(iter(layout.gpus.items()))
    whole, shared = (hooks_of(edits_of(made, gpu, numbers, shared=shared)) for shared in (False, True))
    assert {"enable-cuda-compat", "apply-cuda-memory-limits", "create-symlinks", "update-ldcache"} <= set(whole)
    assert shared == [name for name in whole if name not in cdi.HOOKS_OF_WHOLE_GPUS]


async def test_a_driver_of_the_host_seen_elsewhere_is_named_as_the_host_names_it(layout: Layout) -> None:
    here = layout.places.here
    shutil.copy(layout.places.toolkit / "nvidia-ctk.real", here / "usr/bin/nvidia-ctk")
    places = Places(Path("/"), here, layout.places.toolkit / "none")
    made = await Toolkit(places).generate()
    assert str(here) not in json.dumps(made)
    gpu, numbers = next(iter(layout.gpus.items()))
    edits = edits_of(made, gpu, numbers, shared=False)
    library = f"/{driver_root.LIBRARIES}/libcuda.so.{DRIVER}"
    assert {mount["hostPath"] for mount in edits["mounts"]} >= {library}
    assert {node["hostPath"] for node in edits["deviceNodes"]} >= {"/dev/nvidia0", "/dev/nvidiactl"}
    assert {hook["path"] for hook in edits["hooks"]} == {"/usr/bin/nvidia-cdi-hook"}
    assert "--driver-root" in str(edits["hooks"])


@pytest.mark.parametrize(
    ("name", "options", "made"),
    [
        ("nvidia.yaml", (), False),
        ("nvidia.json", ("--device-name-strategy=index",), False),
        ("nvidia.yaml", ("--device-name-strategy=type-index",), False),
        ("k8s.device-plugin.nvidia.com-gpu.json", ("--vendor=k8s.device-plugin.nvidia.com",), False),
        ("management.nvidia.com-gpu.yaml", ("--mode=management", "--vendor=management.nvidia.com"), True),
    ],
)
async def test_what_nvidias_parts_write_is_taken_where_it_gives_one_gpu(
    layout: Layout, name: str, options: tuple[str, ...], made: bool
) -> None:
    layout.generate(name, *options)
    look = await layout.bases.look(layout.gpus, DRIVER)
    assert (look.missing, look.reason, look.made) == (frozenset(), None, made)


async def test_after_another_driver_has_been_installed_one_is_made_for_it(layout: Layout) -> None:
    layout.generate("nvidia.yaml")
    bases = layout.bases
    assert not (await bases.look(layout.gpus, DRIVER)).made
    layout.load(NEWER)
    assert (await bases.look(layout.gpus, NEWER)).made
    (base, _) = bases.bases(layout.gpus)
    assert f"libcuda.so.{NEWER}" in json.dumps(base.edits)
    layout.generate("nvidia.yaml")
    assert not (await bases.look(layout.gpus, NEWER)).made


async def test_a_gpu_that_is_lost_is_missing_and_the_other_is_served_again_later(layout: Layout) -> None:
    now = [0.0]
    bases = Bases((layout.cdi,), maker=Toolkit(layout.places), monotonic=lambda: now[-1])
    layout.machine.gpu(1).lose()
    look = await bases.look(layout.gpus, DRIVER)
    lost = GPUUID(layout.machine.gpu(1).uuid)
    assert look.missing == {lost}
    assert "GPU is lost" in look.reasons[lost]
    layout.machine.gpu(1).restore()
    now.append(FIRST_PAUSE_SECONDS)
    assert (await bases.look(layout.gpus, DRIVER)).missing == frozenset()


async def test_without_a_tool_or_a_driver_the_reason_names_place_and_remedy(layout: Layout, tmp_path: Path) -> None:
    for places, said in (
        (Places(tmp_path / "none"), r"no libnvidia-ml\.so\.1 below .*none: .*node\.driver\.root"),
        (Places(layout.places.driver_root, toolkit=tmp_path / "none"), r"no nvidia-ctk in .*none: install"),
    ):
        with pytest.raises(errors.TemporaryError, match=said):
            await Toolkit(places).generate()


async def test_a_driver_that_is_away_is_the_reason_in_the_tools_words(layout: Layout) -> None:
    layout.machine.unload()
    with pytest.raises(errors.TemporaryError, match=r"nvidia-ctk\.real ends with 1 and says: .*[Dd]river"):
        await Toolkit(layout.places).generate()
