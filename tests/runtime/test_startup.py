"""How the runtime is switched on: by the environment, when torch is imported, and never else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import cotenant_runtime
from cotenant_runtime import __main__ as command
from cotenant_runtime import layout, startup
from cotenant_runtime import segment as segments
from cotenant_runtime.layout import Inference, Training
from cotenant_runtime.segment import Segment

PACKAGE = Path(cotenant_runtime.__file__).parent


def run(script: str, *, folders: list[Path], **environment: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(map(str, folders))
    return subprocess.run(
        [sys.executable, "-c", script],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def torch(tmp_path: Path) -> Path:
    """A folder with a module that is called torch and does nothing."""
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "torch.py").write_text("name = 'stand-in'\n")
    return folder


SCRIPT = "import sys; import torch; print(torch.name, 'cotenant_runtime' in sys.modules, torch.__spec__.loader)"


def test_without_the_variable_the_runtime_is_not_even_imported(torch: Path) -> None:
    done = run(SCRIPT, folders=[PACKAGE / "autostart", torch])
    assert done.stdout.startswith("stand-in False <")
    assert done.stderr == ""


def test_an_inference_job_takes_a_slot_when_torch_is_imported(torch: Path, tmp_path: Path) -> None:
    segments.create(tmp_path / "GPU")
    done = run(
        SCRIPT,
        folders=[PACKAGE / "autostart", torch],
        COTENANT_SPACE_TIME="Inference",
        COTENANT_SPACE_TIME_SEGMENT=str(tmp_path / "GPU"),
    )
    assert done.stdout.startswith("stand-in True <_frozen_importlib_external.SourceFileLoader")
    ((_, slot),) = Segment(tmp_path / "GPU").slots()
    assert isinstance(slot.state, Inference)


def test_a_program_that_does_not_import_torch_takes_no_slot(torch: Path, tmp_path: Path) -> None:
    segments.create(tmp_path / "GPU")
    run(
        "pass",
        folders=[PACKAGE / "autostart", torch],
        COTENANT_SPACE_TIME="Inference",
        COTENANT_SPACE_TIME_SEGMENT=str(tmp_path / "GPU"),
    )
    assert list(Segment(tmp_path / "GPU").slots()) == []


def test_a_wrong_variable_is_told_and_the_job_runs(torch: Path) -> None:
    done = run(SCRIPT, folders=[PACKAGE / "autostart", torch], COTENANT_SPACE_TIME="Neither")
    assert done.returncode == 0
    assert done.stdout.startswith("stand-in True")
    assert "COTENANT_SPACE_TIME=Neither: must be Training or Inference" in done.stderr


def test_the_sitecustomize_of_the_image_runs_too(torch: Path) -> None:
    (torch / "sitecustomize.py").write_text("print('of the image')\n")
    done = run(SCRIPT, folders=[PACKAGE / "autostart", torch])
    assert done.stdout.startswith("of the image\nstand-in False")


def test_a_module_that_is_imported_already_is_attached_at_once() -> None:
    found: list[object] = []
    startup.after_import("os", found.append)
    assert found == [os]


def test_the_command_makes_a_segment_and_shows_its_tenants(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "GPU"
    assert command.main(["create", str(path)]) == 0
    writer = Segment(path).claim()
    writer.write(Inference(requests=4, met=3), now_ns=1)
    Segment(path).claim().write(Training(step_ns=3, alone_step_ns=2), now_ns=1)
    assert command.main(["show", str(path)]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert '"attainment": 0.75' in shown[0]
    assert '"slowdown": 1.5' in shown[1]
    assert '"alive": false' in shown[0]


def test_the_command_says_what_is_wrong_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "other").write_bytes(bytes(layout.SEGMENT_BYTES))
    assert command.main(["show", str(tmp_path / "other")]) == 1
    assert capsys.readouterr().err.endswith("is no segment of version 1: create it with this release\n")
