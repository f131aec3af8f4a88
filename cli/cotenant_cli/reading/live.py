"""Pods and GPUNodes kept up to date by watches: a command that shows them again and again lists them once.

Threads of its own talk, through what it is given; whoever asks gets what there is now, or why it may be old.
"""

import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, TypeVar

from cotenant_api import errors
from cotenant_cli.reading import cluster, objects, watches

Read = TypeVar("Read")

FIRST_SECONDS: Final = 60.0
"""For the first list."""


class Kept(Generic[Read]):
    """What there is of one collection; see `watches.Sink`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._told = threading.Event()
        self._found: dict[str, Read] = {}
        self._error: errors.CotenantError | None = None

    def listed(self, found: Mapping[str, Read], /) -> None:
        """All that there are."""
        with self._lock:
            self._found = dict(found)
        self._told.set()

    def changed(self, key: str, found: Read, /) -> None:
        """One is new, or not as it was."""
        with self._lock:
            self._found[key] = found

    def gone(self, key: str, /) -> None:
        """There is one no more."""
        with self._lock:
            self._found.pop(key, None)

    def failed(self, error: errors.CotenantError | None, /) -> None:
        """Note that what is there may be old, and why; None: it is not."""
        self._error = error
        if error is not None:
            self._told.set()

    def now(self, *, seconds: float = FIRST_SECONDS) -> tuple[Read, ...]:
        """All that there are, by namespace and name.

        Raises:
            PermanentError, TemporaryError: why what is there may be old; or nothing was told for so long.
        """
        if not self._told.wait(seconds):
            raise errors.TemporaryError(f"no list within {seconds:g} s", delay_seconds=1)
        error = self._error
        if error is not None:
            raise error
        with self._lock:
            return tuple(self._found[key] for key in sorted(self._found))


class Live:
    """All GPUs, and the pods of a namespace, or of all; as `cluster.of_gpus` lists them."""

    def __init__(self, source: watches.Source, *, namespace: str | None) -> None:
        self._ended = threading.Event()
        self._pods, self._nodes = Kept[objects.Pod](), Kept[objects.Node]()
        self._follow(source, cluster.pods_path(namespace), objects.pod_of, self._pods)
        self._follow(source, cluster.GPUNODES, objects.node_of, self._nodes)

    def seen(self) -> cluster.Seen:
        """Return what there is now; raises as `Kept.now`."""
        return cluster.Seen(pods=self._pods.now(), nodes=self._nodes.now())

    def close(self) -> None:
        """Watch no more; threads that wait for the server end with the process."""
        self._ended.set()

    def _follow(
        self, source: watches.Source, path: str, read: Callable[[Mapping[str, Any]], Read | None], kept: Kept[Read]
    ) -> None:
        watch = watches.Watch(source, path, read, kept, wait=self._ended.wait)
        threading.Thread(target=watch.run, name=f"watch of {path}", daemon=True).start()
