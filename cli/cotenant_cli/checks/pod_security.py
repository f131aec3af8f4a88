"""Whether the namespaces that share GPUs enforce Pod Security's level baseline, the barrier to the host. Pure."""

from collections.abc import Iterator
from typing import Final

from cotenant_api import findings
from cotenant_cli.reading import kinds
from cotenant_cli.reading.installation import Installation

READS: Final = (kinds.PODS, kinds.NAMESPACES)
LABEL: Final = "pod-security.kubernetes.io/enforce"
ENOUGH: Final = ("baseline", "restricted")


def examine(seen: Installation) -> Iterator[findings.Finding]:
    """Yield a finding for each namespace with tenants that does not enforce it, and one for all that do."""
    levels = {
        one["metadata"]["name"]: (one["metadata"].get("labels") or {}).get(LABEL, "")
        for one in seen.of(kinds.NAMESPACES)
    }
    tenants = (one["metadata"] for one in seen.of(kinds.PODS))
    shared = sorted({one["namespace"] for one in tenants if not kinds.is_component(one)})
    well = 0
    for name in shared:
        level = levels.get(name, "")
        if level in ENOUGH:
            well += 1
            continue
        found = f"{LABEL} is {level}" if level else f"has no label {LABEL}"
        what = f"{found}: who may make pods there may make privileged ones, and use every GPU of a node"
        yield findings.warning(
            f"Namespace/{name}", what, f"kubectl label namespace {name} {LABEL}=baseline --overwrite"
        )
    if well:
        yield findings.ok("cluster", f"{well} namespaces that share GPUs enforce Pod Security's level baseline")
