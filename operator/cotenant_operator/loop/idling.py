"""Since when pods have had their GPUs without any work, as the operator has seen it, by its own clock. Pure.

The clocks of nodes may be wrong by any amount, and the operator's own may be set: the time that passes is measured by
one that only grows. An operator that begins knows of no time before.
"""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from cotenant_api.names import PodUID
from cotenant_operator.state import views
from cotenant_operator.state.views import Key


class Idling:
    """The pods of each DLJob that do no work, and since when.

    Args:
        monotonic: seconds that only grow.
    """

    def __init__(self, *, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._known: dict[Key, dict[PodUID, tuple[str, float]]] = {}

    def of(self, key: Key, pods: Iterable[views.Pod], *, now: datetime) -> dict[PodUID, datetime]:
        """Take in a DLJob's pods as they are; since when those that do no work have done none, by the time of day."""
        before, found, time = self._known.pop(key, {}), {}, self._monotonic()
        for pod in pods:
            if pod.idle is not None:
                stretch, since = before.get(views.pod_uid(pod), ("", time))
                found[views.pod_uid(pod)] = pod.idle, since if stretch == pod.idle else time
        if found:
            self._known[key] = found
        return {uid: now - timedelta(seconds=time - since) for uid, (_, since) in found.items()}
