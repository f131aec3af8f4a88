"""Whether a pod's own specification proves that none of its containers runs as root of the node. Pure.

A tenant of a shared GPU has the socket of its MPS control daemon. The daemon asks the kernel for the user of who
connects, and obeys root (docs/operations/security.md). A pod is proven where

- `hostUsers: false` gives it a user namespace of its own: its root is no root to the daemon; or
- each container runs as another user than 0, with `allowPrivilegeEscalation: false`, without which a program of the
  image with the set-user-ID bit (sudo, su) makes it root, and without the capability SETUID. What a runtime gives by
  default has it: a program with file capabilities, which any volume may carry, then takes root in spite of the second.

All containers that run beside the one with the share count, as that one can hand the connected socket to each of them.
An init container has ended before; what it leaves in a volume gains no user without privilege escalation and SETUID.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

Object = Mapping[str, Any]

PROVEN: Final = {"runAsNonRoot": True, "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
"""The securityContext of a container that may share a GPU, where its image names a user by number."""
_WITH_SETUID: Final = frozenset({"ALL", "SETUID"})
MAX_NAME: Final = 63
"""Characters of a container's name: a template may hold what the API server has yet to refuse."""


def fault(spec: Object, *, path: str = "spec") -> str | None:
    """Return which container may run as root and what to add; None: none may.

    Args:
        spec: a PodSpec, of a pod or of a template.
        path: where it stands, for the message.
    """
    if spec.get("hostUsers") is False:
        return None
    of_pod = _mapping(spec.get("securityContext"))
    for where, container in _beside_the_share(spec):
        lines = _missing(of_pod, _mapping(container.get("securityContext")))
        if lines:
            return (
                f"{path}.{where}.securityContext: may run as root, whom MPS obeys, and tenantUser of the PackingPolicy "
                f"is NonRoot; {' and '.join(lines)}, or set {path}.hostUsers: false"
            )
    return None


def _beside_the_share(spec: Object) -> Iterator[tuple[str, Object]]:
    """Yield the containers that run at the same time as the one with the share, and where each stands."""
    for kind in ("containers", "initContainers", "ephemeralContainers"):
        for container in map(_mapping, spec.get(kind) or ()):
            if kind != "initContainers" or container.get("restartPolicy") == "Always":
                yield f"{kind}[{str(container.get('name', ''))[:MAX_NAME]}]", container


def _missing(of_pod: Object, own: Object) -> list[str]:
    """Return what to do so that a container is proven; the container's own fields count before the pod's."""
    lines = []
    user = own.get("runAsUser") if own.get("runAsUser") is not None else of_pod.get("runAsUser")
    non_root = own.get("runAsNonRoot") if own.get("runAsNonRoot") is not None else of_pod.get("runAsNonRoot")
    if user == 0:
        lines.append("set runAsUser to another user than 0, such as 1000")
    elif user is None and non_root is not True:
        lines.append("add runAsNonRoot: true (and runAsUser: 1000 where the image's user is root)")
    if own.get("allowPrivilegeEscalation") is not False:
        lines.append("add allowPrivilegeEscalation: false")
    capabilities = _mapping(own.get("capabilities"))
    if _WITH_SETUID.isdisjoint(_names(capabilities.get("drop"))):
        lines.append("add capabilities: {drop: [ALL]}")
    # Some runtimes take a capability's name with its prefix, too.
    if not _WITH_SETUID.isdisjoint(name.upper().removeprefix("CAP_") for name in _names(capabilities.get("add"))):
        lines.append("remove SETUID from capabilities.add")
    return lines


def _names(value: object) -> list[str]:
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _mapping(value: object) -> Object:
    return value if isinstance(value, Mapping) else {}
