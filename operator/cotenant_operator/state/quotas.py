"""What is kept of ResourceQuotas, and of the gangs that compete for one. Values and their reading; pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from cotenant_operator.state import demand, views
from cotenant_operator.state.setbacks import Setback
from cotenant_operator.state.views import Key


class Scope(NamedTuple):
    """A scope of a quota: `Exists`, `In`, `NotIn` or `DoesNotExist`."""

    name: str
    operator: str
    values: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Quota:
    """A ResourceQuota, as the API server enforces it.

    Attributes:
        hard: the limits that are in force.
        used: what is charged so far; a limit that is not in here has not been counted yet.
    """

    key: Key
    uid: str
    version: int
    hard: Mapping[str, Decimal]
    used: Mapping[str, Decimal]
    scopes: tuple[Scope, ...]

    def left(self, resource: str) -> Decimal | None:
        """Return what is left of a limit; None where there is none, or it has not been counted yet."""
        if resource not in self.hard or resource not in self.used:
            return None
        return self.hard[resource] - self.used[resource]


@dataclass(frozen=True, kw_only=True, slots=True)
class Rival:
    """Another gang of the namespace.

    Attributes:
        created: when its DLJob was.
        demand: what its pods ask for.
        missing: how many of them are not there.
        waits: its Job is suspended, and nobody but the quota holds it.
        setback: how it went before.
    """

    key: Key
    created: datetime
    demand: demand.Demand
    missing: int
    waits: bool
    setback: Setback | None


def read(value: views.Object) -> Quota:
    """Return a ResourceQuota. Its limits are those of the status, which the API server enforces."""
    spec, status = value.get("spec") or {}, value.get("status") or {}
    metadata = value["metadata"]
    scopes = [Scope(name, "Exists", ()) for name in spec.get("scopes") or ()]
    selected = (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    scopes += [Scope(item["scopeName"], item["operator"], tuple(item.get("values") or ())) for item in selected]
    return Quota(
        key=Key(metadata["namespace"], metadata["name"]),
        uid=metadata["uid"],
        version=int(metadata.get("resourceVersion", 0)),
        hard=demand.amounts(status.get("hard") or spec.get("hard")),
        used=demand.amounts(status.get("used")),
        scopes=tuple(scopes),
    )
