"""kopf at the rim: watch events go into the observed state and name DLJobs to look at. Nothing is decided here.

Only low-level event handlers are used, so kopf writes nothing into anybody's object: no finalizer, no annotation.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import kopf

from cotenant_api import names
from cotenant_operator import api, controller, resync
from cotenant_operator.store import Kind

_RESOURCES: Final = {
    Kind.DLJOB: (names.GROUP, names.VERSION, "dljobs"),
    Kind.POLICY: (names.GROUP, names.VERSION, "packingpolicies"),
    Kind.GPU_NODE: (names.GROUP, names.VERSION, "gpunodes"),
    Kind.JOB: ("batch", "v1", "jobs"),
    Kind.DEPLOYMENT: ("apps", "v1", "deployments"),
    Kind.POD: ("", "v1", "pods"),
}

Handler = Callable[..., Awaitable[None]]


def registry(
    work: controller.Controller, sweeper: resync.Sweeper, *, login: Callable[[], Awaitable[kopf.ConnectionInfo]]
) -> kopf.OperatorRegistry:
    """The handlers of every kind that is watched."""
    found = kopf.OperatorRegistry()

    async def log_in(**_: Any) -> kopf.ConnectionInfo:
        return await login()

    async def queued(**_: Any) -> int:
        return work.queued

    kopf.on.login(registry=found)(log_in)
    kopf.on.probe(id="queued", registry=found)(queued)
    for kind, (group, version, plural) in _RESOURCES.items():
        on_event(found, group, version, plural)(handler(kind, work, sweeper))
    return found


def on_event(found: kopf.OperatorRegistry, group: str, version: str, plural: str) -> Callable[[Handler], Any]:
    """The decorator of a kind's event handler."""
    return kopf.on.event(group=group, version=version, plural=plural, id=plural, registry=found)


def handler(kind: Kind, work: controller.Controller, sweeper: resync.Sweeper) -> Handler:
    """Takes in the events of one kind."""

    async def take_in(event: Any, **_: Any) -> None:
        value = event["object"]
        uid = value["metadata"]["uid"]
        if event["type"] == "DELETED":
            work.enqueue(work.store.remove(kind, uid))
            return
        if event["type"] is None and work.store.knows(kind, uid):
            # Listed again: the watch was lost, and deletions with it.
            sweeper.want(kind)
        work.enqueue(work.store.put(kind, value))

    return take_in


def settings() -> kopf.OperatorSettings:
    """Kopf's settings, all in one place."""
    chosen = kopf.OperatorSettings()
    # Events about DLJobs are ours, with stable reasons; kopf's own would be noise.
    chosen.posting.enabled = False
    chosen.peering.standalone = True
    # A watch is renewed before middleboxes drop it, and one that went silent is noticed by missing bookmarks.
    chosen.watching.server_timeout = 300
    chosen.watching.connect_timeout = 10
    chosen.watching.inactivity_timeout = 75
    chosen.watching.reconnect_backoff = 0.5
    chosen.watching.chunk_size = 500
    for kind in api.LABELLED:
        group, version, plural = _RESOURCES[kind]
        chosen.watching.label_selectors[group, version, plural] = names.DLJOB_LABEL
    chosen.networking.request_timeout = 60
    # A worker of kopf per object that had an event: it goes soon, handlers only take values in.
    chosen.queueing.idle_timeout = 0.5
    chosen.process.ultimate_exiting_timeout = 20
    return chosen
