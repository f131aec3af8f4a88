"""The policy in force, as the page shows it. Pure."""

from typing import Any

from cotenant_api import packingpolicy

MISSING = f"there is no PackingPolicy named {packingpolicy.NAME}: nothing is placed until there is one"


def part(policy: packingpolicy.PackingPolicy | None, problem: str | None) -> dict[str, Any]:
    """Return what it says, or why nobody knows."""
    if policy is None:
        return {"generation": None, "problem": problem or MISSING}
    return {
        "generation": policy.generation,
        "problem": problem,
        "chosen": policy.spec.placement.words,
        "spec": policy.spec.to_object(),
    }
