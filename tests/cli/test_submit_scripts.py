"""`cotenant submit train.py`: what of a script is sent, how it is run, and what does not go with it."""

import json
from pathlib import Path
from typing import Any

import pytest

from cotenant_api import cli, errors, rootless
from cotenant_cli.submitting import objects, scripts

OFFLINE = ["--dry-run=client", "--gpu-model", "NVIDIA-H200"]
OPTIONS = objects.Options(image="registry.example/train:1")
PLACE = {"namespace": "team", "name": "train"}


def written(folder: Path, **files: str) -> str:
    """Path of `train.py`, beside other modules; `utils`: a package."""
    for name, text in files.items():
        path = folder / ("utils/__init__.py" if name == "utils" else f"{name}.py")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return str(folder / "train.py")


def objects_of(target: str, *words: str, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    assert cli.main(["submit", target, "--image", "i", *OFFLINE, "-o", "json", *words]) == 0
    return list(json.loads(capsys.readouterr().out)["items"])


def test_a_script_is_sent_with_the_modules_beside_it_that_it_and_those_import(tmp_path: Path) -> None:
    target = written(
        tmp_path,
        train="import data, torch\nfrom layers import Net\n",
        data="import helper.x\n",
        layers="def f():\n    import train\n",
        helper="",
        other="1 / 0",
    )
    assert set(scripts.read(target, scripts.CONFIG_MAP).files) == {"train.py", "data.py", "layers.py", "helper.py"}


def test_it_is_run_by_python_with_the_words_behind_two_hyphens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = written(tmp_path, train="print(1)\n")
    config_map, job = objects_of(target, "--", "--epochs", "3", capsys=capsys)
    inner = job["spec"]["template"]["spec"]
    (container,) = inner["containers"]
    assert [*container["command"], *container["args"]] == ["python", f"{scripts.FOLDER}/train.py", "--epochs", "3"]
    assert container["volumeMounts"][0]["mountPath"] == scripts.FOLDER
    assert inner["volumes"][0]["configMap"]["name"] == config_map["metadata"]["name"]
    assert config_map["data"] == {"train.py": "print(1)\n"}
    assert "model" not in job["spec"]
    assert rootless.fault(inner) is None
    assert job["metadata"]["name"] == "train"


@pytest.mark.parametrize("words", [["--precision", "bf16"], ["--compile"], ["--loader-workers", "0"]])
def test_what_says_how_a_step_is_computed_is_refused_of_a_script(
    tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    target = written(tmp_path, train="")
    assert cli.main(["submit", target, "--image", "i", *OFFLINE, *words]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"cotenant: submit: {words[0]}: ")
    assert "is not for a script" in said


def test_another_program_may_run_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = written(tmp_path, train="")
    words = ["--command", "torchrun", "--env", "PYTHONUNBUFFERED=0", "--", "--epochs", "3"]
    _, job = objects_of(target, *words, capsys=capsys)
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["torchrun"]
    assert container["env"] == [{"name": "PYTHONUNBUFFERED", "value": "0"}]


def test_a_script_of_the_image_is_not_read(capsys: pytest.CaptureFixture[str]) -> None:
    (job,) = objects_of("/workspace/train.py", "--code", "image", capsys=capsys)
    inner = job["spec"]["template"]["spec"]
    assert inner["containers"][0]["args"] == ["/workspace/train.py"]
    assert "volumes" not in inner


def test_other_code_has_another_config_map() -> None:
    def name(text: str) -> str:
        code = scripts.Code("/x/train.py", {"train.py": text})
        return str(objects.of_script(code, OPTIONS, **PLACE)[0]["metadata"]["name"])

    assert name("a = 1") == name("a = 1") != name("a = 2")


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "cannot be read"),
        ({"train": "import ("}, "is no Python of this version"),
        ({"train": "import utils.x", "utils": ""}, "imports the package utils/"),
        ({"train": "x = '" + "y" * scripts.MAX_BYTES + "'"}, "--code image"),
        ({"train": "import data", "data": "\x00"}, "data.py"),
    ],
    ids=["absent", "no python", "package", "large", "module"],
)
def test_what_cannot_be_sent_is_refused_with_the_remedy(tmp_path: Path, files: dict[str, str], said: str) -> None:
    with pytest.raises(errors.InvalidInputError) as caught:
        scripts.read(written(tmp_path, **files), scripts.CONFIG_MAP)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["train.py", "--image", "i", "--batch-size", "8", *OFFLINE], "--batch-size: 8: is not for a script"),
        (["train.py", "-f", "job.yaml", *OFFLINE], "--filename: 'job.yaml': is not for a script"),
        (["train.py", *OFFLINE], "--image: None: must be given"),
        (["m:f", "--image", "i", "--code", "image", *OFFLINE], "--code: 'image': is for a script"),
        (["train.py", "--image", "i", "--follow", *OFFLINE], "--follow: True: does not go with --dry-run"),
    ],
)
def test_what_does_not_go_with_a_script_is_one_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["submit", *words]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"cotenant: submit: {said.partition(':')[0]}")
    assert said in captured.err
    assert captured.err.count("\n") == 1


def test_a_trial_says_that_nothing_is_predicted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["submit", written(tmp_path, train=""), "--image", "i", *OFFLINE]) == 0
    assert "queue.onMissingPrediction" in capsys.readouterr().out


def test_a_script_that_is_a_link_has_the_modules_beside_the_file_itself(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    written(tmp_path / "real", go="import helper", helper="")
    (tmp_path / "helper.py").write_text("raise SystemExit")
    (tmp_path / "train.py").symlink_to(tmp_path / "real" / "go.py")
    assert scripts.read(str(tmp_path / "train.py"), scripts.CONFIG_MAP).files == {
        "train.py": "import helper",
        "helper.py": "",
    }


def test_a_script_that_begins_with_a_byte_order_mark_is_python(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_bytes(b"\xef\xbb\xbfimport os\n")
    assert scripts.read(str(tmp_path / "train.py"), scripts.CONFIG_MAP).files == {"train.py": "\ufeffimport os\n"}


@pytest.mark.parametrize(("name", "refused"), [("utils_of_mine", True), ("json", False)])
def test_a_folder_without_init_is_refused_unless_a_package_of_its_name_is_installed(
    tmp_path: Path, name: str, refused: bool
) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "data.py").write_text("")
    (tmp_path / "train.py").write_text(f"import {name}.data")
    if refused:
        with pytest.raises(errors.InvalidInputError, match=f"from the folder {name}/"):
            scripts.read(str(tmp_path / "train.py"), scripts.CONFIG_MAP)
    else:
        assert list(scripts.read(str(tmp_path / "train.py"), scripts.CONFIG_MAP).files) == ["train.py"]
