"""What the site refuses while it is built, and what it leaves out."""

from types import SimpleNamespace
from typing import cast

import pytest
from mkdocs.exceptions import PluginError
from mkdocs.structure.pages import Page

from cotenant_e2e.documentation import hook

PAGE = cast("Page", SimpleNamespace(file=SimpleNamespace(src_uri="a.md")))


@pytest.mark.parametrize(
    "output",
    [
        '<script async src="https://cdn.example/x.js"></script>',
        '<link rel="stylesheet" href="//fonts.example/css">',
        "<img alt='' src=http://example.org/badge.svg>",
    ],
)
def test_a_page_that_would_fetch_something_from_elsewhere_is_refused(output: str) -> None:
    with pytest.raises(PluginError, match=r"a\.md: .*must fetch nothing from elsewhere"):
        hook.on_post_page(output, page=PAGE)


def test_a_page_may_link_elsewhere() -> None:
    output = '<a href="https://example.org/">there</a><img src="images/x.svg">'
    assert hook.on_post_page(output, page=PAGE) == output


def test_pages_that_are_not_there_are_left_out_of_the_navigation() -> None:
    nav = [{"Parts": [{"Here": "parts/a.md"}, {"Gone": "parts/b.md"}]}]
    assert hook._without(nav, {"parts/b.md"}) == [{"Parts": [{"Here": "parts/a.md"}]}]
