"""Shows the processes of a cluster."""

from argparse import ArgumentParser, Namespace

from cotenant_e2e.cluster import Cluster
from cotenant_e2e.commands import arguments as shared

SUMMARY = "list the processes of the cluster; exit code 1 unless all run"


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    shared.add_directory(parser)


def run(arguments: Namespace) -> int:
    """One line for each process."""
    processes = Cluster.open(arguments.directory).status()
    for process in processes:
        state = f"pid {process.pid:7d}  {process.rss_mib:5d} MiB" if process.alive else "ended"
        print(f"{process.name:24} {state}")
    return 0 if all(process.alive for process in processes) else 1
