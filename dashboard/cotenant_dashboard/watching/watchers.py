"""The watches that fill a store, each in a thread of its own."""

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Final

from cotenant_api import errors, names
from cotenant_cli.reading import cluster, objects, watches
from cotenant_dashboard.watching import store

LOG = logging.getLogger(__name__)

DLJOBS: Final = f"/apis/{names.API_VERSION}/dljobs"


def begin(source: watches.Source, fill: store.Store, *, ending: threading.Event) -> None:
    """Watch until `ending` is set; the threads hold no process up that ends."""
    for kind, run in _runs(source, fill, ending.wait).items():
        threading.Thread(target=_told, args=(kind, run, fill), daemon=True).start()


def _told(kind: str, run: Callable[[], None], fill: store.Store) -> None:
    """Run it; should it end by itself, nobody is to take what is old for new."""
    try:
        run()
    except Exception as error:
        LOG.exception("the watch of %s ended", kind)
        fill.broke(kind, errors.PermanentError(f"its watch ended, restart the dashboard: {error!r}"))


def _runs(source: watches.Source, fill: store.Store, wait: Callable[[float], bool]) -> Mapping[str, Callable[[], None]]:
    return {
        store.NODES: watches.Watch(source, cluster.GPUNODES, objects.node_of, fill.nodes(), wait=wait).run,
        store.PODS: watches.Watch(source, cluster.pods_path(None), objects.pod_of, fill.pods(), wait=wait).run,
        store.DLJOBS: watches.Watch(source, DLJOBS, store.dljob_of, fill.dljobs(), wait=wait).run,
        store.POLICIES: watches.Watch(source, cluster.POLICIES, store.policy_of, fill.policies(), wait=wait).run,
    }
