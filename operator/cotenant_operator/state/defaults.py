"""What the LimitRanges of a namespace put into containers that leave it open. Values and their reading; pure.

The rules are those of Kubernetes 1.36, `plugin/pkg/admission/limitranger`: what a container sets stands, and so does a
request that the API server has derived from its limit. The API server writes into a LimitRange what follows from its
`max` and `min`, so that only `default` and `defaultRequest` count.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

_CONTAINER: Final = "Container"


@dataclass(frozen=True, kw_only=True, slots=True)
class Defaults:
    """What a container gets, by resource, as quantities."""

    requests: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)


NONE: Final = Defaults()


def read(limit_ranges: Iterable[Mapping[str, Any]]) -> Defaults:
    """Of several LimitRanges in no order that is promised, the first of their names."""
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    for one in sorted(limit_ranges, key=lambda found: str(found["metadata"]["name"])):
        for item in (one.get("spec") or {}).get("limits") or ():
            if item.get("type") == _CONTAINER:
                requests = {**(item.get("defaultRequest") or {}), **requests}
                limits = {**(item.get("default") or {}), **limits}
    return Defaults(requests=requests, limits=limits)


def applied(spec: Mapping[str, Any], defaults: Defaults) -> dict[str, Any]:
    """Return a pod's spec, or the part of it that asks for resources, as admission leaves it."""
    if defaults == NONE:
        return dict(spec)
    kinds = ("containers", "initContainers")
    return {**spec, **{kind: [_filled(one, defaults) for one in spec.get(kind) or ()] for kind in kinds}}


def _filled(container: Mapping[str, Any], defaults: Defaults) -> dict[str, Any]:
    resources = container.get("resources") or {}
    limits = resources.get("limits") or {}
    requests = {**defaults.requests, **limits, **(resources.get("requests") or {})}
    return {**container, "resources": {**resources, "requests": requests, "limits": {**defaults.limits, **limits}}}
