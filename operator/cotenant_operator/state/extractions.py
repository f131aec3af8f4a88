"""What the operator keeps of extractions: their Jobs and pods, which are no attempts of the DLJob. Pure."""

from dataclasses import dataclass, field

from cotenant_api import conditions, names
from cotenant_operator import labels
from cotenant_operator.state import reading, texts, views
from cotenant_operator.state.kinds import Kind


@dataclass(frozen=True, kw_only=True, slots=True)
class ExtractionJob:
    """The Job that extracts a graph.

    Attributes:
        digest: of what it runs; see `graphs.extraction`.
        number: which try it is, from 1.
        complete, failed: its terminal condition.
        terminating: pods of it that are still being ended.
    """

    meta: views.Meta
    digest: str
    number: int
    suspended: bool
    complete: conditions.Condition | None
    failed: conditions.Condition | None
    terminating: int

    @property
    def finished(self) -> bool:
        """Whether no pod of it will do anything more."""
        return (self.complete is not None or self.failed is not None) and self.terminating == 0


@dataclass(frozen=True, kw_only=True, slots=True)
class ExtractionPod:
    """A pod of such a Job.

    Attributes:
        dljob_uid: the UID of the DLJob that it was made for, from its label.
        started: whether its container has ever run.
        exit_code: of its container; None where it has not ended.
        words: what the container, the kubelet or the scheduler says last.
    """

    meta: views.Meta
    dljob_uid: str
    phase: str
    started: bool
    exit_code: int | None
    words: str


@dataclass(frozen=True, slots=True)
class Extractions:
    """Every such Job and pod, by DLJob and UID: a part of the store."""

    jobs: dict[views.Key, dict[str, ExtractionJob]] = field(default_factory=dict)
    pods: dict[views.Key, dict[str, ExtractionPod]] = field(default_factory=dict)

    def take(self, kind: Kind, key: views.Key, value: views.Object, count: views.Count) -> bool:
        """Take in an object; whether it is one of these."""
        if kind not in (Kind.JOB, Kind.POD) or not is_extraction(value):
            return False
        uid = value["metadata"]["uid"]
        if kind is Kind.JOB:
            taken = job(value)
            count(taken.meta, taken)
            self.jobs.setdefault(key, {})[uid] = taken
        else:
            seen = pod(value)
            count(seen.meta, seen)
            self.pods.setdefault(key, {})[uid] = seen
        return True

    def drop(self, key: views.Key, uid: str) -> None:
        """Forget an object, if it is one of these."""
        for found in (self.jobs, self.pods):
            inner: dict[str, ExtractionJob] | dict[str, ExtractionPod] = found.get(key, {})
            if inner.pop(uid, None) is not None and not inner:
                del found[key]

    def jobs_of(self, key: views.Key, dljob_uid: str) -> tuple[ExtractionJob, ...]:
        """Return the Jobs that a DLJob owns, by try."""
        owned = (each for each in self.jobs.get(key, {}).values() if each.meta.owner_uid == dljob_uid)
        return tuple(sorted(owned, key=lambda each: each.number))

    def pods_of(self, key: views.Key, dljob_uid: str) -> tuple[ExtractionPod, ...]:
        """Return the pods that were made for a DLJob."""
        return tuple(each for each in self.pods.get(key, {}).values() if each.dljob_uid == dljob_uid)


def is_extraction(value: views.Object) -> bool:
    """Return whether a Job or pod belongs to an extraction, and not to an attempt."""
    return labels.EXTRACTION in (value["metadata"].get("labels") or {})


def job(value: views.Object) -> ExtractionJob:
    """Return a batch/v1 Job of an extraction."""
    status = value.get("status") or {}
    ends = {item["type"]: item for item in status.get("conditions") or () if item["status"] == "True"}
    return ExtractionJob(
        meta=reading.meta(value),
        digest=reading.label(value, labels.EXTRACTION),
        number=texts.number(reading.label(value, labels.EXTRACTION_NUMBER)),
        suspended=bool(value["spec"].get("suspend")),
        complete=reading.condition(ends.get("Complete")),
        failed=reading.condition(ends.get("Failed")),
        terminating=status.get("terminating") or 0,
    )


def pod(value: views.Object) -> ExtractionPod:
    """Return a pod of an extraction."""
    status = value.get("status") or {}
    found = {each["name"]: each.get("state") or {} for each in status.get("containerStatuses") or ()}
    state: views.Object = found.get(labels.EXTRACTION_CONTAINER, {})
    ended: views.Object = state.get("terminated") or {}
    return ExtractionPod(
        meta=reading.meta(value),
        dljob_uid=reading.label(value, names.DLJOB_UID_LABEL),
        phase=status.get("phase", "Pending"),
        started="running" in state or bool(ended.get("startedAt")),
        exit_code=ended.get("exitCode"),
        words=_words(status, state),
    )


def _words(status: views.Object, state: views.Object) -> str:
    """Return the container's last lines; else why it waits or ended; else what is said of the whole pod."""
    ended, waiting = state.get("terminated") or {}, state.get("waiting") or {}
    conditions_of = status.get("conditions") or ()
    scheduled: views.Object = next((each for each in conditions_of if each["type"] == "PodScheduled"), {})
    unscheduled = scheduled if scheduled.get("status") == "False" else {}
    for said in (ended, waiting, status, unscheduled):
        reason, message = said.get("reason") or "", (said.get("message") or "").strip()
        if message or reason:
            plain = said is ended and reason in ("Error", "Completed", "")
            return message if plain else ": ".join(filter(None, (reason, message)))
    return ""
