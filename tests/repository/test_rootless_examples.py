"""What ships and is copied may share a GPU: no container of an example can be root (docs/how-to/non-root.md)."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cotenant_api import rootless

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "manifests" / "examples"
WHOLE = ROOT / "manifests" / "examples" / "dljobs" / "minimal.yaml"
"""It shows the least that a DLJob is, and gets a whole GPU."""
FROM_A_CLASS = "labels: {platform.example.com/class: "
"""Its user comes from its class, whose own example is looked at."""
OF_PAGES = re.compile(r"```yaml\n(.*?)```|<<'?EOT'?\n(.*?)\nEOT", re.DOTALL)


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def texts(path: Path) -> Iterator[str]:
    """The YAML in a file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".yaml":
        yield text
    else:
        yield from (fenced or typed for fenced, typed in OF_PAGES.findall(text))


def pod_specs(value: Any) -> Iterator[dict[str, Any]]:
    """Every pod's spec in an object, at any depth; those of extraction pods and of our components are not shown."""
    if isinstance(value, dict):
        if isinstance(value.get("containers"), list) and "image" in value["containers"][0]:
            yield value
        for inner in value.values():
            yield from pod_specs(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from pod_specs(inner)


def shown() -> list[tuple[str, dict[str, Any]]]:
    found = []
    for path in (*sorted(EXAMPLES.rglob("*.yaml")), *pages()):
        for text in texts(path) if path != WHOLE else ():
            if "name: minimal\n" in text or FROM_A_CLASS in text:
                continue
            documents = [one for one in yaml.safe_load_all(text) if one]
            found += [(str(path.relative_to(ROOT)), spec) for one in documents for spec in pod_specs(one)]
    return found


SHOWN = shown()


@pytest.mark.parametrize(("page", "spec"), SHOWN, ids=[f"{page}-{number}" for number, (page, _) in enumerate(SHOWN)])
def test_no_container_of_an_example_can_be_root(page: str, spec: dict[str, Any]) -> None:
    assert rootless.fault(spec) is None, page


def test_examples_are_found_in_manifests_and_on_pages() -> None:
    found = {page for page, _ in SHOWN}
    assert {"README.md", "docs/dljob.md", "docs/get-started/first-dljob.md", "manifests/examples/plain.yaml"} <= found
