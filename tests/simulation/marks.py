"""The mark of a later leader stands: no request of a former one may take effect on a pod that bears it.

Which leader is the later one is told by the Lease, as the API server had it: the clocks of hosts may be set.
"""

from typing import Any, Protocol

import orjson

from api_server import handlers, pods, store
from cotenant_api import names
from cotenant_extender import leadership, records
from cotenant_extender.kube import transport
from simulation import election, network

Object = dict[str, Any]


class World(Protocol):
    """What the rule needs of the world."""

    objects: store.Store

    def fail(self, text: str) -> None:
        """A rule is broken."""


class Marks:
    """The terms that there were, in order."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._terms: dict[str, int] = {}
        world.objects.listeners.append(self._heard)

    def overtaken(self, request: transport.Request) -> bool:
        """Return whether a request writes a mark on a pod that bears that of a later leader."""
        target = handlers.named(request.path)
        if request.method != "PATCH" or target.collection != pods.PODS or target.subresource:
            return False
        stored = self._world.objects.objects[pods.PODS].get((target.namespace, target.name))
        written = mark_of(orjson.loads(request.body or b"{}"))
        standing = mark_of(stored or {})
        return bool(written and standing) and self._terms.get(written, -1) < self._terms.get(standing, -1)

    def arrives(self, request: transport.Request) -> network.Judge | None:
        """Return who is to be told of the answer to a request that is about to take effect."""
        if not self.overtaken(request):
            return None

        def judge(answer: transport.Answer) -> None:
            if answer.status < 300:
                self._world.fail(f"{request.path} took the mark of a later leader")

        return judge

    def _heard(self, change: store.Change) -> None:
        if change.collection == election.LEASES_ALL and change.value["metadata"]["name"] == names.SCHEDULER_LEASE:
            lease = records.lease_record(change.value)
            mark = leadership.Term(lease.holder, lease.acquired).mark
            self._terms.setdefault(mark, len(self._terms))


def mark_of(value: Object) -> str:
    """Return the mark in the earmark annotation of a pod, or of a patch; empty: none."""
    text = ((value.get("metadata") or {}).get("annotations") or {}).get(names.EARMARK)
    return str(orjson.loads(text).get("leader", "")) if text else ""
