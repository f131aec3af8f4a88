"""Sections of a page that commands write."""

from pathlib import Path

import pytest

from cotenant_api import errors, sections

PAGE = "head\n<!-- begin: a b -->\nold\n<!-- end: a b -->\ntail\n"


def test_only_the_commands_own_section_is_replaced(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE, encoding="utf-8")
    sections.require(page, command="a b")
    sections.replace(page, ["new", "lines"], command="a b")
    text = "head\n<!-- begin: a b -->\n\nnew\nlines\n<!-- end: a b -->\ntail\n"
    assert page.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("text", ["", "<!-- begin: a b -->", "<!-- end: a b --><!-- begin: a b -->"])
def test_a_page_without_the_section_is_refused(tmp_path: Path, text: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    with pytest.raises(errors.InvalidInputError, match=r"--write: .*must hold the lines <!-- begin: a b -->"):
        sections.require(page, command="a b")


def test_a_page_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidInputError, match=r"--write: .*cannot be read"):
        sections.replace(tmp_path / "none.md", [], command="a b")
