"""The main job: real Kubernetes places real models on simulated GPUs, from nothing to the last summary."""

import os
import time
from argparse import ArgumentParser, Namespace
from pathlib import Path

from rich.console import Console

from cotenant_e2e import binaries, components, installation, nodes, progress, startup
from cotenant_e2e import cluster as clusters
from cotenant_e2e.cluster import Cluster
from cotenant_e2e.commands import arguments as shared
from cotenant_e2e.commands import output
from cotenant_e2e.demo import examples, follow, meanwhile, screen

SUMMARY = "start Kubernetes and Cotenant, run the examples on simulated GPUs, show what becomes of them"
SECONDS = 300


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    shared.add_directory(parser)
    parser.add_argument("--keep", action="store_true", help="leave it running at the end")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="write the fullest table as SVG")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, metavar="N", help=f"give up after N seconds (default: {SECONDS})"
    )


def run(arguments: Namespace) -> int:
    """0 only if every job was placed and finished, and every promise was kept."""
    console = Console(highlight=False)
    programs = _programs(console)
    clusters.down(arguments.directory)
    began = time.monotonic()
    started = startup.start(arguments.directory, programs, startup.Options(nodes=nodes.demo()), report=output.say)
    try:
        installation.install(started)
        output.say(f"{time.monotonic() - began:5.1f} s  from nothing to Kubernetes with Cotenant on it, ready")
        page = installation.start_dashboard(started)
        console.print(f"dashboard, while this runs: {page}", soft_wrap=True, markup=False)
        succeeded = _follow(started, console, arguments)
    except BaseException:
        started.stop()
        raise
    if arguments.keep:
        started.close()
        folders = {"kubectl": programs[components.KUBECTL].parent, "cotenant": installation.COTENANT.parent}
        console.print(_KEPT.format(page=page, kubeconfig=started.kubeconfig(), **folders), soft_wrap=True, markup=False)
    else:
        started.stop()
        console.print("Next: `make demo KEEP=1` leaves it running; manifests/examples/ is what was applied.")
    return 0 if succeeded else 1


def _programs(console: Console) -> dict[str, Path]:
    """Those of Kubernetes; while they are built for the first time there is something to read."""
    search = binaries.search(environment=os.environ, progress=progress.of_console(console))
    if not search.must_build:
        return search.complete()
    console.print(_FIRST_TIME, soft_wrap=True, markup=False)
    with meanwhile.compared(console):
        return search.complete()


def _follow(cluster: Cluster, console: Console, arguments: Namespace) -> bool:
    run = follow.follow(
        cluster.client,
        screen.of(console),
        expected=examples.expected_rows(),
        seconds=arguments.seconds,
        apply=lambda: examples.apply(cluster),
    )
    found = run.summary()
    console.print(screen.summary(found))
    if arguments.picture and run.fullest:
        screen.picture(run.fullest.rows, run.fullest.headline, arguments.picture)
    memory = ", ".join(f"{name} {mib} MiB" for name, mib in cluster.memory_mib().items())
    console.print(f"memory: {memory}", soft_wrap=True)
    return found.succeeded


_FIRST_TIME = """Kubernetes 1.36 is not on this machine yet: it is built once, about 9 minutes on 2 cores, no caches.
Then real Kubernetes places jobs. Meanwhile, within a minute, a simulation of what packing is worth:
"""

_KEPT = """
It goes on running, and its dashboard at {page}
Try:
  export KUBECONFIG={kubeconfig} PATH={kubectl}:{cotenant}:$PATH
  cotenant top                                # GPUs and their tenants, predicted beside observed
  cotenant why --namespace vision resnet50    # why a job is where it is
  kubectl get dljobs --all-namespaces
  kubectl describe dljob --namespace vision resnet50
  kubectl edit packingpolicy default          # maxTenantsPerGPU: 1, and apply the examples again
and stop it with `make demo-down`."""
