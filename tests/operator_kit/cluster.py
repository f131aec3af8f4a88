"""The operator in a cluster in memory, step by step. Nothing sleeps and nothing runs by itself."""

import copy
from collections.abc import Callable, Mapping
from typing import Any, Final

from cotenant_api import dljob, names
from cotenant_api.names import GPUUID
from cotenant_operator import labels
from cotenant_operator.kube import api
from cotenant_operator.loop import controller
from cotenant_operator.loop.clock import Clock
from cotenant_operator.state.kinds import LABELLED, Kind
from cotenant_operator.state.store import Store
from cotenant_operator.watches import handlers, resync
from operator_kit import ends, neighbours, objects, parsing, quotas, successes
from operator_kit.server import Crashed, Server, Time, Watched

Json = dict[str, Any]

_KINDS: Final[Mapping[str, Kind]] = {
    "dljobs": Kind.DLJOB,
    "packingpolicies": Kind.POLICY,
    "gpunodes": Kind.GPU_NODE,
    "jobs": Kind.JOB,
    "deployments": Kind.DEPLOYMENT,
    "services": Kind.SERVICE,
    "pods": Kind.POD,
    "resourcequotas": Kind.RESOURCE_QUOTA,
}


class Cluster(ends.Ends, neighbours.Neighbours, successes.Successes):
    """A control plane in memory and one operator.

    Attributes:
        delivered: how many of the server's watch events the operator has been told or has lost.
        room: how many pods have room on GPUs; None: all.
        down_seconds: how long it takes after a crash until the operator is there again.
    """

    def __init__(self, parser: parsing.Inline | None = None, *, urgent_seconds: float = 0) -> None:
        # By default every change of a status is seen, without waiting for the next second.
        self.urgent_seconds = urgent_seconds
        self.parser = parser or parsing.Inline()
        self.time = Time()
        self.server = Server(self.time)
        self.delivered = self.down_seconds = 0
        self.room: int | None = None
        self.label_keys: frozenset[str] = frozenset()
        self.told: dict[str, tuple[int, bool]] = {}
        self.restart()

    def restart(self) -> None:
        """Another operator process in the place of the former; it knows nothing until `start`."""
        self.server.writes.clear()
        self.client = api.API(self.server)
        self.store = Store(copied=self.label_keys)
        clock = Clock(now=self.time.now, monotonic=self.time.monotonic)
        self.work = controller.Controller(
            store=self.store,
            client=self.client,
            parser=self.parser,
            clock=clock,
            options=controller.Options(urgent_seconds=self.urgent_seconds),
        )
        self.sweeper = resync.Sweeper(self.client, self.store, enqueue=self.work.enqueue)

    async def start(self) -> None:
        """What a process does before its workers begin."""
        await resync.read_all(self.client, self.store)
        self.delivered = len(self.server.watched)
        self.work.enqueue(self.store.keys())

    async def deliver(self, count: int | None = None) -> None:
        """Tell the operator the next watch events; all of them without a count."""
        end = len(self.server.watched) if count is None else min(self.delivered + count, len(self.server.watched))
        for event in self.server.watched[self.delivered : end]:
            await self.tell(event)
        self.delivered = end

    async def tell(self, event: Watched) -> None:
        """Tell the operator one event, if it watches for such."""
        kind = _KINDS.get(event.plural)
        labelled = names.DLJOB_LABEL in (event.object["metadata"].get("labels") or {})
        if kind is None or (kind in LABELLED and not labelled and event.type == "ADDED"):
            return
        # A watch by label tells of an object that has it no longer as of one that is deleted, once.
        uid, version = event.object["metadata"]["uid"], int(event.object["metadata"]["resourceVersion"])
        newest, was_labelled = self.told.get(uid, (0, True))
        if kind in LABELLED and not labelled and not was_labelled and version > newest and event.type != "DELETED":
            return
        if version > newest:
            self.told[uid] = version, labelled
        told = "DELETED" if kind in LABELLED and not labelled else event.type
        take_in = handlers.handler(kind, self.work, self.sweeper)
        await take_in(event={"type": told, "object": copy.deepcopy(event.object)})

    def lose(self, count: int) -> None:
        """Lose the next watch events."""
        self.delivered = min(self.delivered + count, len(self.server.watched))

    async def relist(self) -> None:
        """What happens after a watch was lost: every object is listed again, and what is gone is swept."""
        self.delivered = len(self.server.watched)
        for plural, kind in _KINDS.items():
            for value in self.server.all(plural):
                await self.tell(Watched(plural, "ADDED", value))
            self.sweeper.want(kind)
        await self.sweeper.sweep_wanted()

    async def step(self) -> bool:
        """Let a worker look at one DLJob that is due; a crash starts another process."""
        try:
            return await self.work.process_due()
        except Crashed:
            self.time.seconds += self.down_seconds
            self.restart()
            await self.start()
            return True

    async def settle(self) -> None:
        """Deliver and work until nothing is due at this time."""
        while True:
            await self.deliver()
            if not await self.step():
                return

    async def work_without_events(self) -> None:
        """Work until nothing is due, without telling the operator anything but new DLJobs."""
        for event in self.server.watched[self.delivered :]:
            if event.plural == "dljobs":
                await self.tell(event)
        self.delivered = len(self.server.watched)
        while await self.step():
            continue

    async def advance(self, seconds: float) -> None:
        """Let time pass, then settle."""
        self.time.seconds += seconds
        await self.settle()

    async def run(self, *steps: str) -> None:
        """Settle after each step of the other programs, by their names below."""
        await self.settle()
        for step in steps:
            getattr(self, step)()
            await self.settle()

    def apply(self, value: Json, *, plural: str = "dljobs") -> Json:
        """Create an object as a user does."""
        new = plural == "dljobs" and "status" not in value
        unobserved = {"observedGeneration": dljob.NEVER_OBSERVED} if new else {}
        return self.server.put(plural, value, **unobserved)

    def set_policy(self, **spec: Any) -> None:
        """Write another specification into the PackingPolicy, as an admin does."""
        self.server.change("packingpolicies", "default", lambda value: value.update(spec=spec), namespace="")

    def dljob(self, name: str = "train") -> Json:
        """A DLJob as it stands."""
        return self.server.find("dljobs", name) or {}

    def condition(self, condition_type: str, *, name: str = "train") -> Json:
        """A condition of a DLJob; empty where it is not there."""
        found = self.dljob(name).get("status", {}).get("conditions", ())
        return next((item for item in found if item["type"] == condition_type), {})

    def events(self) -> list[str]:
        """Reasons of the events that were told, in order."""
        return [event["reason"] for event in self.server.all("events")]

    def attempts(self) -> list[Json]:
        """The Jobs of attempts: extractions have programs of their own; see `operator_kit.extractions`."""
        return [job for job in self.server.all("jobs") if labels.EXTRACTION not in job["metadata"]["labels"]]

    def _members(self) -> list[Json]:
        return [pod for pod in self.server.all("pods") if labels.EXTRACTION not in pod["metadata"].get("labels", {})]

    def create_pods(self) -> None:
        """What the controllers of Jobs and Deployments do: make the pods that are missing."""
        for job in self.attempts():
            if _over(job) or job["spec"].get("suspend") or successes.is_judged(job, self._pods_of(job)):
                continue
            self.server.change("jobs", job["metadata"]["name"], _started(self.time.text()))
            present = {_index(pod) for pod in self._pods_of(job) if pod["status"]["phase"] != "Failed"}
            present |= successes.completed(job)
            indexes = sorted(set(range(job["spec"]["completions"])) - present)
            for index in indexes[: max(job["spec"]["parallelism"] - len(present), 0)]:
                refusal = self._make_pod(job, index)
                if refusal is not None:
                    quotas.tell(self.server, job, refusal, time=self.time.text())
        for deployment in self.server.all("deployments"):
            missing = deployment["spec"]["replicas"] - len(self._pods_of(deployment))
            refusals = [self._make_pod(deployment, None) for _ in range(missing)]
            refusal = next((words for words in refusals if words is not None), None)
            self._say_of_replicas(deployment, refusal)

    def _say_of_replicas(self, deployment: Json, refusal: str | None) -> None:
        done = all(_is_of_template(pod, deployment) for pod in self._pods_of(deployment))
        quotas.fail_replicas(self.server, deployment, refusal, time=self.time.text(), rolled_out=done)

    def stop_suspended(self) -> None:
        """What the controllers do with the pods of suspended Jobs and of replicas too many."""
        for job in self.attempts():
            if job["spec"].get("suspend") and not _over(job) and not successes.is_judged(job, self._pods_of(job)):
                self.server.change("jobs", job["metadata"]["name"], _stopped)
            for pod in self._pods_of(job):
                if job["spec"].get("suspend") and pod["status"]["phase"] in ("Pending", "Running"):
                    self.server.delete("pods", pod["metadata"]["name"])
        for deployment in self.server.all("deployments"):
            for pod in self._pods_of(deployment)[deployment["spec"]["replicas"] :]:
                self.server.delete("pods", pod["metadata"]["name"])

    def roll_out(self) -> None:
        """What the Deployment controller does: take away the pods of former templates."""
        for deployment in self.server.all("deployments"):
            for pod in self._pods_of(deployment):
                if not _is_of_template(pod, deployment):
                    self.server.delete("pods", pod["metadata"]["name"])

    def surge(self) -> None:
        """What the Deployment controller does by a strategy: make present pods, some beyond `replicas`."""
        for deployment in self.server.all("deployments"):
            replicas, pods = deployment["spec"]["replicas"], self._pods_of(deployment)
            present = sum(_is_of_template(pod, deployment) for pod in pods)
            room = replicas + _strategy(deployment)[0] - len(pods)
            refusals = [self._make_pod(deployment, None) for _ in range(min(replicas - present, room))]
            if refusals:
                refusal = next((words for words in refusals if words is not None), None)
                self._say_of_replicas(deployment, refusal)

    def see_deployments(self) -> None:
        """What the Deployment controller does first where the replicas changed, too: it says so, and makes nothing."""

        def see(deployment: Json) -> None:
            deployment.setdefault("status", {})["observedGeneration"] = deployment["metadata"]["generation"]

        for deployment in self.server.all("deployments"):
            self.server.change("deployments", deployment["metadata"]["name"], see)

    def retire(self) -> None:
        """And take former ones away, as far as enough are available."""
        for deployment in self.server.all("deployments"):
            pods = [pod for pod in self._pods_of(deployment) if "deletionTimestamp" not in pod["metadata"]]
            former = [pod for pod in pods if not _is_of_template(pod, deployment)]
            available = sum(pod["status"]["phase"] == "Running" for pod in pods)
            for pod in sorted(former, key=lambda pod: pod["status"]["phase"] == "Running"):
                runs = pod["status"]["phase"] == "Running"
                if not runs or available > deployment["spec"]["replicas"] - _strategy(deployment)[1]:
                    self.server.delete("pods", pod["metadata"]["name"])
                    available -= runs

    def take_labels(self) -> None:
        """Somebody takes our label away from every Job and Deployment."""
        self._label(None)

    def put_labels(self) -> None:
        """Somebody puts it back."""
        self._label(names.DLJOB_LABEL)

    def _label(self, name: str | None) -> None:
        for plural in ("jobs", "deployments"):
            for value in self.server.all(plural):
                metadata = value["metadata"]
                kept = {key: text for key, text in metadata["labels"].items() if key != names.DLJOB_LABEL}
                found = {**kept, **({name: metadata["ownerReferences"][0]["name"]} if name else {})}
                self.server.change(plural, metadata["name"], _with_labels(found))

    def count_quota(self) -> None:
        """What the quota controller does: count the pods that have not ended."""
        quotas.recount(self.server)

    def count_pods(self) -> None:
        """What the Job controller does at the end of a sync, later than what it does to pods: count them."""
        for job in self.attempts():
            living = sum(pod["status"]["phase"] in ("Pending", "Running") for pod in self._pods_of(job))
            if job.get("status", {}).get("active", 0) != living:
                self.server.change("jobs", job["metadata"]["name"], _active(living))

    def reap(self) -> None:
        """What kubelets do: end the pods that are being deleted."""
        self.server.reap()

    def place(self, *, gpu: GPUUID = objects.GPU) -> None:
        """What the extender does: bind every pod that waits."""
        for pod in self._members():
            bound = sum(bool(other["spec"].get("nodeName")) for other in self._members())
            if not pod["spec"].get("nodeName") and (self.room is None or bound < self.room):
                self.place_pod(pod, gpu=gpu)
            elif not pod["spec"].get("nodeName"):
                self.server.change("pods", pod["metadata"]["name"], _full)

    def place_pod(self, pod: Json, *, gpu: GPUUID = objects.GPU) -> None:
        """Bind one pod."""
        self.server.change("pods", pod["metadata"]["name"], lambda value: _bind(value, gpu, self.time.text()))

    def run_pods(self) -> None:
        """What kubelets do: start every pod that is bound."""
        for pod in self._members():
            if pod["spec"].get("nodeName") and pod["status"]["phase"] == "Pending":
                self.server.change("pods", pod["metadata"]["name"], _run)
        for deployment in self.server.all("deployments"):
            pods = self._pods_of(deployment)
            ready = sum(pod["status"]["phase"] == "Running" for pod in pods)
            updated = sum(_is_of_template(pod, deployment) for pod in pods)
            edit = _counted(ready, updated=updated, total=len(pods))
            self.server.change("deployments", deployment["metadata"]["name"], edit)

    def hinder(self) -> None:
        """What kubelets do where an image cannot be pulled: go on trying to start pods that are bound."""
        for pod in self._members():
            if pod["spec"].get("nodeName") and pod["status"]["phase"] == "Pending":
                self.server.change("pods", pod["metadata"]["name"], _hinder)

    def succeed(self) -> None:
        """Every running pod succeeds, and the Jobs of which all did are complete."""
        for job in self.attempts():
            pods = self._pods_of(job)
            for pod in pods:
                if pod["status"]["phase"] == "Running":
                    self.server.change("pods", pod["metadata"]["name"], _end("Succeeded"))
            if pods and not _over(job) and all(pod["status"]["phase"] != "Pending" for pod in pods):
                self.end_job(job["metadata"]["name"], "Complete", reason=successes.reason(job))

    def fail(self) -> None:
        """One pod of every Job that runs fails, and its Job with it; the other pods are ended."""
        for job in self.attempts():
            if _over(job) or successes.is_met(job):
                continue
            for pod in self._pods_of(job):
                self.server.change("pods", pod["metadata"]["name"], _end("Failed"))
            self.end_job(job["metadata"]["name"], "Failed", reason="BackoffLimitExceeded")

    def end_job(self, name: str, condition: str, *, reason: str) -> None:
        """What the Job controller writes at the end."""
        time = self.time.text()
        item = {"type": condition, "status": "True", "reason": reason, "message": "", "lastTransitionTime": time}

        def edit(value: Json) -> None:
            kept = [one for one in value.get("status", {}).get("conditions", ()) if one["type"] != condition]
            value["status"] = {**value.get("status", {}), "conditions": [*kept, item], "terminating": 0}

        self.server.change("jobs", name, edit)

    def enforce_deadlines(self) -> None:
        """What the Job controller does with Jobs that have a deadline."""
        for job in self.attempts():
            if job["spec"].get("activeDeadlineSeconds") and not _over(job) and not successes.is_met(job):
                for pod in self._pods_of(job):
                    self.server.delete("pods", pod["metadata"]["name"])
                self.end_job(job["metadata"]["name"], "Failed", reason="DeadlineExceeded")

    def _pods_of(self, owner: Json) -> list[Json]:
        uid = owner["metadata"]["uid"]
        return [pod for pod in self.server.all("pods") if pod["metadata"]["ownerReferences"][0]["uid"] == uid]

    def _make_pod(self, owner: Json, index: int | None) -> str | None:
        template = owner["spec"]["template"]
        notes = dict(template["metadata"]["annotations"])
        if index is not None:
            notes[labels.COMPLETION_INDEX] = str(index)
        count = len(self.server.watched)
        metadata = {
            "name": f"{owner['metadata']['name']}-{0 if index is None else index}-{count}",
            "namespace": owner["metadata"]["namespace"],
            "labels": template["metadata"]["labels"],
            "annotations": notes,
            "ownerReferences": [{"uid": owner["metadata"]["uid"], "controller": True}],
        }
        pod = {"metadata": metadata, "spec": dict(template["spec"])}
        refusal = quotas.refuse(self.server, pod)
        if refusal is None:
            self.server.put("pods", pod, phase="Pending")
        return refusal


def _is_of_template(pod: Json, deployment: Json) -> bool:
    wanted = deployment["spec"]["template"]["metadata"]["annotations"].items()
    return bool(wanted <= pod["metadata"]["annotations"].items())


def _strategy(deployment: Json) -> tuple[int, int]:
    """`maxSurge` and `maxUnavailable`; by default a quarter, rounded up and down."""
    replicas, found = (
        deployment["spec"]["replicas"],
        (deployment["spec"].get("strategy") or {}).get("rollingUpdate", {}),
    )
    return found.get("maxSurge", -(-replicas // 4)), found.get("maxUnavailable", replicas // 4)


def _full(pod: Json) -> None:
    said = {"type": names.PACKED, "status": "False", "reason": "InsufficientShare", "message": "no GPU has 100 left"}
    kept = [item for item in pod["status"].get("conditions", ()) if item["type"] != names.PACKED]
    pod["status"] = {**pod["status"], "conditions": [*kept, said]}


def _over(job: Json) -> bool:
    return any(item["type"] in ("Complete", "Failed") for item in job.get("status", {}).get("conditions", ()))


def _with_labels(found: Json) -> Callable[[Json], None]:
    return lambda value: value["metadata"].update(labels=found)


def _started(time: str) -> Any:
    def edit(job: Json) -> None:
        job["status"] = {"startTime": time, **job.get("status", {})}
        _suspended(job, present=False)

    return edit


def _stopped(job: Json) -> None:
    job.setdefault("status", {}).pop("startTime", None)
    _suspended(job, present=True)


def _suspended(job: Json, *, present: bool) -> None:
    others = [item for item in job["status"].get("conditions", ()) if item["type"] != "Suspended"]
    if present or len(others) < len(job["status"].get("conditions", ())):
        job["status"]["conditions"] = [*others, *([{"type": "Suspended", "status": "True"}] if present else ())]


def _active(count: int) -> Callable[[Json], None]:
    return lambda job: job.update(status={**job.get("status", {}), "active": count})


def _index(pod: Json) -> int:
    return int(pod["metadata"]["annotations"][labels.COMPLETION_INDEX])


def _bind(pod: Json, gpu: GPUUID, time: str) -> None:
    pod["spec"] = {**pod["spec"], "nodeName": str(objects.NODE), "schedulingGates": []}
    pod["metadata"]["annotations"][names.PLACEMENT] = objects.placed_on(pod, gpu=gpu)
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": time}
    pod["status"] = {**pod["status"], "conditions": [scheduled]}


def _run(pod: Json) -> None:
    conditions = [*pod["status"].get("conditions", ()), {"type": "Ready", "status": "True"}]
    running = [{"name": "main", "state": {"running": {}}}]
    pod["status"] = {**pod["status"], "phase": "Running", "conditions": conditions, "containerStatuses": running}


def _hinder(pod: Json) -> None:
    state = {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}}
    pod["status"] = {**pod["status"], "containerStatuses": [{"name": "main", "state": state}]}


def _end(phase: str) -> Any:
    def edit(pod: Json) -> None:
        kept = [item for item in pod["status"].get("conditions", ()) if item["type"] != "Ready"]
        pod["status"] = {**pod["status"], "phase": phase, "conditions": kept}
        if phase == "Failed":
            ended = {"terminated": {"exitCode": 1, "reason": "Error"}}
            pod["status"]["containerStatuses"] = [{"name": "main", "state": ended}]

    return edit


def _counted(ready: int, *, updated: int, total: int) -> Any:
    def edit(value: Json) -> None:
        value["status"] = {
            **value.get("status", {}),
            "observedGeneration": value["metadata"]["generation"],
            "availableReplicas": ready,
            "updatedReplicas": updated,
            "replicas": total,
        }

    return edit
