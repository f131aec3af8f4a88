"""A store that is told of raw objects as watches would tell it, and the page that is made of it."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from cotenant_api import errors
from cotenant_cli.reading import objects
from cotenant_dashboard.watching import live, store

Object = dict[str, Any]
NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


class Time:
    """Goes on when it is told to."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def clock(self) -> live.Clock:
        """Shows it."""
        return live.Clock(now=lambda: NOW, seconds=lambda: self.seconds)


def page(time: Time, *, epoch: str = "e") -> live.Live:
    return live.Live(release="1.2.3", epoch=epoch, clock=time.clock())


def tell(
    fill: store.Store,
    *,
    gpunodes: Iterable[Object] = (),
    pods: Iterable[Object] = (),
    dljobs: Iterable[Object] = (),
    policies: Iterable[Object] = (),
) -> None:
    """All lists, whole."""
    found = {one["metadata"]["name"]: objects.node_of(one) for one in gpunodes}
    fill.nodes().listed(found)
    fill.pods().listed({_key(one): told for one in pods if (told := objects.pod_of(one)) is not None})
    fill.dljobs().listed({_key(one): store.dljob_of(one) for one in dljobs})
    fill.policies().listed({one["metadata"]["name"]: store.policy_of(one) for one in policies})
    for feed in (fill.nodes(), fill.pods(), fill.dljobs(), fill.policies()):
        feed.failed(None)


def change_pod(fill: store.Store, raw: Object) -> None:
    """A pod is new, or not as it was."""
    found = objects.pod_of(raw)
    assert found is not None
    fill.pods().changed(_key(raw), found)


def fail(fill: store.Store, message: str) -> None:
    """The watch of pods fails."""
    fill.pods().failed(errors.TemporaryError(message, delay_seconds=1))


def parts(shown: live.Live) -> dict[str, Any]:
    """What is on the page."""
    return {key: json.loads(text) for key, text in shown.since(None).parts.items()}


def _key(raw: Object) -> str:
    return f"{raw['metadata']['namespace']}/{raw['metadata']['name']}"
