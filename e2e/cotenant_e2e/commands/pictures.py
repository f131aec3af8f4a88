"""Pictures of the command line, of a real control plane with simulated GPUs, and of a what-if page."""

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cotenant_api import names, pod
from cotenant_e2e import binaries, configuration, installation, nodes, progress, startup, waiting
from cotenant_e2e import client as clients
from cotenant_e2e import cluster as clusters
from cotenant_e2e.cluster import Cluster
from cotenant_e2e.commands import arguments as shared
from cotenant_e2e.commands import output
from cotenant_e2e.demo import examples, terminal

SUMMARY = "draw `cotenant top` and `cotenant why` of the demo's cluster, and a page of `cotenant simulate cluster`"

TENANTS: Final = 30
"""So many pods run when the pictures are taken."""
FULL_SECONDS: Final = 120
PAGE: Final = configuration.REPOSITORY / "docs" / "evidence" / "cluster" / "page.html"
"""As `make evidence` wrote it."""
WINDOW: Final = (900, 2390)
"""Of the page: its tables and its first plots."""
_TITLE: Final = "real Kubernetes, simulated GPUs"


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    shared.add_directory(parser)
    parser.add_argument("folder", type=Path, metavar="FOLDER")


def run(arguments: Namespace) -> int:
    """Write top.svg, why.svg and what-if.png."""
    _draw_page(arguments.folder / "what-if.png")
    programs = binaries.search(environment=os.environ, progress=progress.of_terminal()).complete()
    clusters.down(arguments.directory)
    started = startup.start(arguments.directory, programs, startup.Options(nodes=nodes.demo()), report=output.say)
    try:
        installation.install(started)
        examples.apply(started)
        waiting.wait_until(lambda: _is_full(started), f"{TENANTS} pods on simulated GPUs", FULL_SECONDS)
        job = waiting.wait_until(lambda: _waiting(started), "a DLJob with a place in the queue", FULL_SECONDS)
        _draw(started, ("cotenant", "why", job), arguments.folder / "why.svg")
        _draw(started, ("cotenant", "top", "--namespace", "vision"), arguments.folder / "top.svg")
    finally:
        started.stop()
    return 0


def _draw_page(file: Path) -> None:
    from cotenant_e2e.dashboard import browser

    across, down = WINDOW
    with browser.chromium() as chromium:
        page = chromium.new_page(viewport={"width": across, "height": down}, color_scheme="light")
        page.goto(PAGE.as_uri())
        browser.save(page, file)
    output.say(str(file))


def _draw(cluster: Cluster, command: Sequence[str], file: Path) -> None:
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig()), "TERM": "xterm-256color"}
    printed = terminal.printed((str(installation.COTENANT), *command[1:]), environment)
    shown = terminal.session(command, printed)
    terminal.picture(shown, file, title=_TITLE, width=terminal.width_of(shown))
    output.say(str(file))


def _is_full(cluster: Cluster) -> bool:
    found = cluster.client.items(clients.path_of("pods"))
    running = [each for each in found if pod.asks_for_share(each) and each["status"].get("phase") == "Running"]
    return len(running) >= TENANTS


def _waiting(cluster: Cluster) -> str:
    """Return a job that is told its place in the queue, as NAMESPACE/NAME; empty: none is."""
    path = clients.path_of("dljobs", group=names.GROUP, version=names.VERSION)
    for found in cluster.client.items(path):
        told = found.get("status", {}).get("conditions", ())
        if any("in the queue" in each.get("message", "") for each in told):
            return f"{found['metadata']['namespace']}/{found['metadata']['name']}"
    return ""
