"""An entrypoint in the pod of an extraction: its graph is written, and what is wrong with it is told in one line."""

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest

from cotenant_api.graph import Graph, Mode
from predictor_kit import pod as kit
from predictor_kit.pod import Pod

MODELS = """
import sys, time, torch

print("a user's words")


def build(batch_size, width=8, input_shapes=None):
    print(torch.__version__)
    return torch.nn.Linear(width, 4), torch.zeros(batch_size, width)


def raising(batch_size):
    raise ValueError("no such layer\\nsecond line")


def hanging(batch_size):
    while True:
        time.sleep(0.01)


def leaving(batch_size):
    sys.exit(0)


def nothing():
    return None
"""


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[Pod]:
    """A pod with the user's modules."""
    with kit.pod(tmp_path) as made:
        made.module("models", MODELS)
        made.module("broken", "import numpy_of_another_world\n")
        made.module("failing", "from pathlib import Path\n\n\nPath('/no/such/file').read_text()\n")
        yield made


def test_graph_is_written_whatever_the_code_prints(pod: Pod) -> None:
    done = pod.run("entrypoint", "models:build", "--batch-size", "16", "--mode", "Inference", "--arg", "width=32")
    assert done.returncode == 0, done.stderr
    (patch,) = pod.patches
    found = Graph.read(base64.b64decode(patch.body["binaryData"][kit.KEY]), source="written")
    assert (found.mode, found.batch_size, found.parameters) == (Mode.INFERENCE, 16, 32 * 4 + 4)
    assert "a user's words" in done.stderr


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("models:gone", "has no attribute 'gone'"),
        ("gone:build", "No module named 'gone'"),
        ("broken:build", "No module named 'numpy_of_another_world'"),
        ("failing:build", "failing.py:4 in <module>"),
        ("models:raising", "ValueError: no such layer"),
        ("models:leaving", "models:leaving ended the program (exit code 0)"),
        ("models:nothing", "is NoneType"),
    ],
)
def test_what_is_wrong_is_the_last_line(pod: Pod, target: str, words: str) -> None:
    done = pod.run("entrypoint", target, "--batch-size", "16")
    assert done.returncode == 1
    assert words in kit.last_line(done), done.stderr
    assert kit.last_line(done).startswith(("cotenant: ", "extractor: "))
    assert pod.patches == []


def test_exception_names_its_place(pod: Pod) -> None:
    done = pod.run("entrypoint", "models:raising", "--batch-size", "16")
    assert "models.py:13 in raising" in kit.last_line(done)


def test_code_that_never_returns_is_ended_and_its_place_is_told(pod: Pod) -> None:
    # On a machine that has much to do, torch alone is not there in the time that is enough on another.
    for seconds in (8, 32, 128):
        done = pod.run("entrypoint", "models:hanging", "--batch-size", "16", seconds=seconds)
        assert done.returncode == 124
        assert f"the graph was not there after {seconds} s" in kit.last_line(done)
        assert "timeoutSeconds" in kit.last_line(done)
        if "models.py:" in kit.last_line(done):
            return
    raise AssertionError(kit.last_line(done))
