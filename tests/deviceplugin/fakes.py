"""An API server and a clock in memory, and the objects that tests put into them."""

import asyncio
import copy
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from cotenant_api import errors, names, rootless
from cotenant_api.names import NodeName
from cotenant_deviceplugin.kube import cluster
from cotenant_deviceplugin.simulated import gpus as simulated

NODE = NodeName("n1")
NODE_UID = "node-uid"
START = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
POD_PATH = "/api/v1/namespaces/team/pods"


_ROUNDS_AT_MOST = 1000


async def settled() -> None:
    """Let every task go on until all of them wait for something that only the test can cause."""
    loop: Any = asyncio.get_running_loop()
    for _ in range(_ROUNDS_AT_MOST):
        await asyncio.sleep(0)
        if not loop._ready:  # nothing is scheduled beside this task
            return
    raise AssertionError(f"tasks still go on after {_ROUNDS_AT_MOST} rounds of the event loop")


class Clockwork:
    """A clock that never goes back, moved by the test."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def now(self) -> float:
        """Where it stands."""
        return self.seconds


class FakeClock:
    """Time that stands still until the test moves it."""

    def __init__(self) -> None:
        self._now = START
        self._waiting: list[tuple[datetime, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        """Where the test has put it."""
        return self._now

    async def sleep(self, seconds: float) -> None:
        """Wait for the test."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((self._now + timedelta(seconds=seconds), future))
        await future

    async def advance(self, seconds: float) -> None:
        """Move on, stopping at every moment for which somebody waits."""
        end = self._now + timedelta(seconds=seconds)
        await settled()
        while due := [waiting for waiting in self._waiting if waiting[0] <= end and not waiting[1].done()]:
            moment, future = min(due, key=lambda waiting: waiting[0])
            self._now = max(self._now, moment)
            self._waiting.remove((moment, future))
            future.set_result(None)
            await settled()
        self._now = end


@dataclass
class Fault:
    """What goes wrong with the next request of a kind.

    Attributes:
        done: it was carried out, only its reply is lost.
        late: it is carried out when the test has it arrive. A write alone.
    """

    method: str
    path: str
    error: errors.CotenantError
    done: bool = False
    late: bool = False


class FakeCluster:
    """Objects by path, watches as queues, and faults on demand."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.requests: list[tuple[str, str]] = []
        self.faults: list[Fault] = []
        self.late: list[Callable[[], cluster.Object]] = []
        """Writes that were given up by who sent them, and have yet to arrive."""
        self.unconditional: list[str] = []
        """Paths of applies that named no version or no UID."""
        self.down: errors.CotenantError | None = None
        self.deaf: set[str] = set()
        """Collections whose watches are told nothing."""
        self.behind: set[str] = set()
        """Collections whose watches are told what happens when they `catch_up`."""
        self.watched_from: list[tuple[str, str]] = []
        """Collection and resource version of each watch."""
        self._version = 0
        self._watches: list[tuple[cluster.Selection, asyncio.Queue[cluster.Event | errors.CotenantError | None]]] = []
        self._untold: list[tuple[str, str, dict[str, Any]]] = []
        self._held: list[tuple[str, str, asyncio.Event]] = []

    async def get(self, path: str) -> cluster.Object:
        """As the API server."""
        self._begin("GET", path)
        found = copy.deepcopy(self._found(path))
        await self._answering("GET", path)
        return found

    async def create(self, path: str, manifest: cluster.Object) -> cluster.Object:
        """409 if it is there."""
        return await self._write("POST", path, lambda: self._created(path, manifest))

    async def apply(self, path: str, manifest: cluster.Object) -> cluster.Object:
        """Replaces, as one field manager's apply does; a status needs its object."""
        return await self._write("APPLY", path, lambda: self._applied(path, manifest))

    async def patch(self, path: str, patch: cluster.Object) -> cluster.Object:
        """Knows two patches: none at all, and a Node's taints at a resource version."""
        return await self._write("PATCH", path, lambda: self._patched(path, patch))

    def arrive(self, index: int = 0) -> None:
        """Carry out one of the late writes. Raises what it is refused with."""
        self.late.pop(index)()

    def hold(self, method: str, path: str) -> asyncio.Event:
        """Answer the next such request when the returned event is set: with what was true when it came."""
        gate = asyncio.Event()
        self._held.append((method, path, gate))
        return gate

    async def _write(self, method: str, path: str, work: Callable[[], cluster.Object]) -> cluster.Object:
        fault = self._begin(method, path)
        if fault is not None and fault.late:
            self.late.append(work)
            raise fault.error
        made = work()
        if fault is not None:
            raise fault.error
        await self._answering(method, path)
        return made

    async def _answering(self, method: str, path: str) -> None:
        held = next((each for each in self._held if each[:2] == (method, path)), None)
        if held is not None:
            self._held.remove(held)
            await held[2].wait()

    def _created(self, path: str, manifest: cluster.Object) -> cluster.Object:
        full = f"{path}/{manifest['metadata']['name']}"
        if full in self.objects:
            raise cluster.AlreadyExistsError(f"{full} exists")
        self.put(full, manifest)
        return copy.deepcopy(self.objects[full])

    def _applied(self, path: str, manifest: cluster.Object) -> cluster.Object:
        whole, metadata = path.removesuffix("/status"), manifest["metadata"]
        found = self.objects.get(whole)
        if found is None and whole != path:
            raise cluster.NotFoundError(f"there is no {whole}")
        for key in ("uid", "resourceVersion"):
            if key not in metadata:
                self.unconditional.append(path)
            elif found is None or metadata[key] != found["metadata"][key]:
                raise cluster.ConflictError(f"the {key} of {whole} is not {metadata[key]}")
        new = manifest if found is None or whole == path else {**found, "status": manifest["status"]}
        # As of the API server: what changes nothing is not written, moves no version and is told to nobody.
        if found is None or _content(new) != _content(found):
            self.put(whole, new)
        return copy.deepcopy(self.objects[whole])

    def _patched(self, path: str, patch: cluster.Object) -> cluster.Object:
        manifest = copy.deepcopy(self._found(path))
        if patch:
            if patch["metadata"]["resourceVersion"] != manifest["metadata"]["resourceVersion"]:
                raise cluster.ConflictError("409 Conflict")
            manifest["spec"]["taints"] = patch["spec"]["taints"]
            self.put(path, manifest)
        return copy.deepcopy(self.objects[path])

    async def list(self, selection: cluster.Selection) -> cluster.Object:
        """All that is selected."""
        self._begin("LIST", selection.path)
        items = [each for path, each in sorted(self.objects.items()) if _selected(selection, path, each)]
        return {"metadata": {"resourceVersion": str(self._version)}, "items": copy.deepcopy(items)}

    async def watch(
        self, selection: cluster.Selection, *, resource_version: str
    ) -> AsyncGenerator[cluster.Event, None]:
        """What changed since, then what changes."""
        self._begin("WATCH", selection.path)
        self.watched_from.append((selection.path, resource_version))
        queue: asyncio.Queue[cluster.Event | errors.CotenantError | None] = asyncio.Queue()
        for path, manifest in self.objects.items():
            newer = int(manifest["metadata"]["resourceVersion"]) > int(resource_version)
            if newer and _selected(selection, path, manifest):
                queue.put_nowait(("MODIFIED", manifest))
        entry = (selection, queue)
        self._watches.append(entry)
        try:
            yield cluster.OPENED, {}
            while (event := await queue.get()) is not None:
                if isinstance(event, errors.CotenantError):
                    raise event
                yield event
        finally:
            self._watches.remove(entry)

    def put(self, path: str, manifest: Mapping[str, Any]) -> None:
        """Create or replace an object, and tell the watches. It keeps its UID unless another is given."""
        known = self.objects.get(path)
        self._version += 1
        stored = copy.deepcopy(dict(manifest))
        uid = known["metadata"]["uid"] if known else f"uid-{self._version}"
        stored["metadata"] = {"uid": uid, **stored["metadata"], "resourceVersion": str(self._version)}
        self.objects[path] = stored
        self._tell("MODIFIED" if known else "ADDED", path, stored)

    def delete(self, path: str) -> None:
        """Remove an object, and tell the watches."""
        self._version += 1
        gone = self.objects.pop(path)
        gone["metadata"]["resourceVersion"] = str(self._version)
        self._tell("DELETED", path, gone)

    def replace_node(self, manifest: Mapping[str, Any]) -> str:
        """Delete the Node and what belongs to it, and make it again; return its UID."""
        path = cluster.node_path(NODE)
        self.delete(path)
        self.collect()
        uid = f"node-uid-{self._version}"
        self.put(path, {**manifest, "metadata": {**manifest["metadata"], "uid": uid}})
        return uid

    def collect(self) -> None:
        """Delete what belongs to a Node that is gone, as the garbage collector does."""
        living = {each["metadata"]["uid"] for path, each in self.objects.items() if path.startswith("/api/v1/nodes/")}
        for path, each in list(self.objects.items()):
            owners = {owner["uid"] for owner in each["metadata"].get("ownerReferences", ())}
            if owners and not owners & living:
                self.delete(path)

    def catch_up(self, path: str) -> None:
        """Tell the watches of a collection what happened since it fell behind."""
        self.behind.discard(path)
        told = [each for each in self._untold if each[1].startswith(path)]
        self._untold = [each for each in self._untold if each not in told]
        for each in told:
            self._tell(*each)

    def repeat_event(self, path: str) -> None:
        """Deliver an object's last event once more."""
        self._tell("MODIFIED", path, self.objects[path])

    def end_watches(self, path: str, error: errors.CotenantError | None = None) -> None:
        """End the streams of a collection, cleanly or with an error."""
        for selection, queue in self._watches:
            if selection.path == path:
                queue.put_nowait(error)

    def count(self, method: str, path: str) -> int:
        """How many such requests there were."""
        return self.requests.count((method, path))

    def status(self) -> dict[str, Any]:
        """The GPUNode's status."""
        found: dict[str, Any] = self.objects[cluster.gpunode_path(NODE)]["status"]
        return found

    def _begin(self, method: str, path: str) -> Fault | None:
        self.requests.append((method, path))
        if self.down is not None:
            raise self.down
        fault = next((each for each in self.faults if (each.method, each.path) == (method, path)), None)
        if fault is None:
            return None
        self.faults.remove(fault)
        if not (fault.done or fault.late):
            raise fault.error
        return fault

    def _found(self, path: str) -> dict[str, Any]:
        if path not in self.objects:
            raise cluster.NotFoundError(f"there is no {path}")
        return self.objects[path]

    def _tell(self, kind: str, path: str, manifest: dict[str, Any]) -> None:
        if any(path.startswith(each) for each in self.behind):
            self._untold.append((kind, path, copy.deepcopy(manifest)))
            return
        for selection, queue in self._watches:
            if selection.path not in self.deaf and _selected(selection, path, manifest):
                queue.put_nowait((kind, copy.deepcopy(manifest)))


def _content(manifest: Mapping[str, Any]) -> cluster.Object:
    """An object without what the API server gives it."""
    metadata = {key: value for key, value in manifest["metadata"].items() if key not in ("uid", "resourceVersion")}
    return {**manifest, "metadata": metadata}


def _selected(selection: cluster.Selection, path: str, manifest: Mapping[str, Any]) -> bool:
    """Understands the two selections that an agent makes."""
    key, _, value = selection.field_selector.partition("=")
    if key == "spec.nodeName":
        return bool(manifest.get("spec", {}).get("nodeName") == value)
    return path == f"{selection.path}/{value}"


@dataclass(frozen=True)
class PodSpec:
    """A pod for tests: where it is placed, and what it asks for."""

    name: str = "train"
    uid: str = "uid-train"
    share: int = 30
    booked: int = 30
    gpus: tuple[int, ...] = (0,)
    memory_mib: int = 8000
    backend: str = "MPS"
    phase: str = "Running"
    prediction: str | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Of the placement."""
    annotations: Mapping[str, str] | None = None
    """In place of the placement."""
    security: Mapping[str, Any] = field(default_factory=lambda: rootless.PROVEN)
    """The container's securityContext."""


def placement(spec: PodSpec) -> dict[str, Any]:
    """The placement document of a pod."""
    booking = {"share": spec.booked, "activeThreadPercentage": 50, "memoryMiB": spec.memory_mib}
    return {
        "v": 1,
        "podUID": spec.uid,
        "node": NODE,
        "container": "main",
        "policyGeneration": 1,
        "backend": spec.backend,
        "gpus": [{"uuid": simulated.gpu_uuid(NODE, index), **booking} for index in spec.gpus],
        **spec.changes,
    }


def pod(spec: PodSpec) -> dict[str, Any]:
    """A pod that is bound to the node."""
    notes = {names.PLACEMENT: json.dumps(placement(spec))} if spec.annotations is None else dict(spec.annotations)
    if spec.prediction is not None:
        notes[names.PREDICTION] = spec.prediction
    resources = {"limits": {names.GPU_SHARE: str(spec.share)}}
    return {
        "metadata": {"name": spec.name, "namespace": "team", "uid": spec.uid, "annotations": notes},
        "spec": {
            "nodeName": NODE,
            "containers": [{"name": "main", "resources": resources, "securityContext": dict(spec.security)}],
        },
        "status": {"phase": spec.phase},
    }


def prediction(*, utilization: float, memory_mib: int, model: str = "Tesla-T4") -> str:
    """A prediction document with these medians."""
    percent = {"q50": utilization, "upper": utilization + 10}
    gpu = {
        "utilization": percent,
        "smActivity": percent,
        "dramActivity": percent,
        "memoryMiB": {"q50": memory_mib, "upper": memory_mib + 1000},
        "stepMilliseconds": 10.0,
        "threadPercentage": 50,
        "regime": "Compute",
    }
    return json.dumps({"v": 1, "graph": "sha256:1", "source": "Formula", "model": "m", "byGPU": {model: gpu}})


def node(*, tainted: bool = False) -> dict[str, Any]:
    """The Node."""
    others = [{"key": "example.com/other", "effect": "NoSchedule"}]
    taint = [{"key": key, "effect": "NoSchedule"} for key in names.STARTUP_TAINTS]
    return {
        "metadata": {"name": NODE, "uid": NODE_UID},
        "spec": {"taints": others + (taint if tainted else [])},
        "status": {"nodeInfo": {"containerRuntimeVersion": "simulated://"}},
    }
