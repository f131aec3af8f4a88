"""A steady stream of pods that come, run, finish and are deleted, each with a fate of its own; the same by seed."""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from cluster.workloads import SECONDS, Watchdog, Workspace
from cotenant_api import errors, names
from cotenant_e2e import client as clients
from cotenant_e2e import waiting
from cotenant_e2e.background import Background
from cotenant_e2e.client import Json
from cotenant_e2e.invariants import FINISHED

FATE = "test.cotenant.dev/fate"
FINISHES, DELETED_AT_ONCE, DELETED_WHEN_BOUND, STAYS = "finishes", "deleted-at-once", "deleted-when-bound", "stays"
_FATES = (FINISHES,) * 16 + (DELETED_AT_ONCE,) + (DELETED_WHEN_BOUND,) * 3
_SHARES = (*range(5, 100, 5), 50, 100, 100, 200)
_MEMORY = (None, None, "1Gi", "6Gi", "10Gi", "30Gi", "60Gi")
_LEAST_SHARES = {"1Gi": 1, "6Gi": 5, "10Gi": 8, "30Gi": 23, "60Gi": 45}
"""What a pod has to request to use so much memory of an H200."""
PAUSE_SECONDS = 0.05


@dataclass(frozen=True)
class Plan:
    """A pod that will be. `workspace`: a number."""

    name: str
    workspace: int
    share: int
    annotations: dict[str, str]

    @property
    def fate(self) -> str:
        """What becomes of it."""
        return self.annotations[FATE]


def plans(seed: int, *, workspaces: int, fates: Sequence[str] = _FATES) -> Iterator[Plan]:
    """Pods without end, the same for the same seed. Each fits on an empty GPU of some model."""
    source = random.Random(seed)  # noqa: S311 - not for secrets
    number = 0
    while True:
        share, fate, memory = source.choice(_SHARES), source.choice(fates), source.choice(_MEMORY)
        notes = {FATE: fate}
        if memory is not None and share < names.HUNDREDTHS:
            notes[names.GPU_MEMORY] = memory
            share = max(share, _LEAST_SHARES[memory])
        if fate == FINISHES:
            notes["demo.cotenant.dev/run-for"] = f"{source.uniform(0.5, 4):.2f}s"
        yield Plan(f"pod-{number:04}", source.randrange(workspaces), share, notes)
        number += 1


def tolerated(call: Callable[[], Any]) -> bool:
    """Whether the call was carried out, now or before; refusals and silence of a server in trouble are not errors."""
    try:
        call()
    except errors.TemporaryError:
        return False
    except clients.APIError as error:
        # 409: it is there already; 404: it is gone already.
        return error.code in (404, 409)
    return True


class Stream(Background):
    """Keeps about `level` pods alive for the block, in these workspaces; new ones come as old ones end.

    Attributes:
        created, finished, deleted: keys of pods; whatever was created ends in one of the other two.
    """

    def __init__(self, workspaces: Sequence[Workspace], watchdog: Watchdog, *, seed: int, level: int) -> None:
        self._workspaces, self._watchdog, self._level = list(workspaces), watchdog, level
        self._plans = plans(seed, workspaces=len(workspaces))
        self.created: set[tuple[str, str]] = set()
        self.finished: set[tuple[str, str]] = set()
        self.deleted: set[tuple[str, str]] = set()
        self._unanswered: dict[tuple[str, str], set[tuple[str, str]]] = {}
        self._planned, self._enough = next(self._plans), False
        super().__init__(self._renew, every_seconds=PAUSE_SECONDS)

    def run_dry(self, seconds: float) -> None:
        """Create no more; returns when every pod has ended, which must be within so many seconds."""
        self._enough = True
        try:
            waiting.wait_until(lambda: self.failure or not self.alive(), "every pod ended", seconds)
        except waiting.NotReadyError as error:
            raise waiting.NotReadyError(f"{error}; left: {self._left()}") from None

    def alive(self) -> set[tuple[str, str]]:
        """Pods that have neither finished nor been deleted."""
        return self.created - self.finished - self.deleted

    def _left(self) -> dict[str, str]:
        """What the last events say of each pod that is alive."""
        known = {(pod["metadata"]["namespace"], pod["metadata"]["name"]): pod for pod in self._pods()}
        return {"/".join(key): _state(known.get(key)) for key in sorted(self.alive())}

    def _pods(self) -> list[Json]:
        return self._watchdog.pods(*(space.namespace for space in self._workspaces))

    def _renew(self) -> None:
        self._reap()
        while not self._enough and len(self.alive()) < self._level and self._create(self._planned):
            self._planned = next(self._plans)

    def _create(self, planned: Plan) -> bool:
        space = self._workspaces[planned.workspace]
        if not tolerated(lambda: space.pod(planned.name, planned.share, annotations=planned.annotations)):
            return False
        self.created.add((space.namespace, planned.name))
        if planned.fate == DELETED_AT_ONCE:
            self._end((space.namespace, planned.name), self.deleted)
        return True

    def _reap(self) -> None:
        """Delete what has finished, and what is to be deleted now."""
        # The server may have carried out what it did not answer: no event speaks of that pod again.
        for key, ended in list(self._unanswered.items()):
            self._end(key, ended)
        for pod in self._pods():
            key = (pod["metadata"]["namespace"], pod["metadata"]["name"])
            if key not in self.alive():
                continue
            fate = pod["metadata"]["annotations"][FATE]
            if pod["status"].get("phase") == FINISHED[0]:
                self._end(key, self.finished)
            elif fate == DELETED_AT_ONCE or (fate == DELETED_WHEN_BOUND and pod["spec"].get("nodeName")):
                self._end(key, self.deleted)

    def _end(self, key: tuple[str, str], ended: set[tuple[str, str]]) -> None:
        """Delete a pod; tried again until the server has answered."""
        space = next(space for space in self._workspaces if space.namespace == key[0])
        if tolerated(lambda: space.client.delete(space.pods(key[1]))):
            ended.add(key)
            self._unanswered.pop(key, None)
        else:
            self._unanswered[key] = ended


def _state(pod: Json | None) -> str:
    if pod is None:
        return "gone"
    return f"{pod['status'].get('phase')} on {pod['spec'].get('nodeName')}, {pod['metadata']['annotations']}"


def crowd(workspaces: Sequence[Workspace], *, seed: int, size: int) -> None:
    """Create so many pods that stay until they are deleted."""
    for planned, _ in zip(plans(seed, workspaces=len(workspaces), fates=(STAYS,)), range(size), strict=False):
        space = workspaces[planned.workspace]
        space.pod(f"stays-{planned.name}", planned.share, annotations=planned.annotations)


def fitting(watchdog: Watchdog, workspaces: Sequence[Workspace]) -> list[Json]:
    """Pods that are not placed although some GPU would take them now."""
    waiting_pods = [pod for pod in watchdog.pods(*(s.namespace for s in workspaces)) if not pod["spec"].get("nodeName")]
    with suppress(RuntimeError):  # changed by an event meanwhile: ask again
        return [pod for pod in waiting_pods if watchdog.fits(pod)]
    return waiting_pods


def wait_until_gone(watchdog: Watchdog, gone: Sequence[Json]) -> None:
    """Returns when no event is missing that these pods are deleted."""
    namespaces = {pod["metadata"]["namespace"] for pod in gone}
    uids = {pod["metadata"]["uid"] for pod in gone}

    def left() -> set[str]:
        return uids & {pod["metadata"]["uid"] for pod in watchdog.pods(*namespaces)}

    waiting.wait_until(lambda: not left(), f"{len(uids)} pods gone", SECONDS)
