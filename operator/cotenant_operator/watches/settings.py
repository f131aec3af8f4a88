"""kopf's settings, all in one place. kopf keeps nothing in anybody's object: there is nowhere to keep it."""

from typing import Any, Final

import kopf

from cotenant_api import names
from cotenant_operator.kube import api
from cotenant_operator.state.kinds import LABELLED, Kind

RESOURCES: Final = {
    Kind.DLJOB: (names.GROUP, names.VERSION, "dljobs"),
    Kind.POLICY: (names.GROUP, names.VERSION, "packingpolicies"),
    Kind.GPU_NODE: (names.GROUP, names.VERSION, "gpunodes"),
    Kind.JOB: ("batch", "v1", "jobs"),
    Kind.DEPLOYMENT: ("apps", "v1", "deployments"),
    Kind.SERVICE: ("", "v1", "services"),
    Kind.POD: ("", "v1", "pods"),
    Kind.RESOURCE_QUOTA: ("", "v1", "resourcequotas"),
}


class NoDiffBase(kopf.DiffBaseStorage):
    """No last-handled state: decisions are level-triggered. Building it would cost more than all else of an event."""

    def build(self, **_: Any) -> Any:
        """Nothing of an object is compared."""
        return {}

    def fetch(self, **_: Any) -> None:
        """Nothing was stored."""

    def store(self, **_: Any) -> None:
        """Nothing is stored."""


class NoProgress(kopf.ProgressStorage):
    """No state of handlers: they take values in and cannot be half done."""

    def fetch(self, **_: Any) -> None:
        """Nothing was stored."""

    def store(self, **_: Any) -> None:
        """Nothing is stored."""

    def purge(self, **_: Any) -> None:
        """Nothing is there."""

    def touch(self, **_: Any) -> None:
        """Nothing is written to wake a handler."""

    def clear(self, *, essence: Any) -> Any:
        """Nothing of it is ours."""
        return essence


def settings() -> kopf.OperatorSettings:
    """Return what the operator runs with."""
    chosen = kopf.OperatorSettings()
    chosen.persistence.diffbase_storage = NoDiffBase()
    chosen.persistence.progress_storage = NoProgress()
    # Events about DLJobs are ours, with stable reasons; kopf's own would be noise.
    chosen.posting.enabled = False
    chosen.peering.standalone = True
    # A watch is renewed before middleboxes drop it, and one that went silent is noticed by missing bookmarks.
    chosen.watching.server_timeout = 300
    chosen.watching.connect_timeout = 10
    chosen.watching.inactivity_timeout = 75
    chosen.watching.reconnect_backoff = 0.5
    # Object by object: a page of large ones would be larger than all that is kept of them.
    chosen.watching.initial_streaming = True
    chosen.watching.chunk_size = api.PAGE
    for kind in LABELLED & RESOURCES.keys():
        group, version, plural = RESOURCES[kind]
        chosen.watching.label_selectors[group, version, plural] = names.DLJOB_LABEL
    chosen.networking.request_timeout = 60
    # A task of kopf per object that had an event: it goes soon, handlers only take values in.
    chosen.queueing.idle_timeout = 0.5
    chosen.process.ultimate_exiting_timeout = 20
    return chosen
