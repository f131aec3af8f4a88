"""A dashboard of a made-up cluster, and pages of a real Chromium that look at it."""

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page

from cotenant_e2e.dashboard import browser, serving, world

Look = Callable[..., Page]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """One for the session."""
    with browser.chromium() as opened:
        yield opened


@pytest.fixture
def dashboard() -> Iterator[serving.Dashboard]:
    """Without a cluster yet."""
    with serving.dashboard() as made:
        yield made


@pytest.fixture
def cluster(dashboard: serving.Dashboard) -> world.World:
    """Three nodes with eight GPUs each, the same every time, and six jobs that wait."""
    return world.World(dashboard.live.store, nodes=3)


@pytest.fixture
def look(chromium: Browser) -> Iterator[Look]:
    """Opens a page; what goes wrong in it, fails the test."""
    opened, wrong = [], []

    def looked(url: str, *, size: tuple[int, int] = browser.WIDE, **more: object) -> Page:
        context = chromium.new_context(viewport={"width": size[0], "height": size[1]}, **more)  # type: ignore[arg-type]
        context.set_default_timeout(10_000)
        opened.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda said: wrong.append(said.text) if "Content Security Policy" in said.text else None)
        page.goto(url)
        return page

    yield looked
    for context in opened:
        context.close()
    assert wrong == []
