"""kopf at the rim: watch events go into the observed state and name DLJobs to look at. Nothing is decided here.

Only low-level event handlers are used, so kopf writes nothing into anybody's object: no finalizer, no annotation.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import kopf

from cotenant_operator.loop import controller
from cotenant_operator.state import reading
from cotenant_operator.state.kinds import Kind
from cotenant_operator.watches import resync, settings

Handler = Callable[..., Awaitable[None]]
Login = Callable[[], Awaitable[kopf.ConnectionInfo | kopf.AiohttpSession]]


def registry(
    work: controller.Controller,
    sweeper: resync.Sweeper,
    *,
    login: Login,
    finish: Callable[[], Awaitable[None]],
) -> kopf.OperatorRegistry:
    """Return the handlers of every kind that is watched; `finish` is awaited when the operator stops."""
    found = kopf.OperatorRegistry()

    async def log_in(**_: Any) -> kopf.ConnectionInfo | kopf.AiohttpSession:
        return await login()

    async def queued(**_: Any) -> int:
        return work.queued

    async def clean_up(**_: Any) -> None:
        await finish()

    kopf.on.login(registry=found)(log_in)
    kopf.on.cleanup(registry=found)(clean_up)
    kopf.on.probe(id="queued", registry=found)(queued)
    for kind, (group, version, plural) in settings.RESOURCES.items():
        on_event(found, group, version, plural)(handler(kind, work, sweeper))
    return found


def on_event(found: kopf.OperatorRegistry, group: str, version: str, plural: str) -> Callable[[Handler], Any]:
    """Return the decorator of a kind's event handler."""
    return kopf.on.event(group=group, version=version, plural=plural, id=plural, registry=found)


def handler(kind: Kind, work: controller.Controller, sweeper: resync.Sweeper) -> Handler:
    """Return what takes in the events of one kind."""

    async def take_in(event: Any, **_: Any) -> None:
        value = event["object"]
        uid = value["metadata"]["uid"]
        if event["type"] == "DELETED":
            # An object that lost the label by which it is watched is told as deleted, and comes back when it has it.
            work.enqueue(work.store.remove(kind, uid, version=reading.version(value)))
        else:
            if event["type"] is None and work.store.knows(kind, uid):
                # Listed again: the watch was lost, and deletions with it.
                sweeper.want(kind)
            work.enqueue(work.store.put(kind, value))
        _strip(value)

    return take_in


def _strip(value: dict[str, Any]) -> None:
    """Leave of an object that was taken in what kopf looks at afterwards: it keeps each until no event follows."""
    for field in value.keys() - {"apiVersion", "kind", "metadata"}:
        del value[field]
