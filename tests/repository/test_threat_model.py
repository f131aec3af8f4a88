"""The threat model names tests that exist, and each test that is made with an attacker's token is part of a suite."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/operations/threat-model.md"
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE.read_text(encoding="utf-8"))))


@pytest.mark.parametrize(("path", "test"), NAMED, ids=[f"{path}::{test}" for path, test in NAMED])
def test_a_test_that_the_threat_model_names_exists(path: str, test: str) -> None:
    assert re.search(rf"^(async )?def {test}\(", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)


def test_every_attacker_has_rows_with_tests() -> None:
    sections = PAGE.read_text(encoding="utf-8").split("\n## ")[1:]
    untested = [text.splitlines()[0] for text in sections if "tests/" not in text]
    assert untested == ["Not defended against"]
