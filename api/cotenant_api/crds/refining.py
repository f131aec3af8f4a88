"""What is added to a generated schema: CEL rules and keywords, by the path of a field."""

from dataclasses import dataclass, field
from typing import Any

from cotenant_api.crds import structural


@dataclass(frozen=True)
class Rule:
    """One `x-kubernetes-validations` entry; `field_path` is relative to where the rule stands."""

    rule: str
    message: str
    field_path: str = ""
    reason: str = "FieldValueInvalid"
    only_new: bool = False
    """Objects that are there already may stay as they are: their status must be written on."""

    def to_object(self) -> dict[str, Any]:
        """As the CRD writes it."""
        rule = f"oldSelf.hasValue() || {self.rule}" if self.only_new else self.rule
        entry: dict[str, Any] = {"rule": rule, "message": self.message, "reason": self.reason}
        entry |= {"optionalOldSelf": True} if self.only_new else {}
        return entry | ({"fieldPath": self.field_path} if self.field_path else {})


@dataclass(frozen=True)
class Refinement:
    """What is added to a generated schema: rules and extra keywords by path."""

    rules: dict[str, tuple[Rule, ...]] = field(default_factory=dict)
    keywords: dict[str, structural.Schema] = field(default_factory=dict)
