"""Gangs that have succeeded before all of their members have: what the Job controller does by `successPolicy`.

As kube-controller-manager 1.36: a sync that finds the policy met deletes the other pods first, and writes the condition
SuccessCriteriaMet after that; Complete follows when no pod is left. A failure that the same sync finds comes first.
"""

from collections.abc import Callable, Iterable
from typing import Any

from cotenant_api import success
from cotenant_operator import labels
from operator_kit.server import Server, Time

Json = dict[str, Any]


class Successes:
    """Programs of `Cluster`."""

    server: Server
    time: Time

    def lead(self) -> None:
        """The first member of every gang that runs has done its work, and ends with 0."""
        for job in self.attempts():
            for pod in self._pods_of(job):
                if job["spec"]["completions"] > 1 and _index(pod) == 0 and pod["status"]["phase"] == "Running":
                    self.server.change("pods", pod["metadata"]["name"], _succeeded)

    def judge(self) -> None:
        """What the Job controller does in one sync: delete the others, then write SuccessCriteriaMet."""
        self.delete_others()
        for job in self.attempts():
            if is_judged(job, self._pods_of(job)) and not is_met(job):
                self.server.change("jobs", job["metadata"]["name"], _met(self.time.text(), self._pods_of(job)))

    def delete_others(self) -> None:
        """The first half of that: the condition is not written yet."""
        for job in self.attempts():
            for pod in self._pods_of(job) if is_judged(job, self._pods_of(job)) else ():
                if pod["status"]["phase"] in ("Pending", "Running"):
                    self.server.delete("pods", pod["metadata"]["name"])

    def conclude(self) -> None:
        """A Job of which the policy is met is complete when no pod of it lives."""
        for job in self.attempts():
            living = any(pod["status"]["phase"] in ("Pending", "Running") for pod in self._pods_of(job))
            if is_met(job) and not living:
                self.end_job(job["metadata"]["name"], "Complete", reason="SuccessPolicy")

    def attempts(self) -> list[Json]:
        """The Jobs of attempts."""
        raise NotImplementedError

    def end_job(self, name: str, condition: str, *, reason: str) -> None:
        """What the Job controller writes at the end."""
        raise NotImplementedError

    def _pods_of(self, owner: Json) -> list[Json]:
        raise NotImplementedError


def is_met(job: Json) -> bool:
    """Whether a Job has the condition SuccessCriteriaMet, and is not over."""
    types = {item["type"] for item in job.get("status", {}).get("conditions", ())}
    return "SuccessCriteriaMet" in types and not types & {"Complete", "Failed"}


def is_judged(job: Json, pods: Iterable[Json]) -> bool:
    """Whether a sync ends a Job by its policy: the policy is met, and nothing has failed."""
    if is_met(job):
        return True
    over = {item["type"] for item in job.get("status", {}).get("conditions", ())} & {"Complete", "Failed"}
    policy, own = job["spec"].get("successPolicy"), list(pods)
    failed = any(pod["status"]["phase"] == "Failed" and not _is_disrupted(pod) for pod in own)
    if policy is None or over or failed or job["spec"].get("activeDeadlineSeconds"):
        return False
    done = completed(job) | {_index(pod) for pod in own if pod["status"]["phase"] == "Succeeded"}
    return success.is_met(success.SuccessPolicy.model_validate(policy), done)


def completed(job: Json) -> frozenset[int]:
    """Indexes that are counted as done."""
    return success.indexes(job.get("status", {}).get("completedIndexes", ""))


def reason(job: Json) -> str:
    """Why a Job is complete of which every member has succeeded: its policy is looked at first."""
    return "SuccessPolicy" if "successPolicy" in job["spec"] else "CompletionsReached"


def _index(pod: Json) -> int:
    return int(pod["metadata"]["annotations"][labels.COMPLETION_INDEX])


def _is_disrupted(pod: Json) -> bool:
    return any(item["type"] == "DisruptionTarget" for item in pod["status"].get("conditions", ()))


def _succeeded(pod: Json) -> None:
    kept = [item for item in pod["status"].get("conditions", ()) if item["type"] != "Ready"]
    pod["status"] = {**pod["status"], "phase": "Succeeded", "conditions": kept}


def _met(time: str, pods: Iterable[Json]) -> Callable[[Json], None]:
    done = {_index(pod) for pod in pods if pod["status"]["phase"] == "Succeeded"}

    def edit(job: Json) -> None:
        status = job.get("status", {})
        counted = ",".join(map(str, sorted(completed(job) | done)))
        met = {"type": "SuccessCriteriaMet", "status": "True", "reason": "SuccessPolicy", "lastTransitionTime": time}
        job["status"] = {**status, "completedIndexes": counted, "conditions": [*status.get("conditions", ()), met]}

    return edit
