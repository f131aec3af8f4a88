"""Reads YAML that people write, as kubectl reads it: a value of JSON, or one error that names the line. Pure.

Writes YAML that kubectl reads as it was meant, too.

PyYAML alone reads `12:30:00` as a number and `2024-01-01` as a date, keeps the last of two equal keys, and repeats
aliases until the memory is full.
"""

import math
import re
from typing import Any, Final

import yaml

from cotenant_api import errors, nesting

MAX_NODES: Final = 100_000
"""Values of one document, with those that aliases repeat: no object of Kubernetes has as many."""
_TAG: Final = "tag:yaml.org,2002:"
_STRING: Final = f"{_TAG}str"
_MERGE: Final = f"{_TAG}merge"
_KINDS: Final = frozenset(f"{_TAG}{kind}" for kind in ("str", "int", "float", "bool", "null", "map", "seq"))
_INT: Final = re.compile(r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0o?[0-7_]+|0|[1-9][0-9_]*)$")
_FLOAT: Final = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$|[-+]?\.(?:inf|Inf|INF)$|\.(?:nan|NaN|NAN)$"
)
_OF_INTS: Final = list("-+0123456789")
_OF_FLOATS: Final = list("-+.0123456789")
_YES_OR_NO: Final = re.compile(r"[yYnN]$")
_WIDTH: Final = 120
_IN_64_BITS: Final = range(-(2**63), 2**64)


def one(text: str, *, field: str, source: str) -> Any:
    """Return the value of YAML with one document at most; None: it has none.

    Args:
        text: the YAML.
        field: what the reader of an error knows it by (`--filename`).
        source: the file, for the message of an error.

    Raises:
        InvalidInputError: it is no YAML, or holds what JSON cannot.
    """
    found = every(text, field=field, source=source)
    if len(found) > 1:
        raise errors.InvalidInputError(field, source, f"must hold one YAML document; it holds {len(found)}")
    return found[0] if found else None


def every(text: str, *, field: str, source: str) -> list[Any]:
    """Return the values of all documents that are not empty; see `one`."""
    try:
        return [value for value in yaml.load_all(text, Loader=_Loader) if value is not None]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = "" if mark is None else f"line {mark.line + 1}: "
        said = ", ".join(filter(None, (error.context, error.problem)))
        raise errors.InvalidInputError(field, source, f"must be YAML: {where}{said}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise errors.InvalidInputError(field, source, f"must be YAML: {error}") from error


def text(value: object) -> str:
    """Return a value of JSON as YAML, with a line's end; keys stay in their order."""
    return str(yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=_WIDTH))


class _Loader(yaml.SafeLoader):
    """Takes the values of JSON alone, bounded in number and depth."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._open = 0
        self._extents: dict[yaml.Node, tuple[int, int]] = {}
        """Number of values, and levels, of what has been read."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event: yaml.Event = self.peek_event()  # type: ignore[no-untyped-call]
        self._open += 1
        # Before PyYAML goes down further: it is recursive.
        self._require_bounded(1, self._open, event)
        node: yaml.Node | None = super().compose_node(parent, index)
        self._open -= 1
        if node is None:
            return None
        if not isinstance(event, yaml.AliasEvent):
            self._extents[node] = self._extent(node)
        elif node not in self._extents:
            raise _error("an alias stands inside of what it stands for", event)
        self._require_bounded(*self._extents[node], event)
        return node

    def compose_scalar_node(self, anchor: Any) -> yaml.ScalarNode:
        event: yaml.ScalarEvent = self.peek_event()  # type: ignore[no-untyped-call]
        if event.tag not in (None, "!", _STRING):
            raise _error(f"{errors.shortened(event.tag)} is no tag of JSON: leave it out", event)
        return super().compose_scalar_node(anchor)

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if key.tag not in (_STRING, _MERGE):
                written = errors.shortened(key.value) if isinstance(key, yaml.ScalarNode) else "a list or mapping"
                raise _error(f"{written} is no key: keys are strings, in quotes where YAML takes them for more", key)
            if key.value in seen:
                raise _error(f"key {errors.shortened(key.value)} is there twice: leave one out", key)
            seen.add(key.value)
        return node

    def construct_number(self, node: yaml.ScalarNode) -> float:
        """Return a number that JSON can hold; a whole one is an int."""
        whole = node.tag == f"{_TAG}int"
        value: float = self.construct_yaml_int(node) if whole else self.construct_yaml_float(node)
        if (value not in _IN_64_BITS) if whole else not math.isfinite(value):
            raise _error(f"{errors.shortened(node.value)} is no number of JSON: write a string in quotes", node)
        return value

    def construct_text(self, node: yaml.ScalarNode) -> str:
        """Return a string that can be written as UTF-8: an escape may be half of a character."""
        value: str = self.construct_scalar(node)
        value.encode()
        return value

    def _extent(self, node: yaml.Node) -> tuple[int, int]:
        inner: list[yaml.Node] = []
        if isinstance(node, yaml.SequenceNode):
            inner = node.value
        elif isinstance(node, yaml.MappingNode):
            inner = [part for pair in node.value for part in pair]
        extents = [self._extents[part] for part in inner]
        return 1 + sum(size for size, _ in extents), 1 + max((depth for _, depth in extents), default=0)

    def _require_bounded(self, size: int, depth: int, event: yaml.Event) -> None:
        if size > MAX_NODES:
            raise _error(f"has more than {MAX_NODES} values, with those that aliases repeat", event)
        if depth > nesting.MAX_DEPTH:
            raise _error(f"is nested deeper than {nesting.MAX_DEPTH} levels", event)


def _error(said: str, where: yaml.Event | yaml.Node) -> yaml.MarkedYAMLError:
    mark: Any = where.start_mark
    return yaml.MarkedYAMLError(problem=said, problem_mark=mark)


class _Dumper(yaml.SafeDumper):
    """Puts strings in quotes that kubectl would take for more."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag in (f"{_TAG}bool", f"{_TAG}null", _MERGE)]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(f"{_TAG}int", _INT, _OF_INTS)
_Loader.add_implicit_resolver(f"{_TAG}float", _FLOAT, _OF_FLOATS)
_Loader.yaml_constructors = {
    tag: make for tag, make in yaml.SafeLoader.yaml_constructors.items() if tag is None or tag in _KINDS
}
_Loader.add_constructor(f"{_TAG}int", _Loader.construct_number)
_Loader.add_constructor(f"{_TAG}float", _Loader.construct_number)
_Loader.add_constructor(_STRING, _Loader.construct_text)
_Dumper.add_implicit_resolver(f"{_TAG}int", _INT, _OF_INTS)
_Dumper.add_implicit_resolver(f"{_TAG}float", _FLOAT, _OF_FLOATS)
_Dumper.add_implicit_resolver(f"{_TAG}bool", _YES_OR_NO, list("yYnN"))
