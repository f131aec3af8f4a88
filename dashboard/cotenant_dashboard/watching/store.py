"""What is known of the cluster: filled by watches, each in its thread, and emptied of news by whoever makes the page.

Nothing is ever read here that was not told. What cannot be read is told as such, and holds nothing else up.
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from cotenant_api import errors, packingpolicy
from cotenant_cli.reading import cluster, objects
from cotenant_dashboard.view import jobs, page

Object = Mapping[str, Any]
One = TypeVar("One")

PODS: Final = "pods"
NODES: Final = "gpunodes"
DLJOBS: Final = "dljobs"
POLICIES: Final = "packingpolicies"
KINDS: Final = (NODES, PODS, DLJOBS, POLICIES)
NOT_READ: Final = "not read yet"
Key = page.Key


@dataclass(frozen=True, slots=True)
class Unread:
    """An object that cannot be read, and why."""

    problem: str


@dataclass(slots=True)
class _Dirty:
    """What changed since it was last asked."""

    nodes: set[str] = field(default_factory=set)
    jobs: set[Key] = field(default_factory=set)


class Store:
    """All of it.

    Args:
        tell: called after each change, by the thread of a watch.

    Attributes:
        broken: a watch has ended by itself: only a new process helps.
    """

    def __init__(self, tell: Callable[[], None]) -> None:
        self.broken = False
        self._tell, self._lock, self._dirty = tell, threading.Lock(), _Dirty()
        self._nodes: dict[str, objects.Node] = {}
        self._pods: dict[str, objects.Pod] = {}
        self._dljobs: dict[str, objects.DLJob | Unread] = {}
        self._policies: dict[str, packingpolicy.PackingPolicy | Unread] = {}
        self._by_node: dict[str, dict[str, objects.Pod]] = defaultdict(dict)
        self._by_job: dict[Key, dict[str, objects.Pod]] = defaultdict(dict)
        self._sources: dict[str, str | None] = dict.fromkeys(KINDS, NOT_READ)
        self._listed: set[str] = set()

    def nodes(self) -> "Feed[objects.Node]":
        """Where GPUNodes are told."""
        return Feed(self, NODES, self._nodes, self._node_changed)

    def pods(self) -> "Feed[objects.Pod]":
        """Where pods are told."""
        return Feed(self, PODS, self._pods, self._pod_changed)

    def dljobs(self) -> "Feed[objects.DLJob | Unread]":
        """Where DLJobs are told."""
        return Feed(self, DLJOBS, self._dljobs, self._dljob_changed)

    def policies(self) -> "Feed[packingpolicy.PackingPolicy | Unread]":
        """Where PackingPolicies are told."""
        return Feed(self, POLICIES, self._policies, lambda *_: None)

    def news(self) -> page.Changed:
        """Return what changed since this was called last; nothing is made of jobs before DLJobs and pods are known."""
        with self._lock:
            ready = {PODS, DLJOBS} <= self._listed
            dirty, self._dirty = self._dirty, _Dirty()
            if not ready:
                self._dirty.jobs, dirty.jobs = dirty.jobs, set()
            policy = self._policies.get(packingpolicy.NAME)
            refused = self._sources[POLICIES]
            return page.Changed(
                nodes={name: self._node(name) for name in dirty.nodes},
                jobs={key: self._job(key) for key in dirty.jobs},
                policy=None if isinstance(policy, Unread) else policy,
                policy_problem=policy.problem if isinstance(policy, Unread) else None if policy else refused,
                sources=dict(self._sources),
                whole=self._listed == set(KINDS),
            )

    def seen(self, namespace: str, name: str) -> cluster.Seen:
        """Return what `cotenant why NAMESPACE/NAME` reads."""
        with self._lock:
            found = self._dljobs.get(f"{namespace}/{name}")
            policy = self._policies.get(packingpolicy.NAME)
            notes = [f"{kind}: {problem}" for kind, problem in self._sources.items() if problem is not None]
            notes += [one.problem for one in (found, policy) if isinstance(one, Unread)]
            return cluster.Seen(
                pods=tuple(pod for pod in self._pods.values() if pod.namespace == namespace),
                nodes=tuple(self._nodes.values()),
                policy=None if isinstance(policy, Unread) else policy,
                dljob=None if isinstance(found, Unread) else found,
                notes=tuple(notes),
            )

    @property
    def whole(self) -> bool:
        """Whether everything has been read once."""
        return self._listed == set(KINDS)

    def _node(self, name: str) -> tuple[objects.Node, tuple[objects.Pod, ...]] | None:
        node = self._nodes.get(name)
        return None if node is None else (node, tuple(self._by_node.get(name, {}).values()))

    def _job(self, key: Key) -> jobs.Job | None:
        found = self._dljobs.get("/".join(key))
        dljob = None if isinstance(found, Unread) else found
        pods = tuple(self._by_job.get(key, {}).values())
        if dljob is None and not pods:
            return None
        return jobs.Job(namespace=key[0], name=key[1], dljob=dljob, pods=pods)

    def _node_changed(self, key: str, *_: object) -> None:
        self._dirty.nodes.add(key)

    def _dljob_changed(self, key: str, *_: object) -> None:
        namespace, _separator, name = key.partition("/")
        self._dirty.jobs.add((namespace, name))

    def _pod_changed(self, key: str, old: objects.Pod | None, new: objects.Pod | None) -> None:
        if old is not None:
            self._forget(key, old)
        if new is not None:
            self._by_job[jobs.key_of(new)][key] = new
            self._dirty.jobs.add(jobs.key_of(new))
            if new.node is not None:
                self._by_node[new.node][key] = new
                self._dirty.nodes.add(new.node)

    def _forget(self, key: str, old: objects.Pod) -> None:
        job = jobs.key_of(old)
        self._dirty.jobs.add(job)
        _drop(self._by_job, job, key)
        if old.node is not None:
            self._dirty.nodes.add(old.node)
            _drop(self._by_node, old.node, key)

    def told(self, kind: str, change: Callable[[], None]) -> None:
        """Let a change happen."""
        with self._lock:
            change()
            self._listed.add(kind)
        self._tell()

    def broke(self, kind: str, error: errors.CotenantError) -> None:
        """Note that the watch of a kind has ended by itself."""
        self.broken = True
        self.failed(kind, error)

    def failed(self, kind: str, error: errors.CotenantError | None) -> None:
        """Note that what is known of a kind may be old, and why; or is not any more."""
        problem = None if error is None else str(error)
        with self._lock:
            if self._sources[kind] == problem:
                return
            self._sources[kind] = problem
        self._tell()


class Feed(Generic[One]):
    """Where a watch of one kind tells; see `watches.Sink`."""

    def __init__(
        self,
        store: Store,
        kind: str,
        known: dict[str, One],
        changed: Callable[[str, One | None, One | None], None],
    ) -> None:
        self._store, self._kind, self._known, self._changed = store, kind, known, changed

    def listed(self, found: Mapping[str, One]) -> None:
        """All that there are."""

        def change() -> None:
            for key in [key for key in self._known if key not in found]:
                self._put(key, None)
            for key, one in found.items():
                self._put(key, one)

        self._store.told(self._kind, change)

    def changed(self, key: str, found: One) -> None:
        """One is new, or not as it was."""
        self._store.told(self._kind, lambda: self._put(key, found))

    def gone(self, key: str) -> None:
        """There is one no more."""
        self._store.told(self._kind, lambda: self._put(key, None))

    def failed(self, error: errors.CotenantError | None) -> None:
        """Tell that what was told last may be old, and why; None: it is not."""
        self._store.failed(self._kind, error)

    def _put(self, key: str, new: One | None) -> None:
        old = self._known.get(key)
        if old == new:
            return
        if new is None:
            del self._known[key]
        else:
            self._known[key] = new
        self._changed(key, old, new)


def dljob_of(raw: Object) -> objects.DLJob | Unread:
    """Return a DLJob, whatever stands in it."""
    return _readable(objects.dljob_of, raw)


def policy_of(raw: Object) -> packingpolicy.PackingPolicy | Unread:
    """Return a PackingPolicy, whatever stands in it."""
    return _readable(objects.policy_of, raw)


def _readable(read: Callable[[Object], One], raw: Object) -> One | Unread:
    try:
        return read(raw)
    except errors.InvalidInputError as error:
        return Unread(str(error))


def _drop(index: dict[Any, dict[str, objects.Pod]], place: Any, key: str) -> None:
    index[place].pop(key, None)
    if not index[place]:
        del index[place]
