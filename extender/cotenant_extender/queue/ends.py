"""When tenants are expected to end. Pure; time is a parameter. Nobody knows, so each is an estimate.

In this order, for a pod that has run t seconds:

| known | expected to end |
|---|---|
| it is being deleted | at its `deletionTimestamp`; past that by s seconds: in s + 30 s |
| run times of pods like it (see `runs`) | when it has run their median; past that, their maximum; past that, in t |
| it runs until somebody deletes it (`tenures`) | never |
| nothing | in t + the median of all namespaces' median run times; 600 s where too few pods have finished |

`activeDeadlineSeconds` and the grace period after it are an upper bound of each of the last three.
"""

import math

import numpy as np

from cotenant_extender import records
from cotenant_extender.ledger import runs
from cotenant_extender.packing import rules
from cotenant_extender.queue import roster

LEAVING_SECONDS = 30.0
"""The grace period that a deleted pod has by default."""
LATE_SECONDS = 60.0
"""kubelet looks at deadlines now and then, and reports ends a little later."""
OVERSTAY = 2
"""A pod may run so many times as long as the longest of those that are like it."""


def expected(held: roster.Roster, known: runs.Runs, *, now: float) -> rules.Array:
    """Return the expected end of every tenant, shape (N, G, T), in seconds since the epoch.

    Inf: never, or no tenant.
    """
    begun = np.where(np.isnan(held.begun), now, held.begun)
    ran = np.maximum(now - begun, 0.0)
    typical, longest = known.tables(held.kind)
    unknown = np.isnan(typical)
    whole = np.select(
        [unknown & (held.endless > 0), unknown, ran < typical, ran < longest],
        [np.inf, 2 * ran + known.of_any, typical, longest],
        2 * ran,
    )
    end = begun + np.minimum(whole, held.deadline)
    overdue = now - held.leaves
    leaving = np.where(overdue < 0, held.leaves, now + overdue + LEAVING_SECONDS)
    end = np.where(held.leaves > 0, leaving, np.maximum(end, now))
    return np.where(held.pods > 0, end, np.inf)


def at_the_latest(record: records.Pod, known: runs.Runs, *, now: float) -> float:
    """By when a pod that waits would end if it began now: its deadline, or the longest run of a pod like it.

    inf: nothing says so.
    """
    claim = claimed(record, known)
    return math.inf if claim is None else now + claim.seconds


def claimed(record: records.Pod, known: runs.Runs) -> runs.Claim | None:
    """Return how long a pod runs at most by its deadline or by what pods like it ran; None: nothing says so."""
    alike = known.of(record.likeness)
    deadline = record.tenure.deadline_seconds if known.keeps_deadlines(record.namespace) else None
    if deadline is not None and (alike is None or deadline <= alike.longest):
        return runs.Claim(record.namespace, deadline, broken=deadline + LATE_SECONDS, deadline=True)
    return None if alike is None else runs.Claim(record.namespace, alike.longest, broken=OVERSTAY * alike.longest)
