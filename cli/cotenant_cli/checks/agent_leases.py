"""Whether the node agents are alive: each renews a Lease, and without one its node takes no new pods. Pure."""

from collections.abc import Iterator
from typing import Final

from cotenant_api import findings, names
from cotenant_cli.reading import kinds
from cotenant_cli.reading.installation import Installation

READS: Final = (kinds.NODES, kinds.GPUNODES, kinds.LEASES)


def examine(seen: Installation) -> Iterator[findings.Finding]:
    """Yield a finding for each agent that is silent, and one for all that are not."""
    leases = {one["metadata"]["name"]: one for one in seen.of(kinds.LEASES)}
    told = {one["metadata"]["name"] for one in seen.of(kinds.GPUNODES)}
    nodes = sorted(one["metadata"]["name"] for one in seen.of(kinds.NODES) if kinds.is_labelled(one))
    fresh = 0
    for name in (name for name in nodes if name in told):
        lease = leases.get(f"{names.AGENT_LEASE_PREFIX}{name}")
        fault = "it has no Lease" if lease is None else kinds.expired(lease, seen)
        if fault is None:
            fresh += 1
            continue
        selector = f"-l {kinds.COMPONENT}={names.NODE_AGENT_ACCOUNT} --field-selector spec.nodeName={name}"
        remedy = f"kubectl -n {seen.namespace} logs {selector} --tail 50"
        yield findings.error(f"Node/{name}", f"its agent is silent: {fault}; the node takes no new pods", remedy)
    if fresh:
        yield findings.ok("cluster", f"{fresh} node agents have renewed their Lease in time")
