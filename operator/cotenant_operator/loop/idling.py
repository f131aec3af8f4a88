"""Since when pods have had their GPUs without any work, as the operator has seen it, by its own clock. Pure.

The clocks of nodes may be wrong by any amount. An operator that begins knows of no time before.
"""

from collections.abc import Iterable
from datetime import datetime

from cotenant_api.names import PodUID
from cotenant_operator.state import views
from cotenant_operator.state.views import Key


class Idling:
    """The pods of each DLJob that do no work, and since when."""

    def __init__(self) -> None:
        self._known: dict[Key, dict[PodUID, tuple[str, datetime]]] = {}

    def of(self, key: Key, pods: Iterable[views.Pod], *, now: datetime) -> dict[PodUID, datetime]:
        """Take in a DLJob's pods as they are; since when those that do no work have done none."""
        before, found = self._known.pop(key, {}), {}
        for pod in pods:
            if pod.idle is not None:
                stretch, since = before.get(views.pod_uid(pod), ("", now))
                found[views.pod_uid(pod)] = pod.idle, since if stretch == pod.idle else now
        if found:
            self._known[key] = found
        return {uid: since for uid, (_, since) in found.items()}
