"""Chromium of this machine, driven by Playwright, with the flags that keep it from asking anybody anything."""

import contextlib
import io
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from cotenant_api import errors

VARIABLE: Final = "COTENANT_CHROMIUM"
PROGRAMS: Final = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
FLAGS: Final = (
    "--no-sandbox",  # a container has no namespaces to give away
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
WIDE: Final = (1920, 1080)
NARROW: Final = (320, 640)


def program() -> str:
    """Where it is.

    Raises:
        InvalidInputError: there is none.
    """
    named = os.environ.get(VARIABLE)
    for name in (named,) if named else PROGRAMS:
        found = shutil.which(name)
        if found is not None:
            return found
    raise errors.InvalidInputError(
        VARIABLE, named, "names no Chromium, and none is on PATH: run scripts/install-browser"
    )


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """One, for the block."""
    path = program()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


def save(page: Page, file: Path) -> None:
    """Write what a page shows as PNG: a palette is enough for flat colours, and a third of the bytes."""
    shown = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    shown.quantize(256, Image.Quantize.MAXCOVERAGE).save(file, optimize=True)
