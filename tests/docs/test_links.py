"""Links work on a code host and on the site."""

from pathlib import Path

import pytest

from cotenant_e2e.documentation import links

REPOSITORY = "https://example.org/team/cotenant"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("docs/a.md", "docs/how/b.md", "docs/evidence/README.md", "operator/README.md", "manifests/x.yaml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


def rewritten(text: str, root: Path, *, source: str = "docs/how/b.md", repository: str = REPOSITORY) -> str:
    included = {"operator/README.md": "parts/operator.md"}
    page = source.removeprefix("docs/") if source.startswith("docs/") else included[source]
    site = links.Site(root=root, included=included, repository=repository)
    return links.rewritten(text, source=source, page=page, site=site)


@pytest.mark.parametrize(
    ("link", "there"),
    [
        ("../a.md#x", "../a.md#x"),
        ("../../operator/README.md#y", "../parts/operator.md#y"),
        ("../../operator/", "../parts/operator.md"),
        ("../evidence/", "../evidence/README.md"),
        ("../../manifests/x.yaml", f"{REPOSITORY}/blob/main/manifests/x.yaml"),
        ("../../manifests/", f"{REPOSITORY}/tree/main/manifests"),
        ("https://example.com/z", "https://example.com/z"),
        ("#here", "#here"),
    ],
)
def test_a_link_leads_to_the_page_or_else_to_the_repository(root: Path, link: str, there: str) -> None:
    assert rewritten(f"see [it]({link}), or `[code](../a.md)`", root) == f"see [it]({there}), or `[code](../a.md)`"


def test_an_included_readme_finds_the_pages(root: Path) -> None:
    assert rewritten("[a\nb](../docs/a.md)", root, source="operator/README.md") == "[a\nb](../a.md)"


def test_a_link_whose_text_is_code_is_a_link(root: Path) -> None:
    assert rewritten("[`x`](../../operator/README.md)", root) == "[`x`](../parts/operator.md)"


def test_a_link_in_a_block_of_code_is_left_alone(root: Path) -> None:
    text = "```sh\n[it](../../operator/)\n```"
    assert rewritten(text, root) == text


def test_without_an_address_what_is_no_page_becomes_text(root: Path) -> None:
    assert rewritten("see [x](../../manifests/x.yaml).", root, repository="") == "see x."
