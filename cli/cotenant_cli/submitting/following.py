"""Follows a DLJob until it has ended: where it stands, and the log of its first replica, as lines for a terminal."""

import contextlib
import http.client
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Protocol

from cotenant_api import errors, names, printable
from cotenant_api.dljob import Phase
from cotenant_cli.reading import answers

POLL_SECONDS: Final = 1.0
SILENCE_SECONDS: Final = 30.0
"""Of a log, until it is looked whether its pod is there still."""
ENDS: Final = frozenset({Phase.SUCCEEDED.value, Phase.FAILED.value})
_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)")
_RUNS: Final = Phase.RUNNING.value

Query = Sequence[tuple[str, str]]


class Source(Protocol):
    """An API server; see `kube.Connection`."""

    def get(self, path: str, query: Query, /) -> tuple[int, Mapping[str, Any]]:
        """Return status and body of an answer. Raises TemporaryError."""
        ...

    def lines(
        self, path: str, query: Query, /, *, silence_seconds: float
    ) -> contextlib.AbstractContextManager[tuple[int, Iterator[bytes]]]:
        """Status and lines of an answer that goes on. Raises TemporaryError: silence."""
        ...


class _UnreadError(Exception):
    """What is told has no reader: its terminal or pipe is closed."""


@dataclass(kw_only=True)
class Follower:
    """Follows one DLJob.

    Args:
        source: of its status and of its pods' logs.
        namespace, name: of the DLJob.
        container: whose log it is.
        uid: of the DLJob; empty: whichever has the name.
        tell: takes a line; False: nobody reads them any more.
        wait: waits so many seconds.
    """

    source: Source
    namespace: str
    name: str
    container: str
    tell: Callable[[str], bool]
    wait: Callable[[float], None]
    uid: str = ""
    _told: str = field(default="", init=False)
    _log: "Log | None" = field(default=None, init=False)

    def run(self) -> bool:
        """Tell what changes until the DLJob has ended, or nobody reads it; return whether it succeeded.

        Raises:
            PermanentError: it is there no more, or may not be read.
        """
        phase = None
        with contextlib.suppress(_UnreadError):
            while phase not in ENDS:
                status = self._status()
                if status is not None:
                    self._tell(status)
                    phase = status.get("phase")
                if phase not in ENDS:
                    self.wait(POLL_SECONDS)
        return bool(phase == Phase.SUCCEEDED.value)

    def say(self, line: str) -> None:
        """Tell a line.

        Raises:
            _UnreadError: nobody reads it.
        """
        if not self.tell(printable.plain(line)):
            raise _UnreadError

    def _status(self) -> Mapping[str, Any] | None:
        """None: there is no answer now."""
        path = f"/apis/{names.API_VERSION}/namespaces/{self.namespace}/dljobs/{self.name}"
        try:
            code, found = self.source.get(path, ())
        except errors.TemporaryError:
            return None
        if answers.passes(code):
            return None
        if code != http.client.OK:
            said = errors.shortened(str(found.get("message", "")))
            raise errors.PermanentError(f"{self.namespace}/{self.name}: {code}: {said}")
        if self.uid and found.get("metadata", {}).get("uid") != self.uid:
            raise errors.PermanentError(f"{self.namespace}/{self.name}: was deleted, and another made in its stead")
        return dict(found.get("status") or {})

    def _tell(self, status: Mapping[str, Any]) -> None:
        replicas = status.get("replicas") or ()
        pod = str(replicas[0].get("pod") or "") if replicas else ""
        if self._log is not None and pod != self._log.pod:
            self._log.rest(self)
            self._log = None
        said = stands(status)
        if said != self._told:
            self._told = said
            self.say(said)
        # One that ends at once is never seen to run.
        if pod and self._log is None and status.get("phase") in {_RUNS, *ENDS}:
            self._log = Log(pod)
        if self._log is not None:
            self._log.rest(self)


def stands(status: Mapping[str, Any]) -> str:
    """Return where a DLJob stands, in a line."""
    phase = str(status.get("phase") or "Pending")
    if phase == _RUNS:
        places = [_place(replica) for replica in status.get("replicas") or ()]
        return f"{phase} {'; '.join(filter(None, places))}".rstrip()
    kind = {Phase.SUCCEEDED.value: "Complete"}.get(phase, phase)
    said = [one.get("message") for one in status.get("conditions") or () if one.get("type") == kind]
    return f"{phase}: {said[0]}" if said and said[0] else phase


def _place(replica: Mapping[str, Any]) -> str:
    """Say where a replica is, and what part of each of its GPUs it has."""
    gpus = [f"{gpu.get('share')} % of GPU {gpu.get('uuid')}" for gpu in replica.get("gpus") or ()]
    return f"on {replica.get('node')}: {', '.join(gpus)}" if gpus else ""


@dataclass
class Log:
    """The log of one pod, as far as it was told."""

    pod: str
    last: str = ""
    """Time of the last line."""
    refused: bool = False

    def rest(self, follower: Follower) -> None:
        """Tell what came since, and what comes until its container ends or is silent."""
        if self.refused:
            return
        path = f"/api/v1/namespaces/{follower.namespace}/pods/{self.pod}/log"
        query = [("container", follower.container), ("follow", "true"), ("timestamps", "true")]
        query += [("sinceTime", self.last)] if self.last else []
        try:
            with follower.source.lines(path, query, silence_seconds=SILENCE_SECONDS) as (code, found):
                if code != http.client.OK:
                    self.refused = code in {http.client.FORBIDDEN, http.client.UNAUTHORIZED}
                    if self.refused:
                        follower.say(f"no log: {code}: ask for the right to get pods/log")
                    return
                for line in found:
                    self._tell(line.decode(errors="replace"), follower)
        except errors.TemporaryError:
            return

    def _tell(self, line: str, follower: Follower) -> None:
        time, _, text = line.partition(" ")
        at = _instant(time)
        if at is None:
            # A line of kubelet's own.
            follower.say(line)
        elif (before := _instant(self.last)) is None or at > before:
            # From that second on: those of it that were told are not told again.
            self.last = time
            follower.say(text)


def _instant(time: str) -> tuple[datetime, int] | None:
    """Return a time of a log, to the nanosecond, for comparison; None: it is none."""
    found = _TIME.fullmatch(time)
    if found is None:
        return None
    second, fraction, zone = found.groups()
    try:
        return datetime.fromisoformat(f"{second}{zone}"), int((fraction or "").ljust(9, "0"))
    except ValueError:
        return None
