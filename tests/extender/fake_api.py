"""An API server in memory, behind the extender's transport: lists, watches, patches, Bindings, evictions, and faults.

Faithful in what the extender relies on: one resource version for all kinds, watches from a version, 410 after a
compaction, UID preconditions, a Binding that merges annotations and sets the node in one step.
"""

import asyncio
import copy
import enum
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cotenant_extender.kube import pods, transport

Object = dict[str, Any]

LEASES = pods.leases_path("cotenant-system")
COLLECTIONS = (pods.PODS, pods.NODES, pods.GPUNODES, pods.POLICIES, LEASES)
POD = re.compile(r"/api/v1/namespaces/([^/]+)/pods/([^/]+?)(?:/(status|binding|eviction))?$")
EVENTS = re.compile(r"/api/v1/namespaces/([^/]+)/events$")


class Fault(enum.Enum):
    """What happens to one request."""

    NOT_SENT = "the connection breaks before it is read"
    REPLY_LOST = "it is carried out, and the answer is lost"
    BUSY = "429, not carried out"
    BROKEN = "500 after it was carried out"
    REFUSED = "403, not carried out"


Chooses = Callable[[transport.Request], Fault | None]


class Server:
    """The API server.

    Attributes:
        requests: every request, as method and path without query.
        fault: decides what happens to a request; None: nothing.
    """

    def __init__(self) -> None:
        self.version = 1
        self.objects: dict[str, dict[tuple[str, str], Object]] = {path: {} for path in COLLECTIONS}
        self.requests: list[tuple[str, str]] = []
        self.events: list[Object] = []
        self.fault: Chooses = lambda _: None
        self._log: list[tuple[int, str, str, Object]] = []
        self._compacted = 0
        self._breaks = 0
        self._news = asyncio.Event()

    # --- what tests do

    def put(self, path: str, value: Object) -> Object:
        """Create or replace an object."""
        value = copy.deepcopy(value)
        key = (value["metadata"].get("namespace", ""), value["metadata"]["name"])
        kind = "MODIFIED" if key in self.objects[path] else "ADDED"
        self.objects[path][key] = value
        self._record(path, kind, value)
        return value

    def slip(self, path: str, value: Object) -> None:
        """Replace an object, and lose the event."""
        self.put(path, value)
        self._log.pop()

    def remove(self, path: str, name: str, namespace: str = "") -> None:
        """Delete an object."""
        self._record(path, "DELETED", self.objects[path].pop((namespace, name)))

    def pod(self, name: str, namespace: str = "team") -> Object:
        """A pod as it is."""
        return self.objects[pods.PODS][(namespace, name)]

    def compact(self) -> None:
        """Forget history, and end all watches: whoever continues gets 410."""
        self._log.clear()
        self.version += 1
        self._compacted = self.version
        self.break_watches()

    def break_watches(self) -> None:
        """Cut every watch."""
        self._breaks += 1
        self._notify()

    def sent(self, method: str, part: str) -> int:
        """How many requests were made whose path contains this."""
        return sum(1 for verb, path in self.requests if verb == method and part in path)

    # --- Transport

    async def request(self, request: transport.Request) -> transport.Answer:
        """Carry out a request, or what its fault says."""
        await asyncio.sleep(0)
        url = urlsplit(request.path)
        self.requests.append((request.method, url.path))
        fault = self.fault(request)
        if fault is Fault.NOT_SENT:
            raise transport.UnansweredError("cut")
        if fault is Fault.BUSY:
            return _status(429, "too many requests", {"Retry-After": "1"})
        if fault is Fault.REFUSED:
            return _status(403, "denied by a policy")
        answer = self._answer(request, url.path)
        if fault is Fault.REPLY_LOST:
            raise transport.UnansweredError("timed out")
        return _status(500, "internal error") if fault is Fault.BROKEN else answer

    @asynccontextmanager
    async def stream(self, request: transport.Request) -> AsyncIterator[transport.Stream]:
        """A watch."""
        await asyncio.sleep(0)
        url = urlsplit(request.path)
        self.requests.append(("WATCH", url.path))
        if self.fault(request) is not None:
            raise transport.UnansweredError("cut")
        since = int(parse_qs(url.query)["resourceVersion"][0])
        yield _Stream(self._events(url.path, since))

    async def _events(self, path: str, since: int) -> AsyncIterator[bytes]:
        breaks = self._breaks
        while True:
            if since < self._compacted:
                gone = {"kind": "Status", "code": 410, "message": "too old resource version"}
                yield _line("ERROR", gone)
                return
            news = self._news
            for version, where, kind, value in list(self._log):
                if where == path and version > since:
                    since = version
                    yield _line(kind, value)
            if breaks != self._breaks:
                raise transport.UnansweredError("cut")
            await news.wait()

    def _answer(self, request: transport.Request, path: str) -> transport.Answer:
        if path in self.objects or path.rpartition("/")[0] == pods.GPUNODES:
            return self._read(path)
        if path == pods.POLICY_STATUS:
            return self._patch_policy(json.loads(request.body or b"{}"))
        if EVENTS.match(path):
            self.events.append(json.loads(request.body or b"{}"))
            return _ok(self.events[-1], 201)
        found = POD.match(path)
        if found is None:
            return _status(404, f"no such path: {path}")
        namespace, name, subresource = found.groups()
        key = (namespace, name)
        if key not in self.objects[pods.PODS]:
            return _status(404, f'pods "{name}" not found')
        return self._pod_request(request, self.objects[pods.PODS][key], subresource)

    def _read(self, path: str) -> transport.Answer:
        """A collection, or one GPUNode."""
        if path in self.objects:
            items = list(self.objects[path].values())
            return _ok({"metadata": {"resourceVersion": str(self.version)}, "items": items})
        value = self.objects[pods.GPUNODES].get(("", path.rpartition("/")[2]))
        return _status(404, "no such GPUNode") if value is None else _ok(value)

    def _pod_request(self, request: transport.Request, value: Object, subresource: str | None) -> transport.Answer:
        body = json.loads(request.body or b"{}")
        match request.method, subresource:
            case "GET", None:
                return _ok(value)
            case "PATCH", None | "status":
                return self._patch_pod(value, body)
            case "POST", "binding":
                return self._bind(value, body)
            case ("POST", "eviction") | ("DELETE", None):
                wanted = body.get("preconditions") or body["deleteOptions"]["preconditions"]
                if wanted["uid"] != value["metadata"]["uid"]:
                    return _status(409, "the UID in the precondition does not match")
                self.remove(pods.PODS, value["metadata"]["name"], value["metadata"]["namespace"])
                return _ok({}, 201)
            case _:
                return _status(405, "method not allowed")

    def _patch_pod(self, value: Object, change: Object) -> transport.Answer:
        if change["metadata"].pop("uid") != value["metadata"]["uid"]:
            return _status(409, "the UID in the precondition does not match")
        conditions = (change.get("status") or {}).pop("conditions", None)
        _merge(value, change)
        if conditions is not None:
            standing = value["status"].setdefault("conditions", [])
            for new in conditions:
                old = next((one for one in standing if one["type"] == new["type"]), None)
                if old is None:
                    standing.append(new)
                else:
                    old.update(new)
        self._record(pods.PODS, "MODIFIED", value)
        return _ok(value)

    def _bind(self, value: Object, binding: Object) -> transport.Answer:
        if binding["metadata"]["uid"] != value["metadata"]["uid"]:
            return _status(409, "the UID in the precondition does not match")
        if value["spec"].get("nodeName"):
            return _status(409, f"pod is already assigned to node {value['spec']['nodeName']}")
        if value["spec"].get("schedulingGates"):
            return _status(409, "pod has scheduling gates")
        value["spec"]["nodeName"] = binding["target"]["name"]
        value["metadata"]["annotations"].update(binding["metadata"]["annotations"])
        self._record(pods.PODS, "MODIFIED", value)
        return _ok({"kind": "Status", "status": "Success"}, 201)

    def _patch_policy(self, change: Object) -> transport.Answer:
        value = self.objects[pods.POLICIES][("", "default")]
        _merge(value, change)
        self._record(pods.POLICIES, "MODIFIED", value)
        return _ok(value)

    def _record(self, path: str, kind: str, value: Object) -> None:
        self.version += 1
        value["metadata"]["resourceVersion"] = str(self.version)
        self._log.append((self.version, path, kind, copy.deepcopy(value)))
        self._notify()

    def _notify(self) -> None:
        # Every stream waits on the event of its time: a new one for those that come later.
        news, self._news = self._news, asyncio.Event()
        news.set()


class _Stream:
    def __init__(self, events: AsyncIterator[bytes]) -> None:
        self.status = 200
        self._events = events

    def lines(self) -> AsyncIterator[bytes]:
        return self._events


def _merge(value: Object, change: Object) -> None:
    """JSON merge patch."""
    for key, new in change.items():
        if new is None:
            value.pop(key, None)
        elif isinstance(new, dict):
            _merge(value.setdefault(key, {}), new)
        else:
            value[key] = new


def _line(kind: str, value: Object) -> bytes:
    return json.dumps({"type": kind, "object": value}).encode() + b"\n"


def _ok(value: Object, status: int = 200) -> transport.Answer:
    return transport.Answer(status, {}, json.dumps(value).encode())


def _status(code: int, message: str, headers: dict[str, str] | None = None) -> transport.Answer:
    body = json.dumps({"kind": "Status", "code": code, "message": message}).encode()
    return transport.Answer(code, headers or {}, body)
