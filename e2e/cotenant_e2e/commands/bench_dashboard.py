"""The dashboard in Chromium: how long its tasks take while a large cluster changes."""

import http.client
import os
import socket
import threading
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from cotenant_e2e.commands import output

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from cotenant_e2e.dashboard.tasks import Tasks
    from cotenant_e2e.dashboard.world import World

COMMAND = "make bench-dashboard"
SUMMARY = "measure the tasks of Chromium while 1,000 simulated GPUs change ten times a second"

GPUS_PER_NODE: Final = 8
WAITING: Final = 60
NODES_PER_UPDATE: Final = 12
UPDATES_PER_SECOND: Final = 10
_WORDS: Final = ("bert", "", "vision resnet", "", "h200-1", "")
_HEAD: Final = (
    "| | tasks | median ms | p99 ms | longest ms | longest, CPU ms | over 50 ms |",
    "|---|---:|---:|---:|---:|---:|---:|",
)


@dataclass(frozen=True, slots=True)
class _Phases:
    tasks: "list[Tasks]"
    told: float


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--nodes", type=int, default=125, metavar="N", help="of eight GPUs (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=15.0, help="of each phase (default: %(default)s)")
    output.add(parser)


def run(arguments: Namespace) -> int:
    """Print what was measured, with its conditions."""
    from cotenant_e2e.dashboard import browser, serving, world

    output.require_page(arguments, command=COMMAND)
    with serving.dashboard() as made, browser.chromium() as chromium:
        cluster = world.World(made.live.store, nodes=arguments.nodes, waiting=WAITING)
        phases = _phases(chromium, made.url, arguments, cluster)
        version = chromium.version
    gpus = arguments.nodes * GPUS_PER_NODE
    conditions = (
        f"{gpus:,} simulated GPUs on {arguments.nodes} nodes, {WAITING} waiting jobs; Chromium {version}, headless, "
        f"{browser.WIDE[0]} x {browser.WIDE[1]}; server and browser on {os.cpu_count()} cores together; each phase "
        f"takes {arguments.seconds:.0f} s. Each update tells of {NODES_PER_UPDATE} nodes: all of their GPUs are used "
        f"otherwise, and on each a job ends and another begins. The page was told of {phases.told:.1f} updates a "
        "second. CPU is the main thread's own time: beside it the machine did other things."
    )
    lines = [conditions, "", *_HEAD, *(one.row() for one in phases.tasks)]
    document = {"v": 1, "gpus": gpus, "told": phases.told, "phases": [asdict(one) for one in phases.tasks]}
    output.show(arguments, lines=lines, document=document, command=COMMAND)
    return 0


def _phases(chromium: "Browser", url: str, arguments: Namespace, cluster: "World") -> _Phases:
    from playwright.sync_api import expect

    from cotenant_e2e.dashboard import browser, tasks

    page = chromium.new_context(viewport={"width": browser.WIDE[0], "height": browser.WIDE[1]}).new_page()

    def load() -> None:
        page.goto(url)
        expect(page.locator(".node")).to_have_count(arguments.nodes, timeout=60_000)

    def scroll() -> None:
        turns = int(5 * arguments.seconds)
        for way in (300, -300):  # down, and up again
            for _ in range(turns):
                page.mouse.wheel(0, way)
                page.wait_for_timeout(100)

    def narrow() -> None:
        for word in _WORDS:
            page.keyboard.press("Control+A")
            page.keyboard.press("Backspace")
            page.keyboard.type(word)
            page.wait_for_timeout(1000 * arguments.seconds / len(_WORDS))

    found = [tasks.traced(chromium, page, "first page", load)]
    page.mouse.move(600, 600)
    page.locator(
        "#words"
    ).focus()  # keys from here on: to find an element among so many is the driver's work, not the page's
    with _changing(cluster), _counting(url) as told:
        begun = time.monotonic()
        for phase, act in (
            ("updates", lambda: page.wait_for_timeout(1000 * arguments.seconds)),
            ("updates, scrolling", scroll),
            ("updates, filtering", narrow),
        ):
            found.append(tasks.traced(chromium, page, phase, act))
            output.say(f"{phase}: longest task {found[-1].longest:.1f} ms")
        rate = told[0] / (time.monotonic() - begun)
    return _Phases(tasks=found, told=rate)


@contextmanager
def _changing(cluster: "World") -> Iterator[None]:
    """Change the cluster during the block, in a thread: updates are due at their times, however long each takes."""
    ending = threading.Event()

    def change() -> None:
        due = time.monotonic()
        while not ending.is_set():
            cluster.stir(NODES_PER_UPDATE)
            due += 1 / UPDATES_PER_SECOND
            ending.wait(max(due - time.monotonic(), 0))

    thread = threading.Thread(target=change)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()


@contextmanager
def _counting(url: str) -> Iterator[list[int]]:
    """Yield how many updates a reader beside the browser is told of, in the first place of the list."""
    told = [0]
    connection = http.client.HTTPConnection(urlsplit(url).netloc)
    connection.request("GET", "/api/events")
    answer = connection.getresponse()

    def count() -> None:
        for line in answer:
            told[0] += line.startswith(b"event: whole")

    thread = threading.Thread(target=count, daemon=True)
    thread.start()
    try:
        yield told
    finally:
        if connection.sock is not None:
            connection.sock.shutdown(socket.SHUT_RDWR)
        thread.join()
        connection.close()
