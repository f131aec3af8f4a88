"""Pods that were taken away, and are gone: a part of the store. No I/O.

That a pod was told to end is written on its Job while the pod is there. Where nobody led at that moment, only who
watched knows it afterwards. Of each replica of a Job the last such pod is kept, until another one of it comes.
"""

from collections.abc import Mapping

from cotenant_operator.state import views
from cotenant_operator.state.views import Key

_Slot = tuple[str, int]


class Departed:
    """Every such pod, by DLJob, Job and index."""

    def __init__(self) -> None:
        self._found: dict[Key, dict[_Slot, views.Pod]] = {}

    def came(self, key: Key, pod: views.Pod) -> None:
        """Note that a pod is there: it follows the one of its index, unless it was made before that one."""
        slot = (pod.meta.owner_uid or "", -1 if pod.index is None else pod.index)
        gone = self._found.get(key, {}).get(slot)
        if gone is not None and pod.meta.created >= gone.meta.created:
            self._drop(key, slot)

    def went(self, key: Key, pod: views.Pod, jobs: Mapping[str, views.Job]) -> None:
        """Note that a pod is gone; `jobs`: those of its DLJob, by UID. Anybody may make pods that name a Job."""
        job = jobs.get(pod.meta.owner_uid or "")
        if job is not None and pod.index is not None and 0 <= pod.index < job.size and pod.taken_away:
            self._found.setdefault(key, {})[job.meta.uid, pod.index] = pod

    def forget(self, key: Key, job_uid: str) -> None:
        """Forget the pods of a Job that is gone."""
        for slot in [slot for slot in self._found.get(key, {}) if slot[0] == job_uid]:
            self._drop(key, slot)

    def of(self, key: Key, dljob_uid: str) -> tuple[views.Pod, ...]:
        """Return those of a DLJob."""
        return tuple(pod for pod in self._found.get(key, {}).values() if pod.dljob_uid == dljob_uid)

    def __len__(self) -> int:
        return sum(len(found) for found in self._found.values())

    def _drop(self, key: Key, slot: _Slot) -> None:
        inner = self._found.get(key, {})
        if inner.pop(slot, None) is not None and not inner:
            del self._found[key]
