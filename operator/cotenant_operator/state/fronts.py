"""The Services of DLJobs: a part of the store. No I/O.

Of a Service only what a decision rests on is kept: its ports, and which pods it selects. The headless Services of gangs
are made once and never changed: nothing is kept of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cotenant_operator import labels
from cotenant_operator.state import reading, views

_HEADLESS: Final = "None"


@dataclass(frozen=True, kw_only=True, slots=True)
class Port:
    """A port of a Service; absent fields have the values that the API server gives them."""

    port: int
    target: int | str
    name: str = ""
    protocol: str = "TCP"
    app_protocol: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Service:
    """A Service that names a DLJob.

    Attributes:
        made: the operator made it, by its label.
        selector: labels of the pods that get its requests.
    """

    meta: views.Meta
    made: bool
    selector: Mapping[str, str]
    ports: tuple[Port, ...]


@dataclass
class Fronts:
    """Every such Service, by DLJob and UID."""

    _found: dict[views.Key, dict[str, Service]] = field(default_factory=dict)

    def take(self, key: views.Key, value: views.Object, count: views.Count) -> frozenset[views.Key]:
        """Take in a Service; return the DLJob that it concerns."""
        if value["spec"].get("clusterIP") != _HEADLESS:
            found = service(value)
            count(found.meta, found)
            self._found.setdefault(key, {})[found.meta.uid] = found
        return frozenset([key])

    def drop(self, uid: str, key: views.Key) -> frozenset[views.Key]:
        """Forget a Service; return the DLJob that it concerned."""
        inner = self._found.get(key, {})
        if inner.pop(uid, None) is not None and not inner:
            del self._found[key]
        return frozenset([key])

    def all(self, key: views.Key) -> tuple[Service, ...]:
        """Return the Services that name a DLJob."""
        return tuple(self._found.get(key, {}).values())

    def of(self, key: views.Key, dljob_uid: str) -> tuple[Service, ...]:
        """Return the Services that a DLJob controls."""
        return tuple(one for one in self.all(key) if one.meta.owner_uid == dljob_uid)


def service(value: views.Object) -> Service:
    """Return a core/v1 Service."""
    spec: views.Object = value["spec"]
    return Service(
        meta=reading.meta(value),
        made=reading.label(value, labels.MANAGED_BY) == labels.FIELD_MANAGER,
        selector=dict(spec.get("selector") or {}),
        ports=tuple(port(one) for one in spec.get("ports") or ()),
    )


def port(value: Mapping[str, Any]) -> Port:
    """Return a port as the API server stores it. Its number at the nodes belongs to whoever changed the type."""
    return Port(
        port=value["port"],
        target=value.get("targetPort", value["port"]),
        name=value.get("name", ""),
        protocol=value.get("protocol", "TCP"),
        app_protocol=value.get("appProtocol"),
    )
