"""The watches that fill a store, each in a thread of its own."""

import threading
from collections.abc import Callable, Sequence
from typing import Final

from cotenant_api import names
from cotenant_cli.reading import cluster, objects, watches
from cotenant_dashboard.watching import store

DLJOBS: Final = f"/apis/{names.API_VERSION}/dljobs"


def begin(source: watches.Source, fill: store.Store, *, ending: threading.Event) -> None:
    """Watch until `ending` is set; the threads hold no process up that ends."""
    for run in _runs(source, fill, ending.wait):
        threading.Thread(target=run, daemon=True).start()


def _runs(source: watches.Source, fill: store.Store, wait: Callable[[float], bool]) -> Sequence[Callable[[], None]]:
    return (
        watches.Watch(source, cluster.GPUNODES, objects.node_of, fill.nodes(), wait=wait).run,
        watches.Watch(source, cluster.pods_path(None), objects.pod_of, fill.pods(), wait=wait).run,
        watches.Watch(source, DLJOBS, store.dljob_of, fill.dljobs(), wait=wait).run,
        watches.Watch(source, cluster.POLICIES, store.policy_of, fill.policies(), wait=wait).run,
    )
