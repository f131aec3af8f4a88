"""How pods end other than well, step by step: what kubelets, the Job controller and node agents write then."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from cotenant_api import gpunode
from cotenant_operator import labels
from operator_kit import objects, successes
from operator_kit.server import Server, Time

Json = dict[str, Any]

CUDA: Final = (
    "Traceback (most recent call last):\n"
    '  File "train.py", line 9, in <module>\n'
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 2.04 GiB\n"
)
STRANGER: Final = "uid-of-a-stranger"
OVERUSE: Final = gpunode.EvictionReason.MEMORY_OVERUSE.value


class Ends:
    """Programs of `Cluster`: each ends what runs or waits at that moment, and lets the Job controller count."""

    server: Server
    time: Time

    def run_out_of_memory(self) -> None:
        """Every running pod prints a CUDA error and fails."""
        self._end(_running, lambda pod: _terminated(pod, exitCode=1, reason="Error", message=CUDA))

    def outgrow(self) -> None:
        """Every running pod of a Deployment prints a CUDA error, and its kubelet starts the container again."""
        for pod in self._servers():
            if _running(pod):
                ended = {"exitCode": 1, "reason": "Error", "message": CUDA}
                state = {"name": "main", "state": {"running": {}}, "lastState": {"terminated": ended}}
                self.server.change("pods", pod["metadata"]["name"], _with_container(state))

    def evict_servers(self) -> None:
        """Every running pod of a Deployment is evicted by the Eviction API."""
        target = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
        for pod in self._servers():
            if _running(pod):
                self.server.change("pods", pod["metadata"]["name"], _with_condition(target))
                self.server.delete("pods", pod["metadata"]["name"])

    def disrupt(self, reason: str = "EvictionByEvictionAPI") -> None:
        """Every running pod of a Job is taken away: it is asked to end, and runs until it has."""
        target = {"type": "DisruptionTarget", "status": "True", "reason": reason}
        for pod in self._jobs_pods():
            if _running(pod):
                self.server.change("pods", pod["metadata"]["name"], _with_condition(target))
                self.server.delete("pods", pod["metadata"]["name"])

    def remove_pods(self) -> None:
        """Somebody deletes every running pod of a Job: no condition says so, and it runs until it has ended."""
        for pod in self._jobs_pods():
            if _running(pod):
                self.server.delete("pods", pod["metadata"]["name"])

    def leave(self) -> None:
        """Every pod of a Job that was asked to end does so with 0, is counted as done, and goes."""
        for job in self.attempts():
            own = [pod for pod in self._jobs_pods() if _owner(pod) == job["metadata"]["uid"]]
            for pod in own:
                if pod["status"]["phase"] == "Running" and "deletionTimestamp" in pod["metadata"]:
                    name = pod["metadata"]["name"]
                    self.server.change("pods", name, lambda value: _left(value, self.time.text()))
                    self.server.change("jobs", job["metadata"]["name"], _completed(pod))
                    self.server.delete("pods", name)
            now = self.server.find("jobs", job["metadata"]["name"]) or {}
            ended = any(item["type"] != "Suspended" for item in now.get("status", {}).get("conditions", ()))
            if len(successes.completed(now)) == job["spec"]["completions"] and not ended:
                self.end_job(job["metadata"]["name"], "Complete", reason=successes.reason(job))

    def finish_work(self) -> None:
        """Every running pod of a Job ends well by itself, and the Job controller has yet to count it."""
        for pod in self._jobs_pods():
            if _running(pod):
                self.server.change("pods", pod["metadata"]["name"], lambda value: _left(value, self.time.text()))

    def drain_ended(self) -> None:
        """Somebody drains the nodes of pods that have ended well: the Eviction API marks these, too, and they go."""
        for job in self.attempts():
            for pod in self._jobs_pods():
                if _owner(pod) == job["metadata"]["uid"] and pod["status"]["phase"] == "Succeeded":
                    self.server.change("jobs", job["metadata"]["name"], _completed(pod))
                    self.server.change("pods", pod["metadata"]["name"], _with_condition(self._eviction()))
                    self.server.delete("pods", pod["metadata"]["name"])

    def _eviction(self) -> Json:
        """The condition that the Eviction API adds."""
        reason = "EvictionByEvictionAPI"
        return {"type": "DisruptionTarget", "status": "True", "reason": reason, "lastTransitionTime": self.time.text()}

    def crash(self) -> None:
        """Every running pod fails by its own doing."""
        self._end(_running, lambda pod: _terminated(pod, exitCode=1, reason="Error", message="ValueError: no data\n"))

    def kill_for_host_memory(self) -> None:
        """The kernel kills every running pod for the host's memory."""
        self._end(_running, lambda pod: _terminated(pod, exitCode=137, reason="OOMKilled"))

    def never_start(self) -> None:
        """Kubelet admits no pod that is bound and has not started."""

        def reject(pod: Json) -> None:
            message = "Pod was rejected: Allocate failed due to no healthy devices present"
            pod["status"] = {**pod["status"], "reason": "UnexpectedAdmissionError", "message": message}

        self._end(_bound, reject)

    def fault(self) -> None:
        """Another tenant breaks the GPU: every running pod of a Job on it fails, and its agent names them."""
        victims = [pod["metadata"]["uid"] for pod in self._jobs_pods() if _running(pod)]
        fault = {"id": f"f{len(self.server.watched)}", "time": self.time.text(), "xid": 31}
        named = {**fault, "culpritPodUID": STRANGER, "victimPodUIDs": victims}
        self.server.change("gpunodes", objects.NODE, lambda node: _with_fault(node, named), namespace="")
        self._end(_running, lambda pod: _terminated(pod, exitCode=1, reason="Error", message="CUDA error: unknown\n"))

    def fault_of_unknown_cause(self) -> None:
        """Somebody breaks the GPU, a stranger or not: every pod of a Job on it fails, and servers start again."""
        hit = [pod["metadata"]["uid"] for pod in self.server.all("pods") if _running(pod)]
        fault = {"id": f"f{len(self.server.watched)}", "time": self.time.text(), "xid": 31}
        named = {**fault, "victimPodUIDs": [*hit, STRANGER], "suspectPodUIDs": [*hit, STRANGER]}
        self.server.change("gpunodes", objects.NODE, lambda node: _with_fault(node, named), namespace="")
        self._end(_running, lambda pod: _terminated(pod, exitCode=1, reason="Error", message="CUDA error: unknown\n"))

    def fault_alone(self) -> None:
        """Every running pod of a Job breaks the GPU that it has to itself, and is named for it."""
        (culprit,) = (pod["metadata"]["uid"] for pod in self._jobs_pods() if _running(pod))
        named = {"id": f"f{len(self.server.watched)}", "time": self.time.text(), "culpritPodUID": culprit}
        self.server.change("gpunodes", objects.NODE, lambda node: _with_fault(node, named), namespace="")
        self._end(_running, lambda pod: _terminated(pod, exitCode=1, reason="Error", message="CUDA error: unknown\n"))

    def evict(self) -> None:
        """Every running pod of a Job is evicted by the Eviction API."""

        def disrupt(pod: Json) -> None:
            _terminated(pod, exitCode=143, reason="Error")
            target = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
            pod["status"]["conditions"] = [*pod["status"].get("conditions", ()), target]

        self._end(_running, disrupt)

    def use_more(self) -> None:
        """The agent publishes that every running pod uses more GPU memory than was booked."""
        running = [pod["metadata"]["uid"] for pod in self.server.all("pods") if _running(pod)]
        ended = [{"podUID": uid, "memoryPeakMiB": 6000, "time": self.time.text()} for uid in running]
        self.server.change(
            "gpunodes", objects.NODE, lambda node: node["status"]["gpus"][0].update(ended=ended), namespace=""
        )

    def overuse(self) -> None:
        """The agent wants every running pod evicted, for it uses too much GPU memory."""
        running = [pod["metadata"]["uid"] for pod in self.server.all("pods") if _running(pod)]

        def ask(node: Json) -> None:
            gpu = node["status"]["gpus"][0]
            told = {entry["podUID"]: entry for entry in gpu.get("ended", ())}
            new = {uid: told.get(uid, {"podUID": uid, "time": self.time.text()}) for uid in running}
            gpu["ended"] = [*(told | {uid: {**entry, "evict": OVERUSE} for uid, entry in new.items()}).values()]

        self.server.change("gpunodes", objects.NODE, ask, namespace="")

    def count_failures(self) -> None:
        """What the Job controller does: count failed pods, and give up a Job with too many."""
        for job in self.attempts():
            if any(item["type"] != "Suspended" for item in job.get("status", {}).get("conditions", ())):
                continue
            count = sum(_counts(pod) for pod in self._jobs_pods() if _owner(pod) == job["metadata"]["uid"])
            self.server.change("jobs", job["metadata"]["name"], _failures(count))
            if count > job["spec"]["backoffLimit"]:
                self._give_up(job)

    def end_job(self, name: str, condition: str, *, reason: str) -> None:
        """What the Job controller writes at the end."""
        raise NotImplementedError

    def attempts(self) -> list[Json]:
        """The Jobs of attempts."""
        raise NotImplementedError

    def _give_up(self, job: Json) -> None:
        for pod in self._jobs_pods():
            if _owner(pod) == job["metadata"]["uid"] and pod["status"]["phase"] in ("Pending", "Running"):
                self.server.delete("pods", pod["metadata"]["name"])
        self.end_job(job["metadata"]["name"], "Failed", reason="BackoffLimitExceeded")

    def _end(self, which: Callable[[Json], bool], edit: Callable[[Json], None]) -> None:
        for pod in self._jobs_pods():
            if which(pod):
                self.server.change("pods", pod["metadata"]["name"], _failed_by(edit))
        self.count_failures()

    def _servers(self) -> Iterable[Json]:
        owners = {deployment["metadata"]["uid"] for deployment in self.server.all("deployments")}
        return [pod for pod in self.server.all("pods") if _owner(pod) in owners]

    def _jobs_pods(self) -> Iterable[Json]:
        owners = {job["metadata"]["uid"] for job in self.attempts()}
        return [pod for pod in self.server.all("pods") if _owner(pod) in owners]


def _completed(pod: Json) -> Callable[[Json], None]:
    """The Job controller's count of indexes that are done."""
    index = int(pod["metadata"]["annotations"][labels.COMPLETION_INDEX])

    def edit(job: Json) -> None:
        done = sorted({*successes.completed(job), index})
        job["status"] = {**job.get("status", {}), "completedIndexes": ",".join(map(str, done))}

    return edit


def _owner(pod: Json) -> str:
    return str(pod["metadata"]["ownerReferences"][0]["uid"])


def _running(pod: Json) -> bool:
    return bool(pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"])


def _bound(pod: Json) -> bool:
    return bool(pod["status"]["phase"] == "Pending" and pod["spec"].get("nodeName"))


def _counts(pod: Json) -> bool:
    ignored = any(item["type"] == "DisruptionTarget" for item in pod["status"].get("conditions", ()))
    return bool(pod["status"]["phase"] == "Failed" and not ignored)


def _failed_by(edit: Callable[[Json], None]) -> Callable[[Json], None]:
    def change(pod: Json) -> None:
        kept = [item for item in pod["status"].get("conditions", ()) if item["type"] != "Ready"]
        pod["status"] = {**pod["status"], "phase": "Failed", "conditions": kept}
        edit(pod)

    return change


def _with_container(state: Json) -> Callable[[Json], None]:
    return lambda pod: pod.update(status={**pod["status"], "containerStatuses": [state]})


def _with_condition(condition: Json) -> Callable[[Json], None]:
    return lambda pod: pod.update(
        status={**pod["status"], "conditions": [*pod["status"].get("conditions", ()), condition]}
    )


def _terminated(pod: Json, **ended: Any) -> None:
    pod["status"]["containerStatuses"] = [{"name": "main", "state": {"terminated": ended}}]


def _failures(count: int) -> Callable[[Json], None]:
    return lambda job: job.update(status={**job.get("status", {}), "failed": count})


def _with_fault(node: Json, fault: Json) -> None:
    gpus = [{**gpu, "lastFault": fault} for gpu in node["status"]["gpus"]]
    node["status"] = {**node["status"], "gpus": gpus}


def _left(pod: Json, time: str) -> None:
    """Its program ends with 0."""
    ended = [{"name": "main", "state": {"terminated": {"exitCode": 0, "finishedAt": time}}}]
    pod["status"] = {**pod["status"], "phase": "Succeeded", "containerStatuses": ended}
