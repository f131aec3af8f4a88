"""axe-core finds nothing: in both themes, narrow and wide, with a job explained and without."""

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from browser.conftest import Look
from cotenant_e2e.dashboard import browser, serving, world

SIZES = {"narrow": browser.NARROW, "wide": browser.WIDE}


def violations(page: Page) -> list[dict[str, Any]]:
    """Each with the places where it was found."""
    found = Axe().run(page).response["violations"]
    return [{"rule": one["id"], "places": [node["html"] for node in one["nodes"]][:3]} for one in found]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(
    dashboard: serving.Dashboard, cluster: world.World, look: Look, theme: str, size: str
) -> None:
    cluster.tell("t4-2", ready=False)
    page = look(dashboard.url, size=SIZES[size], color_scheme=theme, bypass_csp=True)
    expect(page.locator(".node")).to_have_count(3)
    page.locator("#accuracy summary").click()
    assert violations(page) == []
    page.locator("#queue button.job").first.click()
    expect(page.locator("#detail .facts")).to_be_visible()
    assert violations(page) == []
