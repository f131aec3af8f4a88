"""The lock files agree: what the demo installs first stays as it is when the rest comes."""

import re
from pathlib import Path

from cotenant_e2e import configuration

LOCKS = configuration.REPOSITORY / "locks"


def pins(file: Path) -> dict[str, str]:
    """Versions by package."""
    return dict(re.findall(r"^([\w.-]+)==(\S+)", file.read_text(), re.MULTILINE))


def test_what_the_demo_installs_has_the_versions_of_development() -> None:
    demo, development = pins(LOCKS / "demo.txt"), pins(LOCKS / "dev.txt")
    assert len(demo) > 50
    assert {name: version for name, version in demo.items() if development.get(name, version) != version} == {}
