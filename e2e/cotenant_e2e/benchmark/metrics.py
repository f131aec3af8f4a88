"""What the extender counted, from its metrics' text. Pure."""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_LINE: Final = re.compile(r"^cotenant_extender_(\w+?)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')


class Sample(NamedTuple):
    """One line."""

    name: str
    labels: dict[str, str]
    value: float


def samples(text: str) -> Iterator[Sample]:
    """All of the extender's."""
    for name, labels, value in _LINE.findall(text):
        yield Sample(name, dict(_LABEL.findall(labels)), float(value))


def lifted(text: str) -> int:
    """How many gates were lifted."""
    return sum(
        int(one.value)
        for one in samples(text)
        if one.name == "lifts_total" and one.labels["result"] == "ok" and one.labels["kind"] == "gate"
    )


def results(text: str) -> dict[str, int]:
    """Requests by verb and result, binds by result, lifts by kind and result."""
    found = {}
    for one in samples(text):
        if one.name in ("requests_total", "binds_total", "lifts_total"):
            labels = ".".join(one.labels.values())
            found[f"{one.name.removesuffix('_total')}.{labels}"] = int(one.value)
    return found
