"""Which gangs compete for the ResourceQuotas of a namespace. No I/O.

Only gangs are kept here: they start whole or not at all. Single replicas take what is left when it is there.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from cotenant_operator.state import quotas, views
from cotenant_operator.state.quotas import Quota, Rival
from cotenant_operator.state.views import Key

WOKEN: Final = 32
"""So many of those that wait longest are looked at when there is more room; the others look by themselves."""

Missing = Callable[[Key, views.Job], int]


class Gangs:
    """The quotas, and the Jobs of gangs that are not over, by namespace."""

    def __init__(self) -> None:
        self._quotas: dict[str, dict[str, Quota]] = {}
        self._jobs: dict[str, dict[Key, views.Job]] = {}

    def quotas_of(self, namespace: str) -> tuple[Quota, ...]:
        """Return the quotas of a namespace, by name."""
        return tuple(sorted(self._quotas.get(namespace, {}).values(), key=lambda quota: quota.key))

    def take_quota(self, value: Mapping[str, Any]) -> frozenset[Key]:
        """Keep a quota; the gangs for which there may be more room than before."""
        quota = quotas.read(value)
        known = self._quotas.setdefault(quota.key.namespace, {})
        before, known[quota.uid] = known.get(quota.uid), quota
        more = before is None or _may_be_more(before, quota)
        return self.waiting(quota.key.namespace) if more else frozenset()

    def drop_quota(self, uid: str, key: Key) -> frozenset[Key]:
        """Forget a quota; the gangs that it may have held."""
        held = self.waiting(key.namespace)
        known = self._quotas.get(key.namespace, {})
        known.pop(uid, None)
        if not known:
            self._quotas.pop(key.namespace, None)
        return held

    def take_job(self, key: Key, job: views.Job) -> bool:
        """Keep a gang's Job; whether others may have more room than before: it is over, or suspended."""
        known = self._jobs.get(key.namespace, {})
        before = known.get(key)
        if before is not None and before.attempt > job.attempt:
            return False
        if job.demand is None or job.complete is not None or job.failed is not None:
            return self.drop_job(key, job.meta.uid)
        self._jobs.setdefault(key.namespace, {})[key] = job
        return job.suspended and before is not None and not before.suspended

    def drop_job(self, key: Key, uid: str) -> bool:
        """Forget a gang's Job; whether it was kept."""
        known = self._jobs.get(key.namespace, {})
        if key not in known or known[key].meta.uid != uid:
            return False
        del known[key]
        if not known:
            del self._jobs[key.namespace]
        return True

    def waiting(self, namespace: str) -> frozenset[Key]:
        """Return the gangs that a quota of this namespace may be holding: those that wait longest."""
        if namespace not in self._quotas:
            return frozenset()
        held = [job for job in self._jobs.get(namespace, {}).items() if job[1].suspended and not job[1].external]
        return frozenset(key for key, _ in sorted(held, key=lambda item: (item[1].meta.created, item[0]))[:WOKEN])

    def rivals(self, dljobs: Mapping[Key, views.DLJob], key: Key, missing: Missing) -> tuple[Rival, ...]:
        """Return the other gangs of its namespace, oldest first; none where there is no quota."""
        if key.namespace not in self._quotas:
            return ()
        others = ((other, job) for other, job in self._jobs.get(key.namespace, {}).items() if other != key)
        found = (_rival(dljobs.get(other), job, missing) for other, job in others)
        return tuple(sorted((rival for rival in found if rival is not None), key=lambda one: (one.created, one.key)))


def missing(job: views.Job, pods: Iterable[views.Pod]) -> int:
    """Return how many pods of a Job are not there.

    One that is going is, until the next may come; not where none may.
    """
    gone = ("Pending", "Running", "Unknown", "Failed") if job.suspended else ("Failed",)
    present = {pod.index for pod in pods if pod.attempt == job.attempt and pod.phase not in gone}
    return max(job.size - len(present - {None}), 0)


def _rival(owner: views.DLJob | None, job: views.Job, missing: Missing) -> Rival | None:
    stopped = owner is None or owner.finished is not None or owner.meta.deleting or owner.meta.uid != job.meta.owner_uid
    if owner is None or stopped or job.demand is None or job.ending or job.meta.deleting:
        return None
    spec = owner.spec
    if job.suspended and (job.external or spec is None or spec.suspend or spec.managed_by is not None):
        return None
    return Rival(
        key=owner.meta.key,
        created=owner.meta.created,
        demand=job.demand,
        missing=missing(owner.meta.key, job),
        waits=job.suspended,
        setback=job.setback,
    )


def _may_be_more(before: Quota, now: Quota) -> bool:
    """Only what was charged by more pods leaves less: everything else may make room."""
    if (before.scopes, before.hard) != (now.scopes, now.hard) or before.used.keys() != now.used.keys():
        return True
    return any(now.used[name] < amount for name, amount in before.used.items())
