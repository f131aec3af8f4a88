"""What the status of the PackingPolicy says of the generation in force. Pure."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from cotenant_api import conditions, errors
from cotenant_extender.ledger import ledger

Object = dict[str, Any]


def wanted(
    raw: Mapping[str, Any], error: errors.InvalidInputError | None, *, in_force: ledger.Ledger, now: datetime
) -> Object | None:
    """Return the status that the policy should have; None where it has it."""
    policy = in_force.policy
    if policy is None and error is None:
        return None
    generation = (raw.get("metadata") or {}).get("generation", 0)
    standing = raw.get("status") or {}
    accepted = conditions.Condition(
        type="Accepted",
        status=conditions.Status.TRUE if error is None else conditions.Status.FALSE,
        reason="Valid" if error is None else "Invalid",
        message="" if error is None else str(error),
        observed_generation=generation,
    )
    active = conditions.Condition(
        type="Active",
        status=conditions.Status.TRUE if policy is not None and policy.places else conditions.Status.FALSE,
        reason="InForce" if policy is not None and policy.places else "Standstill",
        message="" if policy is None or policy.places else policy.standstill,
        observed_generation=0 if policy is None else policy.generation,
    )
    found = conditions.from_objects(standing.get("conditions"))
    for condition in (accepted, active):
        found = conditions.updated(found, condition, now=now)
    status: Object = {"conditions": [condition.to_object() for condition in found]}
    if policy is not None:
        status["observedGeneration"] = policy.generation
    return None if all(standing.get(key) == value for key, value in status.items()) else status
