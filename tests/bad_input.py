"""What somebody may write that cannot be used, as data: each case names what the answer must say."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Case:
    """One thing that somebody writes.

    Attributes:
        name: of the case; unique among those of its table.
        said: what the answer must hold, in any order: the field, the value where it is short, the remedy.
    """

    name: str
    said: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Object(Case):
    """An object that somebody applies.

    Attributes:
        kind: DLJob, Pod or PackingPolicy.
        spec: of a DLJob beside its template, or of a policy; of a pod, its annotations.
        template: what differs in the template's spec.
        container: what differs in the container.
        metadata: what differs in the metadata: of the template for a DLJob, else of the object.
        reason: the reason under which an object that the API server takes tells what is wrong; empty: it is refused.
    """

    kind: str
    spec: dict[str, Any] = field(default_factory=dict)
    template: dict[str, Any] = field(default_factory=dict)
    container: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Words(Case):
    """A command line; `{NAME}` stands for a file of the table's.

    Attributes:
        line: behind `cotenant`.
        code: the exit code.
    """

    line: str
    code: int = 2
