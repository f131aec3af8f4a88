"""The observed state: what the watches last said of every object, and which DLJob it concerns. No I/O.

Level-triggered: events only change this state and name the DLJobs to look at again. An older version of an
object never replaces a newer one, and a deleted object does not come back by an event that was late.
"""

import logging
import math
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from cotenant_api import errors, names, packingpolicy
from cotenant_api.dljob import Phase
from cotenant_api.names import GPUModel, NodeName
from cotenant_api.pod import WorkloadType
from cotenant_operator.state import budget, departed, fleet, fronts, gangs, reading, unread, views
from cotenant_operator.state.extractions import Extractions
from cotenant_operator.state.kinds import WATCHED, Kind
from cotenant_operator.state.observed import Observed
from cotenant_operator.state.outcomes import Outcome
from cotenant_operator.state.sweep_runs import SweepRuns
from cotenant_operator.state.views import Key

_LOGGER = logging.getLogger(__name__)
_REMEMBERED_DELETIONS: Final = 16384

Keys = frozenset[Key]
NOBODY: Final[Keys] = frozenset()


class Unwatched(NamedTuple):
    """A workload to be looked for by its name; `uid` where it is known."""

    kind: Kind
    key: Key
    uid: str


class Store:
    """What is known of the cluster.

    Args:
        room: how much is kept of a namespace.
        copied: the keys of the DLJobs' labels that their pods get, too.
    """

    def __init__(self, *, room: budget.Budget | None = None, copied: Collection[str] = ()) -> None:
        self._copied = copied
        self._dljobs: dict[Key, views.DLJob] = {}
        self._siblings: Counter[str] = Counter()
        self._runs = SweepRuns()
        self._jobs: dict[Key, dict[str, views.Job]] = {}
        self._deployments: dict[Key, views.Deployment] = {}
        self._pods: dict[Key, dict[str, views.Pod]] = {}
        self._extractions = Extractions()
        self._unreadable = unread.Unreadable()
        self._budget = room or budget.Budget()
        self._gangs, self._fronts = gangs.Gangs(), fronts.Fronts()
        self._fleet, self._departed = fleet.Fleet(), departed.Departed()
        self._policy: views.Policy | None = None
        self._versions: dict[Kind, dict[str, tuple[int, Key]]] = {kind: {} for kind in WATCHED}
        self._gone: OrderedDict[str, float] = OrderedDict()
        self._take: Final[Mapping[Kind, Callable[[Mapping[str, Any]], Keys]]] = {
            Kind.DLJOB: self._take_dljob,
            Kind.JOB: self._take_job,
            Kind.DEPLOYMENT: self._take_deployment,
            Kind.SERVICE: lambda value: self._fronts.take(_owner(value), value, self._count),
            Kind.POD: self._take_pod,
            Kind.POLICY: self._take_policy,
            Kind.GPU_NODE: self._take_node,
            Kind.RESOURCE_QUOTA: self._gangs.take_quota,
        }
        self._drop: Final[Mapping[Kind, Callable[[str, Key], Keys]]] = {
            Kind.DLJOB: self._drop_dljob,
            Kind.JOB: self._drop_job,
            Kind.DEPLOYMENT: self._drop_deployment,
            Kind.SERVICE: self._fronts.drop,
            Kind.POD: self._drop_pod,
            Kind.POLICY: self._drop_policy,
            Kind.GPU_NODE: self._drop_node,
            Kind.RESOURCE_QUOTA: self._gangs.drop_quota,
        }

    def put(self, kind: Kind, value: Mapping[str, Any]) -> Keys:
        """Take in an object as read or watched; the DLJobs that it concerns.

        One that cannot be read holds its DLJob, and ends nothing else.
        """
        uid, version = value["metadata"]["uid"], reading.version(value)
        known = self._versions[kind].get(uid)
        if version < self._gone.get(uid, -1) or (known is not None and version < known[0]):
            return NOBODY
        self._gone.pop(uid, None)
        key = _key(kind, value)
        # A label may name another DLJob than before.
        moved = NOBODY if known is None or known[1] == key else self._forget(kind, uid, known[1])
        self._versions[kind][uid] = (version, key)
        try:
            concerned = (
                frozenset([key]) if self._extractions.take(kind, key, value, self._count) else self._take[kind](value)
            )
        except Exception as error:
            _LOGGER.debug("%s %s", kind.value, key, exc_info=True)
            self._unreadable.add(kind, key, value, error)
            concerned = frozenset([key]) | (self._runs.sweep_of(key) if kind is Kind.DLJOB else NOBODY)
        else:
            self._unreadable.drop(key, uid)
        return concerned | moved

    def remove(self, kind: Kind, uid: str, *, version: int | None = None) -> Keys:
        """Forget an object that is deleted, or out of sight; the DLJobs that it concerned.

        Args:
            kind: of the object.
            uid: of it.
            version: at which it was so: what is no older is in sight again. None: it is gone for good.
        """
        known = self._versions[kind].get(uid)
        if known is not None and version is not None and version < known[0]:
            # It came into sight again since.
            return NOBODY
        self._gone[uid] = math.inf if version is None else version
        if len(self._gone) > _REMEMBERED_DELETIONS:
            self._gone.popitem(last=False)
        known = self._versions[kind].pop(uid, None)
        if known is None:
            return NOBODY
        return self._forget(kind, uid, known[1])

    def _forget(self, kind: Kind, uid: str, key: Key) -> Keys:
        self._unreadable.drop(key, uid)
        self._extractions.drop(key, uid)
        self._budget.drop(key.namespace, uid)
        return self._drop[kind](uid, key) | self._unreadable.crowded_out(key.namespace)

    def _count(self, meta: views.Meta, kept: object) -> None:
        self._budget.take(meta.key.namespace, meta.uid, kept)

    def uids(self, kind: Kind) -> frozenset[str]:
        """UIDs of the objects of a kind that are known."""
        return frozenset(self._versions[kind])

    def knows(self, kind: Kind, uid: str) -> bool:
        """Return whether an object is known."""
        return uid in self._versions[kind]

    def name_of(self, kind: Kind, uid: str) -> Key | None:
        """Return the name of a workload that is known, or of a Service; None: it is of another kind, or not read."""
        key = self._versions[kind].get(uid, (0, Key("", "")))[1]
        deployment = self._deployments.get(key)
        found: dict[str, views.Meta] = {}
        if kind is Kind.JOB:
            found = {one.meta.uid: one.meta for one in self._jobs.get(key, {}).values()}
        elif kind is Kind.DEPLOYMENT and deployment is not None:
            found = {deployment.meta.uid: deployment.meta}
        elif kind is Kind.SERVICE:
            found = {one.meta.uid: one.meta for one in self._fronts.all(key)}
        return found[uid].key if uid in found else None

    def keys(self) -> Keys:
        """Every DLJob."""
        return frozenset(self._dljobs)

    def unfinished(self) -> Keys:
        """Return the DLJobs that are not over."""
        return frozenset(key for key, job in self._dljobs.items() if job.finished is None)

    def phases(self) -> Counter[Phase]:
        """Return how many DLJobs are in each phase; Pending: also those that nobody has looked at."""
        return Counter(job.phase or Phase.PENDING for job in self._dljobs.values())

    def count_unread(self) -> int:
        """Return how many objects cannot be read or kept."""
        return len(self._unreadable)

    def left_out(self, key: Key) -> tuple[unread.Unread, ...]:
        """Return the objects of a DLJob for which its namespace had no room when they came, and has now."""
        return self._unreadable.left_out(key, room=self._budget.left(key.namespace))

    def unwatched(self, key: Key) -> tuple[Unwatched, ...]:
        """Return the workloads of a DLJob that are there, or seem to be, and of which no watch tells.

        They lack our label.
        """
        job = self._dljobs.get(key)
        if job is None or job.finished is not None or job.meta.deleting:
            return ()
        known = [(Kind.JOB, found.meta) for found in self._jobs.get(key, {}).values()]
        deployment = self._deployments.get(key)
        known += [] if deployment is None else [(Kind.DEPLOYMENT, deployment.meta)]
        known += [(Kind.SERVICE, found.meta) for found in self._fronts.of(key, job.meta.uid)]
        blind = [Unwatched(kind, meta.key, meta.uid) for kind, meta in known if names.DLJOB_LABEL not in meta.labels]
        owners = {meta.uid for _, meta in known}
        living = (pod for pod in self._pods.get(key, {}).values() if pod.dljob_uid == job.meta.uid and not pod.ended)
        orphans = {pod.attempt for pod in living if pod.meta.owner_uid not in owners}
        lost = [Unwatched(Kind.JOB, Key(key.namespace, f"{key.name}-{attempt}"), "") for attempt in orphans if attempt]
        if 0 in orphans and deployment is None:
            lost.append(Unwatched(Kind.DEPLOYMENT, key, ""))
        return (*blind, *lost)

    def dljob(self, key: Key) -> views.DLJob | None:
        """Return a DLJob."""
        return self._dljobs.get(key)

    def gpu_models(self) -> frozenset[GPUModel]:
        """Return the GPU models in the cluster."""
        return self._fleet.models()

    def observe(self, key: Key, *, outcome: Outcome | None) -> Observed | None:
        """Return what a decision about this DLJob rests on; None where there is no such DLJob."""
        job = self._dljobs.get(key)
        if job is None:
            return None
        problem = self._unreadable.problem(key)
        if problem is not None and job.finished is None:
            job = replace(job, text=None, problem=problem)
        uid = job.meta.uid
        pods = tuple(pod for pod in self._pods.get(key, {}).values() if pod.dljob_uid == uid)
        # Of a training job none is made: one of its name is another's.
        training = job.spec is not None and job.spec.workload_type is WorkloadType.TRAINING
        owned = (found for found in self._jobs.get(key, {}).values() if found.meta.owner_uid == uid)
        return Observed(
            job=job,
            jobs=tuple(sorted(owned, key=lambda found: found.attempt)),
            deployment=None if training else self._deployments.get(key),
            pods=pods,
            departed=self._departed.of(key, uid),
            policy=self.policy(),
            outcome=outcome,
            gpus=self._fleet.gpus(pods),
            gpu_memory_mib=self._fleet.memory_of_models(),
            refused=self._fleet.refused(pods),
            extractions=self._extractions.jobs_of(key, uid),
            extraction_pods=self._extractions.pods_of(key, uid),
            quotas=self._gangs.quotas_of(key.namespace),
            siblings=self._siblings[key.namespace],
            rivals=self._gangs.rivals(self._dljobs, key, self._missing),
            runs=self._runs.of(key, uid, self._dljobs),
            unstopped=self._runs.count_unstopped(key, uid, self._dljobs, self._pods) if job.suspended else 0,
            services=self._fronts.of(key, uid),
        )

    def policy(self) -> packingpolicy.Spec | None:
        """Return the PackingPolicy in force."""
        return None if self._policy is None else self._policy.spec

    def _take_dljob(self, value: Mapping[str, Any]) -> Keys:
        job = reading.dl_job(value, copied=self._copied)
        before = self._dljobs.get(job.meta.key)
        self._runs.note(job)
        self._siblings[job.meta.key.namespace] += _is_unfinished(job) - _is_unfinished(before)
        try:
            self._count(job.meta, (job.meta, job.text))
        except errors.InvalidInputError as error:
            # It is there, and its status says why it is not run.
            self._budget.drop(job.meta.key.namespace, job.meta.uid)
            self._dljobs[job.meta.key] = replace(job, text=None, problem=str(error))
            raise
        self._dljobs[job.meta.key] = job
        ended = before is not None and before.finished is None and job.finished is not None
        crowded = self._unreadable.crowded_out(job.meta.key.namespace) if ended else NOBODY
        return frozenset([job.meta.key]) | crowded | self._runs.told_by(job, before)

    def _drop_dljob(self, uid: str, key: Key) -> Keys:
        if key in self._dljobs and self._dljobs[key].meta.uid == uid:
            self._siblings[key.namespace] -= _is_unfinished(self._dljobs.pop(key))
            if not self._siblings[key.namespace]:
                del self._siblings[key.namespace]
        sweep = self._runs.sweep_of(key)
        if key not in self._dljobs:
            self._runs.drop(key)
        return frozenset([key]) | sweep

    def _take_job(self, value: Mapping[str, Any]) -> Keys:
        key, job = _owner(value), reading.job(value)
        self._count(job.meta, job)
        self._jobs.setdefault(key, {})[job.meta.uid] = job
        made_room = self._gangs.take_job(key, job)
        return frozenset([key]) | (self._gangs.waiting(key.namespace) if made_room else NOBODY)

    def _drop_job(self, uid: str, key: Key) -> Keys:
        _discard(self._jobs, key, uid)
        self._departed.forget(key, uid)
        made_room = self._gangs.drop_job(key, uid)
        return frozenset([key]) | (self._gangs.waiting(key.namespace) if made_room else NOBODY)

    def _take_deployment(self, value: Mapping[str, Any]) -> Keys:
        deployment = reading.deployment(value)
        self._count(deployment.meta, deployment)
        self._deployments[deployment.meta.key] = deployment
        return frozenset([deployment.meta.key])

    def _drop_deployment(self, uid: str, key: Key) -> Keys:
        if key in self._deployments and self._deployments[key].meta.uid == uid:
            del self._deployments[key]
        return frozenset([key])

    def _missing(self, key: Key, job: views.Job) -> int:
        return gangs.missing(job, self._pods.get(key, {}).values())

    def _take_pod(self, value: Mapping[str, Any]) -> Keys:
        key, uid = _owner(value), value["metadata"]["uid"]
        before = self._pods.get(key, {}).get(uid)
        pod = reading.pod(value, before=before)
        self._count(pod.meta, pod)
        self._pods.setdefault(key, {})[uid] = pod
        self._departed.came(key, pod)
        neighbours = self._fleet.neighbours(fleet.uuids(pod))
        if before is not None:
            self._fleet.release(before)
        if not pod.ended:
            self._fleet.hold(key, pod)
        moved = before is None or before.ended != pod.ended or fleet.uuids(before) != fleet.uuids(pod)
        stopping = self._runs.suspended_sweep_of(key, self._dljobs) if pod.ended else NOBODY
        return frozenset([key]) | stopping | (neighbours if moved else NOBODY)

    def _drop_pod(self, uid: str, key: Key) -> Keys:
        pod = self._pods.get(key, {}).get(uid)
        _discard(self._pods, key, uid)
        if pod is None:
            return frozenset([key])
        self._fleet.release(pod)
        self._departed.went(key, pod, self._jobs.get(key, {}))
        told = self._gangs.waiting(key.namespace) | self._runs.suspended_sweep_of(key, self._dljobs)
        return frozenset([key]) | self._fleet.neighbours(fleet.uuids(pod)) | told

    def _take_node(self, value: Mapping[str, Any]) -> Keys:
        try:
            node = reading.gpu_node(value)
        except errors.InvalidInputError as error:
            _LOGGER.warning("GPUNode %s cannot be read, its last state stands: %s", value["metadata"]["name"], error)
            return NOBODY
        changed, known = self._fleet.take(node), self._versions[Kind.POD]
        told = frozenset(known[uid][1] for uid in changed.told if uid in known)
        return changed.holders | told | (self._without_workload() if changed.models else NOBODY)

    def _drop_node(self, uid: str, key: Key) -> Keys:
        return self._fleet.drop(uid, NodeName(key.name))

    def _take_policy(self, value: Mapping[str, Any]) -> Keys:
        if value["metadata"]["name"] != packingpolicy.NAME:
            return NOBODY
        try:
            policy = reading.policy(value)
        except errors.InvalidInputError as error:
            _LOGGER.warning("PackingPolicy cannot be read, the last one stands: %s", error)
            return NOBODY
        before = None if self._policy is None else self._policy.spec
        self._policy = policy
        if before is not None and before.queue.start_timeout_seconds != policy.spec.queue.start_timeout_seconds:
            return self.unfinished()
        return NOBODY if before == policy.spec else self._without_workload()

    def _drop_policy(self, uid: str, _: Key) -> Keys:
        if self._policy is None or self._policy.uid != uid:
            return NOBODY
        self._policy = None
        return self.unfinished()

    def _without_workload(self) -> Keys:
        return frozenset(key for key in self.unfinished() if key not in self._deployments and not self._jobs.get(key))


def _key(kind: Kind, value: Mapping[str, Any]) -> Key:
    """Return the key under which an object is kept: its DLJob's, or its own."""
    metadata = value["metadata"]
    owned = kind in (Kind.JOB, Kind.POD, Kind.SERVICE)
    return _owner(value) if owned else Key(metadata.get("namespace", ""), metadata["name"])


def _is_unfinished(job: views.DLJob | None) -> bool:
    return job is not None and job.finished is None


def _owner(value: Mapping[str, Any]) -> Key:
    """Return the DLJob of what it owns: that controls it, else that of its label. Anybody may take a label away."""
    metadata = value["metadata"]
    owners = (owner for owner in metadata.get("ownerReferences") or () if owner.get("controller"))
    controlling = next((owner["name"] for owner in owners if owner.get("kind") == "DLJob"), None)
    name = controlling or (metadata.get("labels") or {}).get(names.DLJOB_LABEL, "")
    return Key(metadata.get("namespace", ""), name)


def _discard(found: dict[Key, Any], key: Key, uid: str) -> None:
    inner = found.get(key)
    if inner is None:
        return
    inner.pop(uid, None)
    if not inner:
        del found[key]
