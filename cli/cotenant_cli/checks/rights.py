"""What the caller may do with Cotenant: a command that would be refused is named with the right that lacks. Pure."""

from collections.abc import Iterator, Mapping
from typing import Final

from cotenant_api import findings, names
from cotenant_cli.reading.installation import Installation, Right, Source

READS: Final[tuple[Source, ...]] = ()
_PODS: Final = Right(verb="list", group="", resource="pods")
_GPUNODES: Final = Right(verb="list", group=names.GROUP, resource="gpunodes")
BY_COMMAND: Final[Mapping[str, tuple[Right, ...]]] = {
    "top, why": (
        _PODS,
        _GPUNODES,
        Right(verb="list", group=names.GROUP, resource="dljobs"),
        Right(verb="list", group=names.GROUP, resource="packingpolicies"),
    ),
    "submit": (
        Right(verb="patch", group="", resource="configmaps"),
        Right(verb="patch", group=names.GROUP, resource="dljobs"),
    ),
    "node drain": (
        _PODS,
        _GPUNODES,
        Right(verb="list", group="", resource="nodes"),
        Right(verb="patch", group="", resource="nodes"),
        Right(verb="create", group="", resource="pods", subresource="eviction"),
    ),
}
RIGHTS: Final = tuple(dict.fromkeys(right for needed in BY_COMMAND.values() for right in needed))


def examine(seen: Installation) -> Iterator[findings.Finding]:
    """Yield a finding for each command, of rights in all namespaces."""
    for command, needed in BY_COMMAND.items():
        lacking = [str(right) for right in needed if not seen.rights.get(right, False)]
        if lacking:
            what = f"this account may not, in all namespaces: {', '.join(lacking)}"
            remedy = "bind it a role that may (the ClusterRole cotenant-viewer may read)"
            yield findings.warning(f"cotenant {command}", what, remedy)
        else:
            yield findings.ok(f"cotenant {command}", "this account may")
