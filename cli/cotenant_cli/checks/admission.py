"""Whether the admission policies are there, bound, and without faults: they gate pods, and keep forgeries out. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from cotenant_api import findings
from cotenant_cli.reading import kinds
from cotenant_cli.reading.installation import Installation, Source

Object = Mapping[str, Any]
READS: Final = (
    kinds.VALIDATING_POLICIES,
    kinds.VALIDATING_BINDINGS,
    kinds.MUTATING_POLICIES,
    kinds.MUTATING_BINDINGS,
)
VALIDATING: Final = (
    "cotenant-dljob-limits",
    "cotenant-ephemeral-containers",
    "cotenant-limits",
    "cotenant-node-agent-writes",
    "cotenant-observe",
    "cotenant-placements",
    "cotenant-pod-updates",
    "cotenant-pods",
    "cotenant-templates",
)
MUTATING: Final = ("cotenant-pods",)
_REMEDY: Final = "helm upgrade cotenant CHART, or kubectl apply -k manifests"


def examine(seen: Installation) -> Iterator[findings.Finding]:
    """A finding for each that lacks, and one for all that do not."""
    wanted = (
        ("ValidatingAdmissionPolicy", VALIDATING, kinds.VALIDATING_POLICIES, kinds.VALIDATING_BINDINGS),
        ("MutatingAdmissionPolicy", MUTATING, kinds.MUTATING_POLICIES, kinds.MUTATING_BINDINGS),
    )
    well = 0
    for kind, needed, policies, bindings in wanted:
        there, bound = _named(seen, policies), _bound(seen, bindings)
        for name in needed:
            fault = _fault(there.get(name), bound=name in bound)
            if fault is not None:
                yield findings.error(f"{kind}/{name}", fault, _REMEDY)
            well += fault is None
    if well:
        yield findings.ok("cluster", f"{well} of {len(VALIDATING) + len(MUTATING)} admission policies are bound")


def _named(seen: Installation, source: Source) -> dict[str, Object]:
    return {one["metadata"]["name"]: one for one in seen.of(source)}


def _bound(seen: Installation, source: Source) -> set[str]:
    """Policies that are bound; a validating one so that it denies."""
    specs = [one.get("spec") or {} for one in seen.of(source)]
    return {one["policyName"] for one in specs if "Deny" in (one.get("validationActions") or ["Deny"])}


def _fault(policy: Object | None, *, bound: bool) -> str | None:
    if policy is None:
        return "is missing"
    if not bound:
        return "has no binding that denies: nothing is held to it"
    warnings = ((policy.get("status") or {}).get("typeChecking") or {}).get("expressionWarnings") or ()
    if warnings:
        return f"the API server warns of {warnings[0].get('fieldRef')}: {warnings[0].get('warning')}"
    return None
