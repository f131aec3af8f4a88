"""Which nodes a pod may go to at all: node selector, required node affinity, taints and tolerations, volumes.

Follows kube-scheduler's NodeAffinity, TaintToleration and VolumeBinding plugins; an operator that is not known
excludes the node. `judging` judges by them; the queue asks it before it earmarks. What only kube-scheduler evaluates
(affinity between pods, topology spread, host ports, other extended resources) is known by the nodes that it refused
when it tried the pod.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from cotenant_api import errors
from cotenant_extender.packing import nodeset

Object = Mapping[str, Any]

BLOCKING_EFFECTS = ("NoSchedule", "NoExecute")
_NUMBER: Final = re.compile(r"[+-]?[0-9]+")
_MAX_DIGITS: Final = 63
"""Of a number in a label: no value is longer."""
MAX_PARTS: Final = 1000
"""Terms, expressions and values of a pod's constraint, or a selector, at most: each is looked at for each node."""


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of a node."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Toleration:
    """A toleration of a pod; an empty effect or key stands for any."""

    key: str
    operator: str
    value: str
    effect: str

    def tolerates(self, taint: Taint) -> bool:
        """Return whether the taint keeps this pod away no longer."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.operator == "Exists":
            return not self.key or self.key == taint.key
        return self.operator in ("", "Equal") and self.key == taint.key and self.value == taint.value


@dataclass(frozen=True, slots=True)
class Expression:
    """One requirement on a label (or, as `matchFields`, on a field)."""

    key: str
    operator: str
    values: tuple[str, ...]

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels meet it. An unknown operator is met by none."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                return self._compares(value)
            case _:
                return False

    def _compares(self, value: str | None) -> bool:
        left, right = _number(value), _number(self.values[0] if self.values else None)
        if left is None or right is None:
            return False
        return left > right if self.operator == "Gt" else left < right


def _number(text: str | None) -> int | None:
    """Return a number as kube-scheduler reads it (Go's `ParseInt` with base 10 and 64 bits); None: it is none."""
    if text is None or len(text) > _MAX_DIGITS or not _NUMBER.fullmatch(text):
        return None
    found = int(text)
    return found if -(2**63) <= found < 2**63 else None


@dataclass(frozen=True, slots=True)
class Term:
    """One node selector term: all of its expressions must match, and the only field is `metadata.name`.

    An empty one matches no node.
    """

    expressions: tuple[Expression, ...]
    fields: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraints:
    """Where a pod may go.

    Attributes:
        selector: labels that the node must have.
        terms: alternatives of the required node affinity; None: no affinity.
        volumes: alternatives of each volume; a node must match one of every volume.
        refused: nodes that kube-scheduler refused when it last tried the pod; None: none.
    """

    selector: tuple[tuple[str, str], ...] = ()
    terms: tuple[Term, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    volumes: tuple[tuple[Term, ...], ...] = ()
    refused: nodeset.NodeSet | None = None

    @property
    def of_spec(self) -> "Constraints":
        """These constraints without those that do not stand in the pod's spec."""
        return replace(self, volumes=(), refused=None) if self.volumes or self.refused is not None else self


def of_pod(spec: Object) -> Constraints:
    """Return the constraints in a pod's spec.

    Raises:
        InvalidInputError: they are so many that judging all nodes by them would keep everybody else waiting.
    """
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    found = Constraints(
        selector=tuple(sorted((spec.get("nodeSelector") or {}).items())),
        terms=None if required is None else terms(required),
        tolerations=tuple(_toleration(toleration) for toleration in spec.get("tolerations") or ()),
    )
    parts = sum(size((*term.expressions, *term.fields)) + 1 for term in found.terms or ())
    for field, count in (
        ("spec.affinity.nodeAffinity", parts),
        ("spec.nodeSelector", len(found.selector)),
        ("spec.tolerations", len(found.tolerations)),
    ):
        if count > MAX_PARTS:
            remedy = f"may be {MAX_PARTS} in all: name a label that all nodes of a pool have"
            raise errors.InvalidInputError(field, f"{count} terms, expressions and values", remedy)
    return found


def size(found: tuple[Expression, ...]) -> int:
    """Return how many expressions and values there are."""
    return sum(1 + len(expression.values) for expression in found)


def terms(selector: Object) -> tuple[Term, ...]:
    """Return the alternatives of a node selector."""
    return tuple(_term(term) for term in selector.get("nodeSelectorTerms") or ())


def expressions(values: list[Object] | None) -> tuple[Expression, ...]:
    """Return the requirements of a selector's `matchExpressions`."""
    return tuple(
        Expression(value.get("key", ""), value.get("operator", ""), tuple(value.get("values") or ()))
        for value in values or ()
    )


def labelled(selector: Object) -> tuple[Expression, ...]:
    """Return the requirements of a label selector; one without any selects everything."""
    return (
        *(Expression(key, "In", (value,)) for key, value in (selector.get("matchLabels") or {}).items()),
        *expressions(selector.get("matchExpressions")),
    )


def taints(spec: Object) -> tuple[Taint, ...]:
    """Return the taints in a node's spec."""
    return tuple(
        Taint(taint.get("key", ""), taint.get("value", ""), taint.get("effect", ""))
        for taint in spec.get("taints") or ()
    )


def _toleration(value: Object) -> Toleration:
    return Toleration(value.get("key", ""), value.get("operator", ""), value.get("value", ""), value.get("effect", ""))


def _term(value: Object) -> Term:
    return Term(expressions(value.get("matchExpressions")), expressions(value.get("matchFields")))
