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
    "cotenant-attempts",
    "cotenant-bindings",
    "cotenant-dljob-limits",
    "cotenant-events",
    "cotenant-extraction-writes",
    "cotenant-leader-leases",
    "cotenant-limits",
    "cotenant-node-agent-writes",
    "cotenant-observe",
    "cotenant-operator-dljobs",
    "cotenant-operator-writes",
    "cotenant-pod-security",
    "cotenant-pods",
    "cotenant-scheduler-deletes",
    "cotenant-scheduler-objects",
    "cotenant-scheduler-writes",
    "cotenant-templates",
    "cotenant-tenant-users",
    "cotenant-uninstall-writes",
)
MUTATING: Final = ("cotenant-pods",)
BOUND: Final = {name: name for name in VALIDATING} | {"cotenant-pod-security-of-others": "cotenant-pod-security"}
"""Each validating binding, and its policy."""
_REMEDY: Final = "helm upgrade cotenant CHART, or kubectl apply -k manifests"


def examine(seen: Installation) -> Iterator[findings.Finding]:
    """Yield a finding for each that lacks, and one for all that do not."""
    mutating = {name: name for name in MUTATING}
    wanted = (
        ("ValidatingAdmissionPolicy", VALIDATING, BOUND, kinds.VALIDATING_POLICIES, kinds.VALIDATING_BINDINGS),
        ("MutatingAdmissionPolicy", MUTATING, mutating, kinds.MUTATING_POLICIES, kinds.MUTATING_BINDINGS),
    )
    well = 0
    for kind, needed, by, policies, bindings in wanted:
        there = _named(seen, policies)
        unbound = {by[binding]: binding for binding in by.keys() - _binding(seen, bindings, by)}
        for name in needed:
            fault = _fault(there.get(name), unbound.get(name))
            if fault is not None:
                yield findings.error(f"{kind}/{name}", fault, _REMEDY)
            well += fault is None
    if well:
        yield findings.ok("cluster", f"{well} of {len(VALIDATING) + len(MUTATING)} admission policies are bound")


def _named(seen: Installation, source: Source) -> dict[str, Object]:
    return {one["metadata"]["name"]: one for one in seen.of(source)}


def _binding(seen: Installation, source: Source, by: Mapping[str, str]) -> set[str]:
    """Return the names of the bindings that bind the policy that they should; a validating one so that it denies."""
    return {
        name
        for name, one in _named(seen, source).items()
        for spec in [one.get("spec") or {}]
        if spec["policyName"] == by.get(name) and "Deny" in (spec.get("validationActions") or ["Deny"])
    }


def _fault(policy: Object | None, unbound: str | None) -> str | None:
    if policy is None:
        return "is missing"
    if unbound is not None:
        return f"has no binding {unbound} that denies: nothing is held to it there"
    warnings = ((policy.get("status") or {}).get("typeChecking") or {}).get("expressionWarnings") or ()
    if warnings:
        return f"the API server warns of {warnings[0].get('fieldRef')}: {warnings[0].get('warning')}"
    return None
