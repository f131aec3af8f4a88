"""The program of an extraction's pod: what it writes, when it tries again, and what it says when it cannot."""

import ast
import base64
import gzip
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cotenant_predictor.extraction import in_pod, onnx_strip
from predictor_kit import pod as kit
from predictor_kit.onnx_models import model, node, weight
from predictor_kit.pod import Pod

MODEL = model([node("MatMul", "x w", "y")], {"x": ["batch", 64]}, [weight("w", [64, 10])]).SerializeToString()


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[Pod]:
    """A pod with an ONNX file in its folder."""
    with kit.pod(tmp_path) as made:
        (tmp_path / "work" / "m.onnx").write_bytes(MODEL)
        yield made


@pytest.mark.parametrize("name", kit.FILES)
def test_every_file_is_python_3_9_and_needs_only_torch_and_the_standard_library(name: str) -> None:
    tree = ast.parse((kit.FOLDER / name).read_text(encoding="utf-8"), feature_version=(3, 9))
    imported = set()
    for found in ast.walk(tree):
        if isinstance(found, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in found.names}
        elif isinstance(found, ast.ImportFrom):
            assert found.level == 0
            imported.add(str(found.module).partition(".")[0])
    assert imported <= sys.stdlib_module_names | {"torch"}


def test_onnx_file_is_written_without_its_weights(pod: Pod) -> None:
    done = pod.run("onnx", "m.onnx")
    assert done.returncode == 0, done.stderr
    (patch,) = pod.patches
    assert patch.path.startswith("/api/v1/namespaces/team/configmaps/result?")
    assert patch.token == "Bearer secret"
    assert gzip.decompress(base64.b64decode(patch.body["binaryData"][kit.KEY])) == onnx_strip.stripped(MODEL)


@pytest.mark.parametrize("answer", [503, 429, 401, 0])
def test_what_passes_is_tried_again(pod: Pod, answer: int) -> None:
    pod.answers = [answer]
    assert pod.run("onnx", "m.onnx").returncode == 0
    assert len(pod.patches) == 2


@pytest.mark.parametrize("answer", [403, 404, 413, 422])
def test_refusal_is_told_and_not_tried_again(pod: Pod, answer: int) -> None:
    pod.answers = [answer]
    done = pod.run("onnx", "m.onnx")
    assert done.returncode == 1
    assert len(pod.patches) == 1
    assert kit.last_line(done).startswith(
        f"cotenant: ConfigMap result cannot be written: the API server answers {answer}"
    )
    assert f"said {answer}" in kit.last_line(done)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("gone.onnx", "gone.onnx cannot be read: No such file"),
        ("/", "cannot be read: Is a directory"),
        ("broken.onnx", "broken.onnx is"),
        ("empty.onnx", "empty.onnx is empty"),
    ],
)
def test_file_that_cannot_be_used_is_named(pod: Pod, path: str, words: str) -> None:
    pod.folder.joinpath("work", "broken.onnx").write_bytes(MODEL[:-20])
    pod.folder.joinpath("work", "empty.onnx").touch()
    done = pod.run("onnx", path)
    assert done.returncode == 1
    assert words in kit.last_line(done)
    assert "spec.model.onnx.path" in kit.last_line(done)
    assert pod.patches == []


def test_document_that_is_too_large_says_what_to_do() -> None:
    with pytest.raises(in_pod.FailedError, match=r"at most 128 fit.*spec\.sharing: Exclusive"):
        in_pod._packed(bytes((n * n * 2654435761 >> 13) & 255 for n in range(700_000)), what="entrypoint")


def test_image_without_torch_is_told(pod: Pod, tmp_path: Path) -> None:
    modules = tmp_path / "modules"
    (modules / "torch").mkdir(parents=True)
    (modules / "torch" / "__init__.py").write_text("raise ModuleNotFoundError('no', name='torch')")
    done = pod.run("entrypoint", "models:build", "--batch-size", "1", modules=modules)
    assert done.returncode == 1
    assert "torch is not installed for" in kit.last_line(done)
    assert "configMapRef" in kit.last_line(done)


def test_torch_that_does_not_fit_is_told(pod: Pod, tmp_path: Path) -> None:
    modules = tmp_path / "modules"
    (modules / "torch").mkdir(parents=True)
    (modules / "torch" / "__init__.py").write_text("raise OSError('libcudart.so: cannot open')")
    done = pod.run("entrypoint", "models:build", "--batch-size", "1", modules=modules)
    assert "torch cannot be used: libcudart.so: cannot open" in kit.last_line(done)
