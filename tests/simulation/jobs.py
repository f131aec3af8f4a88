"""Users and the Job controller: jobs of random kinds come, their pods are made and made again, and deleted."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import orjson

from api_server import handlers, pods, store
from cotenant_api import names
from cotenant_extender.kube import transport
from extender import builders
from simulation import kubelets, volumes

Object = dict[str, Any]

FINALIZER = "batch.kubernetes.io/job-tracking"
JOB = "simulation/job"
NAMESPACES = ("team", "others")
LOWEST = 0
SERVICE_SECONDS = 1e6


@dataclass(frozen=True, kw_only=True)
class Job:
    """What a user asks for.

    Attributes:
        size: how many pods; they are a gang where it is above 1.
        feasible: whether the cluster as it is without faults can run it.
        service: whether it runs until a user deletes it.
        cpu: what each pod requests of its node.
    """

    name: str
    namespace: str
    share: int
    notes: dict[str, str]
    priority: int
    size: int
    run_seconds: float
    tracked: bool
    feasible: bool = True
    service: bool = False
    cpu: str = "100m"


@dataclass
class _State:
    """How far a job has come: the UIDs of the pods that stand for each index, and of those that succeeded."""

    job: Job
    since: float
    current: dict[int, str] = field(default_factory=dict)
    done: dict[int, str] = field(default_factory=dict)
    deleted: bool = False
    attempts: int = 0


class World(Protocol):
    """What jobs need of the world."""

    handling: handlers.Handlers
    objects: store.Store

    def clock(self) -> float:
        """Seconds since the epoch."""

    def later(self, seconds: float, callback: Callable[[], None]) -> None:
        """Call something in no process."""


class Jobs:
    """All jobs.

    Attributes:
        states: by name, in the order in which they came.
        late: whose volumes come late.
    """

    def __init__(self, world: World, rng: random.Random, late: volumes.Volumes) -> None:
        self._world, self._rng, self.late = world, rng, late
        self.states: dict[str, _State] = {}
        self._owner: dict[str, tuple[str, int]] = {}
        world.objects.listeners.append(self._heard)

    def submit(self, job: Job) -> None:
        """A user creates a job."""
        self.states[job.name] = state = _State(job, self._world.clock())
        for index in range(job.size):
            self._world.later(self._rng.uniform(0.0, 0.5), lambda index=index: self._create(state, index))  # type: ignore[misc]

    def delete(self, name: str) -> None:
        """A user deletes a job with its pods."""
        self.states[name].deleted = True
        self._delete_pods(name)

    def delete_pod(self, value: Object, *, force: bool) -> None:
        """A user deletes a pod."""
        metadata = value["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        options: Object = {"preconditions": {"uid": metadata["uid"]}}
        if force:
            options["gracePeriodSeconds"] = 0
        self._request("DELETE", path, options)

    def services(self) -> list[str]:
        """Names of the services that a user still wants."""
        return [name for name, state in self.states.items() if state.job.service and not state.deleted]

    def unfinished(self) -> list[Job]:
        """Feasible jobs that end, that a user still wants, and that are not done."""
        return [
            state.job
            for state in self.states.values()
            if state.job.feasible and not (state.deleted or state.job.service) and len(state.done) < state.job.size
        ]

    def job_of(self, uid: str) -> Job | None:
        """The job of a pod."""
        name, _ = self._owner.get(uid, ("", 0))
        return self.states[name].job if name else None

    def _create(self, state: _State, index: int) -> None:
        job = state.job
        if state.deleted or index in state.done or index in state.current:
            return
        state.attempts += 1
        uid = f"uid-{job.name}-{index}-{state.attempts}"
        # Sometimes the name is used again, as by a StatefulSet.
        name = f"{job.name}-{index}" if job.tracked else f"{job.name}-{index}-{state.attempts}"
        notes = {
            **job.notes,
            names.QUEUED_SINCE: builders.timestamp(state.since),
            kubelets.RUN_SECONDS: str(job.run_seconds),
            **self.late.notes(now=self._world.clock()),
        }
        if state.attempts <= job.size and self._rng.random() < 0.1:
            notes[kubelets.FAILS] = "once"
        if job.size > 1:
            notes |= builders.gang(job.name, job.size)
        value = builders.pod(
            name,
            job.share,
            uid=uid,
            namespace=job.namespace,
            annotations=notes,
            priority=job.priority,
            created=self._world.clock(),
            labels={JOB: job.name},
        )
        value["spec"]["containers"][0]["resources"]["requests"]["cpu"] = job.cpu
        if job.tracked:
            value["metadata"]["finalizers"] = [FINALIZER]
        if self._request("POST", f"/api/v1/namespaces/{job.namespace}/pods", value) == 201:
            state.current[index] = uid
            self._owner[uid] = job.name, index
        else:
            self._world.later(1.0, lambda: self._create(state, index))

    def _heard(self, change: store.Change) -> None:
        if change.collection != pods.PODS:
            return
        uid = change.value["metadata"]["uid"]
        if uid in self._owner:
            self._world.later(self._rng.uniform(0.05, 1.0), lambda: self._look(uid))

    def _look(self, uid: str) -> None:
        """What the controller does about a pod, as it is now."""
        name, index = self._owner[uid]
        state = self.states[name]
        value = self._find(uid)
        phase = "" if value is None else value["status"].get("phase", "")
        over = value is None or phase in pods.FINISHED
        if value is not None and FINALIZER in (value["metadata"].get("finalizers") or ()):
            unbound = "deletionTimestamp" in value["metadata"] and not value["spec"].get("nodeName")
            confirmed = value["metadata"].get("deletionGracePeriodSeconds") == 0
            if over or unbound or confirmed:
                self._untrack(value)
        if over and state.current.get(index) == uid:
            del state.current[index]
            if phase == "Succeeded":
                state.done[index] = uid
            elif state.job.size > 1:
                self._begin_again(state)
            else:
                self._world.later(self._rng.uniform(0.1, 2.0), lambda: self._create(state, index))
        elif value is None and state.done.get(index) == uid and len(state.done) < state.job.size:
            # A person took a result away: whoever of the gang still waits would wait for this one for ever.
            self._begin_again(state)
        finished = state.deleted or len(state.done) == state.job.size or phase == "Failed"
        if value is not None and over and finished and "deletionTimestamp" not in value["metadata"]:
            self._world.later(self._rng.uniform(0.0, 15.0), lambda: self._collect(uid))

    def _begin_again(self, state: _State) -> None:
        """A gang's attempt ends when a member fails, or its result is taken away too early: all are made again."""
        state.done.clear()
        state.current.clear()
        for index in range(state.job.size):
            self._world.later(self._rng.uniform(0.1, 2.0), lambda index=index: self._create(state, index))  # type: ignore[misc]
        self._delete_pods(state.job.name)

    def _delete_pods(self, name: str) -> None:
        for value in list(self._world.objects.objects[pods.PODS].values()):
            if self._owner.get(value["metadata"]["uid"], ("", 0))[0] == name:
                self.delete_pod(value, force=False)

    def _find(self, uid: str) -> Object | None:
        for value in self._world.objects.objects[pods.PODS].values():
            if value["metadata"]["uid"] == uid:
                return value
        return None

    def _collect(self, uid: str) -> None:
        value = self._find(uid)
        if value is not None:
            self.delete_pod(value, force=False)

    def _untrack(self, value: Object) -> None:
        metadata = value["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        self._request("PATCH", path, {"metadata": {"uid": metadata["uid"], "finalizers": None}})

    def _request(self, method: str, path: str, body: Object) -> int:
        kind = transport.MERGE_PATCH if method == "PATCH" else transport.JSON
        return self._world.handling.answer(transport.Request(method, path, orjson.dumps(body), kind)).status


LEAST_SHARES = {"4Gi": 3, "30Gi": 23, "70Gi": 53, "120Gi": 90}
"""What a pod has to request to use so much memory of an H200."""


def as_service(job: Job) -> Job:
    """Return the service that a user might run instead: of the lowest priority, and without an end of its own."""
    return replace(job, priority=LOWEST, service=True, run_seconds=SERVICE_SECONDS)


def random_job(rng: random.Random, name: str, *, big_gpus: int, all_gpus: int) -> Job:
    """A job of any kind. `big_gpus`: of the largest H200 node; `all_gpus`: of all H200 nodes."""
    notes: dict[str, str] = {}
    share = rng.choice([5, 10, 26, 33, 40, 41, 50, 51, 60, 75, 100, 100 * min(2, big_gpus)])
    size = rng.choice([1, 1, 1, 1, 2, 3])
    if size > 1:
        size, share = min(size, all_gpus), min(share, 100)
    kind = rng.random()
    feasible = True
    if kind < 0.25:
        notes[names.GPU_MEMORY] = rng.choice(["4Gi", "30Gi", "70Gi", "120Gi"])
        share = max(share, LEAST_SHARES[notes[names.GPU_MEMORY]])
    elif kind < 0.5 and share <= 100:
        upper = float(rng.choice([share, min(share + 20, 100)]))
        notes[names.PREDICTION] = builders.prediction(h200=(upper, 20_000, 50), t4=(min(2 * upper, 100.0), 9_000, 80))
    elif kind < 0.54:
        notes[rng.choice([names.GPU_MODELS])] = "NVIDIA-A100"
        feasible = False
    if rng.random() < 0.2:
        notes[names.WORKLOAD_TYPE] = "Inference"
    if rng.random() < 0.15:
        notes[names.SUSPECT_SECONDS] = rng.choice(["1", "5", "30"])
    return Job(
        name=name,
        namespace=rng.choice(NAMESPACES),
        share=share,
        notes=notes,
        priority=rng.choice([0, 0, 0, 5, 10]),
        size=size,
        run_seconds=round(rng.uniform(1.0, 20.0), 1),
        tracked=rng.random() < 0.3,
        feasible=feasible,
    )
