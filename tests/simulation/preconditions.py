"""What an extender asks of a pod, it asks of one pod: a name may be used again while a request is under way.

Judged where a request takes effect. The API server honours the UID in the metadata of a Binding and of a patch, and in
the preconditions of an Eviction and of a deletion.
"""

from typing import Any, Protocol

import orjson

from api_server import handlers, pods, store
from cotenant_extender.kube import transport
from simulation import network

Object = dict[str, Any]


class World(Protocol):
    """What the rule needs of the world."""

    objects: store.Store

    def fail(self, text: str) -> None:
        """A rule is broken."""


def check(world: World, sender: network.Link, request: transport.Request) -> None:
    """Fail the world where a request of an extender could take effect on a pod that it does not mean."""
    if not sender.name.endswith("/extender") or request.method not in ("DELETE", "PATCH", "POST"):
        return
    target = handlers.named(request.path)
    if target.collection != pods.PODS or not target.name:
        return
    what = f"{request.method} {target.subresource or 'pod'} of {target.name} by {sender.name}"
    meant = _meant(request, target.subresource)
    if not meant:
        world.fail(f"{what} names no UID")


def _meant(request: transport.Request, subresource: str) -> str:
    """The UID that a request names as its precondition; empty: none."""
    body: Object = orjson.loads(request.body or b"{}")
    if request.method == "DELETE" or subresource == "eviction":
        options = body.get("deleteOptions") or {} if subresource == "eviction" else body
        return str((options.get("preconditions") or {}).get("uid", ""))
    return str((body.get("metadata") or {}).get("uid", ""))
