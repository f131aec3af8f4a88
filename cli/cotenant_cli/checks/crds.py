"""Whether the CRDs are there, served, and those of this release: everything that ours define, theirs do, too. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from cotenant_api import conditions, findings
from cotenant_api.crds import definitions
from cotenant_cli.reading import kinds
from cotenant_cli.reading.installation import Installation

_OURS: Final = {found["metadata"]["name"]: found for found in definitions.definitions().values()}
_SOURCES: Final = {name: kinds.crd(name) for name in _OURS}
READS: Final = tuple(_SOURCES.values())
_REMEDY: Final = (
    "helm show crds CHART | kubectl apply --server-side --force-conflicts -f -, with the chart of this release"
)


def examine(seen: Installation) -> Iterator[findings.Finding]:
    """One finding for each kind."""
    for name, ours in _OURS.items():
        there = seen.of(_SOURCES[name])
        yield _finding(f"CustomResourceDefinition/{name}", ours, there[0] if there else None)


def _finding(where: str, ours: Mapping[str, Any], theirs: Mapping[str, Any] | None) -> findings.Finding:
    if theirs is None:
        return findings.error(where, "is missing", _REMEDY)
    said = conditions.from_objects((theirs.get("status") or {}).get("conditions"))
    established = conditions.find(said, "Established")
    if established is None or established.status is not conditions.Status.TRUE:
        return findings.error(where, "is not served yet", f"kubectl describe crd {where.partition('/')[2]} says why")
    lacking = _lacking(ours["spec"], theirs.get("spec") or {}, "spec")
    if lacking is not None:
        return findings.error(where, f"is of another release: {lacking} differs", _REMEDY)
    return findings.ok(where, "as this release defines it")


def _lacking(ours: Any, theirs: Any, path: str) -> str | None:
    """Return the first place where theirs is not ours; what the API server fills in is none."""
    if isinstance(ours, dict):
        if not isinstance(theirs, dict):
            return path
        # `x-kubernetes-...: false` and empty collections are not kept.
        pairs = [(key, value, theirs.get(key)) for key, value in ours.items() if value not in (False, [], {})]
        return next((at for key, one, two in pairs if (at := _lacking(one, two, f"{path}.{key}"))), None)
    if isinstance(ours, (list, tuple)):
        if not isinstance(theirs, list) or len(ours) != len(theirs):
            return path
        pairs_ = enumerate(zip(ours, theirs, strict=True))
        return next((at for index, (one, two) in pairs_ if (at := _lacking(one, two, f"{path}[{index}]"))), None)
    return None if ours == theirs else path
