"""What only kube-scheduler evaluates, and which pods cannot be on one node: host ports, anti-affinity by host name.

Follows kube-scheduler's NodePorts and InterPodAffinity plugins. An anti-affinity by another topology, or with a
selector of namespaces, is left to kube-scheduler: it makes no conflict here.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from cotenant_extender.packing import constraints

Object = Mapping[str, Any]
Port = tuple[str, str, int]
"""Protocol, host IP, and number."""

HOST_NAME = "kubernetes.io/hostname"
_ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - an address to compare, not to listen on


class Apart(NamedTuple):
    """Pods that must not be on the same node.

    Attributes:
        namespaces: theirs; None: any.
        expressions: what their labels match.
    """

    namespaces: frozenset[str] | None
    expressions: tuple[constraints.Expression, ...]

    def names(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Return whether a pod is one of them."""
        if self.namespaces is not None and namespace not in self.namespaces:
            return False
        return all(expression.matches(labels) for expression in self.expressions)


class Exclusion(NamedTuple):
    """What a pod excludes from its node: who has one of these ports, and who matches one of these terms."""

    ports: frozenset[Port]
    apart: tuple[Apart, ...]

    @property
    def parts(self) -> int:
        """How many ports, terms, expressions, values and namespaces there are."""
        terms = (1 + constraints.size(term.expressions) + len(term.namespaces or ()) for term in self.apart)
        return len(self.ports) + sum(terms)


NOTHING = Exclusion(frozenset(), ())


class Member(NamedTuple):
    """What of a pod counts for conflicts."""

    namespace: str
    labels: Mapping[str, str]
    excludes: Exclusion


def conflict(one: Member, other: Member) -> bool:
    """Return whether two pods cannot be on one node."""
    first, second = one.excludes, other.excludes
    if first is NOTHING and second is NOTHING:
        return False
    if first.ports and second.ports and _meet(first.ports, second.ports):
        return True
    return any(term.names(other.namespace, other.labels) for term in first.apart) or any(
        term.names(one.namespace, one.labels) for term in second.apart
    )


def exclusion(namespace: str, spec: Object) -> Exclusion:
    """Return what a pod's spec excludes from its node; `NOTHING` itself where it excludes nothing.

    What is more than `constraints.MAX_PARTS` ports, expressions, values and namespaces is left to kube-scheduler.
    """
    ports, affinity = _ports(spec), spec.get("affinity")
    if not ports and not affinity:
        return NOTHING
    anti = (affinity or {}).get("podAntiAffinity") or {}
    required = anti.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
    apart = tuple(term for raw in required if (term := _apart(namespace, raw)) is not None)
    found = Exclusion(frozenset(ports), apart)
    return found if 0 < found.parts <= constraints.MAX_PARTS else NOTHING


def _ports(spec: Object) -> list[Port]:
    """Return the host ports of containers and sidecars."""
    found: list[Port] = []
    for container in spec.get("containers") or ():
        found += _of_container(container)
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            found += _of_container(container)
    return found


def _of_container(container: Object) -> list[Port]:
    ports = container.get("ports")
    if not ports:
        return []
    return [
        (port.get("protocol") or "TCP", port.get("hostIP") or _ANY_ADDRESS, port["hostPort"])
        for port in ports
        if port.get("hostPort")
    ]


def _meet(ports: frozenset[Port], taken: frozenset[Port]) -> bool:
    """Return whether a port is the same: of the same address, or of any on either side."""
    if not ports.isdisjoint(taken):
        return True
    return any(
        not _numbers(open_to_any, _ANY_ADDRESS).isdisjoint(_numbers(others))
        for open_to_any, others in ((ports, taken), (taken, ports))
    )


def _numbers(ports: frozenset[Port], address: str = "") -> set[tuple[str, int]]:
    """Return protocols and numbers of these ports, perhaps only of those of one address."""
    return {(protocol, number) for protocol, where, number in ports if address in ("", where)}


def _apart(namespace: str, raw: Object) -> Apart | None:
    """Return a term of an anti-affinity; None where it makes no conflict here."""
    selector, among = raw.get("labelSelector"), raw.get("namespaceSelector")
    if raw.get("topologyKey") != HOST_NAME or selector is None or among:
        return None
    namespaces = None if among is not None else frozenset(raw.get("namespaces") or (namespace,))
    return Apart(namespaces, constraints.labelled(selector))
