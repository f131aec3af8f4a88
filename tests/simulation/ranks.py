"""Who is evicted for whom: only a pod of lower priority, for one of higher that waits, as the events of both say."""

import re
from typing import Any, Protocol

from api_server import pods, store

Object = dict[str, Any]

_FOR = re.compile(r"evicted for (?P<namespace>[^/]+)/(?P<name>\S+) of priority (?P<priority>-?\d+)")


class World(Protocol):
    """What the rule needs of the world."""

    objects: store.Store

    def fail(self, text: str) -> None:
        """A rule is broken."""


class Ranks:
    """Priorities of all pods that there ever were."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._by_uid: dict[str, int] = {}
        self._by_name: dict[tuple[str, str], set[int]] = {}
        world.objects.listeners.append(self._heard)

    def _heard(self, change: store.Change) -> None:
        value = change.value
        if change.collection == pods.PODS and change.kind == "ADDED":
            metadata, priority = value["metadata"], value["spec"].get("priority") or 0
            self._by_uid[metadata["uid"]] = priority
            self._by_name.setdefault((metadata["namespace"], metadata["name"]), set()).add(priority)
        elif change.collection == "/api/v1/events" and value.get("reason") == "Preempted":
            self._check(value)

    def _check(self, event: Object) -> None:
        victim, found = event["involvedObject"], _FOR.fullmatch(event["message"])
        if found is None:
            self._world.fail(f"an event that does not say for whom: {event['message']}")
            return
        priority = int(found["priority"])
        if priority not in self._by_name.get((found["namespace"], found["name"]), ()):
            self._world.fail(f"{victim['name']} was {event['message']}, which no such pod has")
        if self._by_uid.get(victim["uid"], priority) >= priority:
            self._world.fail(
                f"{victim['name']} has priority {self._by_uid.get(victim['uid'])}, and was {event['message']}"
            )
