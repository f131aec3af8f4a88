"""What the audited asked of the API server, from its audit log: nobody's own count, so nothing is forgotten in it."""

import datetime as dt
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cotenant_e2e.client import Json


@dataclass(frozen=True, kw_only=True)
class Request:
    """One answered request.

    Attributes:
        user: who asked.
        verb: of the API server's words: get, list, watch, create, patch, delete.
        resource: with its subresource: `dljobs/status`.
        namespace, name: empty where there is none; a created object's name is known too.
        code: HTTP status.
        seconds: Unix time of the answer.
    """

    user: str
    verb: str
    resource: str
    namespace: str
    name: str
    code: int
    seconds: float

    @property
    def what(self) -> str:
        """Verb and resource in one word."""
        return f"{self.verb} {self.resource}"


def of(log: Path, *, since_bytes: int = 0) -> list[Request]:
    """Return the requests in a log, from a place in it on; a watch counts once, when it begins."""
    with log.open("rb") as file:
        file.seek(since_bytes)
        lines = file.read().split(b"\n")
    # The last line is empty, or still being written.
    found = [_request(json.loads(line)) for line in lines[:-1]]
    return [one for one in found if one is not None]


def size(log: Path) -> int:
    """Return the place in the log that is reached now; 0 where nothing was written."""
    return log.stat().st_size if log.exists() else 0


def counted(requests: Iterable[Request]) -> Counter[str]:
    """Return how many of each verb and resource."""
    return Counter(one.what for one in requests)


def _request(event: Json) -> Request | None:
    verb = event["verb"]
    if event["stage"] not in ("ResponseComplete", "Panic") and not (
        verb == "watch" and event["stage"] == "ResponseStarted"
    ):
        return None
    if verb == "watch" and event["stage"] == "ResponseComplete":
        return None
    subject = event.get("objectRef") or {}
    resource, inner = subject.get("resource", event["requestURI"].partition("?")[0]), subject.get("subresource")
    return Request(
        user=event["user"]["username"],
        verb=verb,
        resource=f"{resource}/{inner}" if inner else resource,
        namespace=subject.get("namespace", ""),
        name=subject.get("name", ""),
        code=(event.get("responseStatus") or {}).get("code", 0),
        seconds=dt.datetime.fromisoformat(event["stageTimestamp"]).timestamp(),
    )
