"""Pictures of the dashboard, for its page."""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cotenant_e2e.commands import output

if TYPE_CHECKING:
    from playwright.sync_api import Page

SUMMARY = "draw the dashboard in Chromium, of a cluster that is made up: dark and light, wide and narrow"

NODES: Final = 6
_SETTLED_SECONDS: Final = 2.0
"""Until sums are made again and what moves has moved."""


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("folder", type=Path, metavar="FOLDER")


def run(arguments: Namespace) -> int:
    """Write dashboard-THEME-WIDTH.png and dashboard-why.png."""
    from cotenant_e2e.dashboard import browser, serving, world

    with serving.dashboard() as made, browser.chromium() as chromium:
        world.World(made.live.store, nodes=NODES)
        for theme in ("light", "dark"):
            for width, (across, down) in {"wide": browser.WIDE, "narrow": (browser.NARROW[0], 900)}.items():
                page = chromium.new_page(viewport={"width": across, "height": down}, color_scheme=theme)
                page.goto(made.url)
                _drawn(page)
                _save(page, arguments.folder / f"dashboard-{theme}-{width}.png")
                if (theme, width) == ("light", "wide"):
                    page.locator("#queue button.job").first.click()
                    page.locator("#detail .facts").wait_for()
                    _save(page, arguments.folder / "dashboard-why.png")
                page.close()
    return 0


def _drawn(page: "Page") -> None:
    page.locator(".node").nth(NODES - 1).wait_for()
    page.wait_for_timeout(1000 * _SETTLED_SECONDS)


def _save(page: "Page", file: Path) -> None:
    from cotenant_e2e.dashboard import browser

    browser.save(page, file)
    output.say(str(file))
