"""Other controllers that write into our Jobs and Deployments what they are there for: Kueue and autoscalers."""

from typing import Any

from cotenant_operator import labels
from operator_kit.server import Server

Json = dict[str, Any]
QUEUE = "kueue.x-k8s.io/queue-name"
SCALED = 3


class Neighbours:
    """What they do to a cluster, on their own account."""

    server: Server

    def attempts(self) -> list[Json]:
        """The Jobs of attempts."""
        raise NotImplementedError

    def admit(self) -> None:
        """What Kueue does: resume what it manages, and whoever suspended a Job resumes it."""
        for job in self.attempts():
            if job["spec"].get("suspend") and _is_anothers(job):
                self._suspend(job, suspend=False)

    def hold(self) -> None:
        """What Kueue does with Jobs that name no queue, and people by hand: suspend what runs."""
        for job in self.attempts():
            if not job["spec"].get("suspend") and not _over(job):
                self._suspend(job, suspend=True)

    def autoscale(self) -> None:
        """What a HorizontalPodAutoscaler does: as many replicas as it thinks right, unless there are none."""
        for deployment in self.server.all("deployments"):
            if deployment["spec"]["replicas"] not in (0, SCALED):
                self.server.change("deployments", deployment["metadata"]["name"], _scaled)

    def name_queue(self, name: str, queue: str | None) -> None:
        """What a user does: put a DLJob into a queue of Kueue, or take it out."""
        if self.server.find("dljobs", name) is not None:
            self.server.change("dljobs", name, lambda value: _label(value, queue))

    def _suspend(self, job: Json, *, suspend: bool) -> None:
        self.server.change("jobs", job["metadata"]["name"], lambda value: value["spec"].update(suspend=suspend))


def _is_anothers(job: Json) -> bool:
    notes = job["metadata"].get("annotations", {})
    return QUEUE in job["metadata"]["labels"] or notes.get(labels.SUSPEND) == "false"


def _over(job: Json) -> bool:
    ends = ("Complete", "Failed")
    return any(item["type"] in ends for item in job.get("status", {}).get("conditions", ()))


def _scaled(deployment: Json) -> None:
    deployment["spec"]["replicas"] = SCALED


def _label(dljob: Json, queue: str | None) -> None:
    kept = {key: text for key, text in dljob["metadata"].get("labels", {}).items() if key != QUEUE}
    dljob["metadata"]["labels"] = {**kept, **({QUEUE: queue} if queue else {})}
