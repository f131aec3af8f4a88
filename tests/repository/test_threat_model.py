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


def rows(page: str) -> list[tuple[str, str, str]]:
    """Return the attackers' rows: what he tries, what comes of it, the tests that show it."""
    cells = [re.split(r"(?<!\\)\|", line) for line in page.splitlines() if line.startswith("| ")]
    return [
        (one[1].strip(), one[2].strip(), one[3].strip())
        for one in cells
        if len(one) == 5 and one[3].strip() != "shown by"
    ]


def unshown(page: str) -> list[str]:
    """Return what the page says of an attempt without a test that shows it, unless it succeeds: that is admitted."""
    return [
        tries
        for tries, outcome, shown in rows(page)
        if not re.search(r"`tests/[\w/]+\.py::\w+`", shown) and not re.match(r"(\*\*can\*\*|can\b|may\b)", outcome)
    ]


def test_every_row_that_says_that_something_is_refused_names_a_test() -> None:
    assert len(rows(PAGE.read_text(encoding="utf-8"))) > 100
    assert unshown(PAGE.read_text(encoding="utf-8")) == []


def test_a_row_without_a_test_is_noticed() -> None:
    page = "| he tries | what comes of it | shown by |\n|---|---|---|\n| a | refused | `tests/a.py::test_b` |\n"
    assert unshown(page) == []
    assert unshown(f"{page}| b | refused | |\n| c | **can** | |\n| d | refused | by design |\n") == ["b", "d"]


def test_every_attacker_has_rows_with_tests() -> None:
    sections = PAGE.read_text(encoding="utf-8").split("\n## ")[1:]
    untested = [text.splitlines()[0] for text in sections if "tests/" not in text]
    assert untested == ["Not defended against"]
