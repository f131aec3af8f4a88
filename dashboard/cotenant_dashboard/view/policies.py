"""The policy in force, as the page shows it. Pure."""

from typing import Any

from cotenant_api import packingpolicy
from cotenant_cli.views import explanation_lines

MISSING = f"there is no PackingPolicy named {packingpolicy.NAME}: nothing is placed until there is one"


def part(policy: packingpolicy.PackingPolicy | None, problem: str | None) -> dict[str, Any]:
    """Return what it says, or why nobody knows."""
    if policy is None:
        return {"generation": None, "problem": problem or MISSING}
    return {
        "generation": policy.generation,
        "problem": problem,
        "chosen": explanation_lines.CHOICES[policy.spec.placement],
        "spec": policy.spec.to_object(),
    }
