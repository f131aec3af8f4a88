"""Whether the pods of Cotenant's own components run and are ready. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from cotenant_api import conditions, findings, names
from cotenant_cli.reading import kinds
from cotenant_cli.reading.installation import Installation

Object = Mapping[str, Any]
READS: Final = (kinds.PODS, kinds.POLICY, kinds.LEASES)
MANY_RESTARTS: Final = 5
_ONLY_TO_PACK: Final = (names.SCHEDULER_ACCOUNT, "cotenant-mps")
_ON_NODES: Final = (names.NODE_AGENT_ACCOUNT, "cotenant-mps")
"""Where these lack, `gpu-nodes` says on which nodes."""


def examine(seen: Installation) -> Iterator[findings.Finding]:
    """Yield a finding for each component, and for each pod of it that is not well."""
    for component in kinds.COMPONENTS:
        found = [one for one in seen.of(kinds.PODS) if _is(one, component, seen.namespace)]
        ill = [finding for one in found if (finding := _illness(one)) is not None]
        yield from ill
        if not found and component == names.SCHEDULER_ACCOUNT and _leads(seen):
            yield findings.ok(f"{seen.namespace}/{component}", "leads, and is no pod of this namespace")
        elif not found and component not in _ON_NODES and not _observes(component, seen):
            remedy = f"helm status cotenant -n {seen.namespace}; a component outside of the cluster is not seen here"
            yield findings.warning(f"{seen.namespace}/{component}", "there is no pod of it", remedy)
        if found and not ill:
            count = f"{len(found)} pods are" if len(found) > 1 else "its pod is"
            yield findings.ok(f"{seen.namespace}/{component}", f"{count} ready")


def _is(pod: Object, component: str, namespace: str) -> bool:
    metadata = pod["metadata"]
    return metadata["namespace"] == namespace and (metadata.get("labels") or {}).get(kinds.COMPONENT) == component


def _leads(seen: Installation) -> bool:
    leases = [one for one in seen.of(kinds.LEASES) if one["metadata"]["name"] == names.SCHEDULER_LEASE]
    return any(kinds.expired(one, seen) is None for one in leases)


def _observes(component: str, seen: Installation) -> bool:
    """Return whether a component is not there because nothing is to be packed."""
    return component in _ONLY_TO_PACK and kinds.observes(seen.of(kinds.POLICY))


def _illness(pod: Object) -> findings.Finding | None:
    """Why a pod is not well."""
    metadata, status = pod["metadata"], pod["status"]
    where = f"Pod/{metadata['namespace']}/{metadata['name']}"
    see = f"kubectl -n {metadata['namespace']} describe pod {metadata['name']}"
    for one in status.get("containerStatuses") or ():
        waiting = (one.get("state") or {}).get("waiting")
        if waiting:
            what = f"container {one['name']} waits: {waiting.get('reason')}: {waiting.get('message') or 'no message'}"
            return findings.error(where, what, f"{see}; kubectl logs --previous {metadata['name']} -c {one['name']}")
        if int(one.get("restartCount") or 0) >= MANY_RESTARTS:
            what = f"container {one['name']} has restarted {one['restartCount']} times"
            return findings.warning(
                where, what, f"kubectl -n {metadata['namespace']} logs --previous {metadata['name']}"
            )
        if status.get("phase") == "Running" and not one.get("ready"):
            return findings.warning(where, f"container {one['name']} is not ready", see)
    if status.get("phase") != "Running":
        scheduled = conditions.find(conditions.from_objects(_known(status)), "PodScheduled")
        why = f": {scheduled.message}" if scheduled is not None and scheduled.message else ""
        return findings.error(where, f"is {status.get('phase')}{why}", see)
    return None


def _known(status: Object) -> list[Object]:
    """Conditions with a reason: Kubernetes' own may have none."""
    return [one for one in status.get("conditions") or () if one.get("reason")]
