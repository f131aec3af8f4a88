"""Whether somebody leads: only the extender beside the kube-scheduler that leads places pods. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from cotenant_api import findings, names
from cotenant_cli.reading import kinds
from cotenant_cli.reading.installation import Installation

Object = Mapping[str, Any]
READS: Final = (kinds.LEASES, kinds.PODS, kinds.POLICY)


def examine(seen: Installation) -> Iterator[findings.Finding]:
    """Yield the Lease of kube-scheduler, and the pods that wait for whoever holds it."""
    where = f"Lease/{seen.namespace}/{names.SCHEDULER_LEASE}"
    lease = next((one for one in seen.of(kinds.LEASES) if one["metadata"]["name"] == names.SCHEDULER_LEASE), None)
    waiting = sum(map(_gated, seen.of(kinds.PODS)))
    fault = "nobody has led yet" if lease is None else kinds.expired(lease, seen)
    if fault is None:
        holder = ((lease or {}).get("spec") or {}).get("holderIdentity")
        yield findings.ok(where, f"{holder} leads; {waiting} pods wait at their gate")
    elif kinds.observes(seen.of(kinds.POLICY)) and not waiting:
        yield findings.ok(where, "nobody leads: the PackingPolicy only observes")
    else:
        what = f"{fault}: {waiting} pods wait at the gate {names.PACKING_GATE}, and nobody lifts it"
        remedy = f"kubectl -n {seen.namespace} logs deployment/{names.SCHEDULER_ACCOUNT} --all-containers --tail 50"
        yield findings.error(where, what, remedy)


def _gated(pod: Object) -> bool:
    gates = pod["spec"].get("schedulingGates") or ()
    return any(gate.get("name") == names.PACKING_GATE for gate in gates)
