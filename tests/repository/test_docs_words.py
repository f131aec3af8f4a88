"""Messages and reasons that pages quote are those that the code says."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cotenant_api import gpunode
from cotenant_deviceplugin import pods
from cotenant_deviceplugin.node import incidents
from cotenant_deviceplugin.publishing import readiness

ROOT = Path(__file__).parents[2]
TROUBLESHOOTING = ROOT / "docs" / "operations" / "troubleshooting.md"
REASONS = ROOT / "docs" / "reference" / "reasons.md"
FOREIGN = "Kubernetes, and CUDA"
"""The section of messages that are not ours."""
VARIES = "…"


def sections(page: Path) -> dict[str, list[str]]:
    """Heading -> the first cells of the rows below it, without the table's own head."""
    found: dict[str, list[str]] = {}
    heading = ""
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ")
        elif line.startswith("| `"):
            cell = re.split(r"(?<!\\) \| ", line.removeprefix("| "), maxsplit=1)[0]
            found.setdefault(heading, []).append(cell.strip()[1:-1].replace("\\|", "|"))
    return found


def sources() -> Iterator[Path]:
    folders = ["api", "predictor", "extender", "operator", "deviceplugin", "simulator", "cli", "manifests", "charts"]
    listed = subprocess.run(["git", "ls-files", *folders], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.splitlines():
        if name.endswith((".py", ".yaml", ".txt", ".tpl")) and (ROOT / name).is_file():
            yield ROOT / name


@pytest.fixture(scope="module")
def said() -> str:
    """Every text that the code holds; what varies in it is an ellipsis."""
    return "\n".join(text for path in sources() for text in texts(path))


def texts(path: Path) -> Iterator[str]:
    content = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield " ".join(content.split()).replace("''", "'").replace("%s", VARIES)
        return
    for node in ast.walk(ast.parse(content)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else VARIES for part in node.values)


def quoted() -> list[str]:
    return [message for heading, found in sections(TROUBLESHOOTING).items() if heading != FOREIGN for message in found]


@pytest.mark.parametrize("message", quoted())
def test_a_message_of_the_troubleshooting_page_is_in_the_code(message: str, said: str) -> None:
    reason, _, rest = message.partition(": ")
    known = message in said or (reason in set(pods.Refusal) and rest in said)
    assert known, "no such text in the code: write the message as it is now"


def test_the_reasons_of_a_gpunode_are_those_of_the_code() -> None:
    assert sections(REASONS)["Of a GPUNode"] == list(readiness.Reason)


def test_the_refusals_are_those_of_the_code() -> None:
    assert sections(REASONS)["A refused pod"] == list(pods.Refusal)


def test_the_events_are_those_of_the_code() -> None:
    wanted = [incidents.OVERUSE, incidents.FAULT, incidents.BLOCKS, incidents.REFUSED]
    assert sections(REASONS)["Events of the node agent on pods"] == wanted


def test_the_states_of_health_are_those_of_the_code() -> None:
    assert sections(REASONS)["Health of a GPU"] == list(gpunode.Health)
