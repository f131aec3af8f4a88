"""What the extender and the API server counted, from their metrics' text. Pure."""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_REQUEST: Final = re.compile(r"^apiserver_request_total\{(.*)\} (\S+)$", re.MULTILINE)
_TERMINATED: Final = re.compile(r"^apiserver_request_terminations_total\{(.*)\} (\S+)$", re.MULTILINE)
_WRITES: Final = ("POST", "PUT", "PATCH", "DELETE")
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
    """Return how many gates were lifted."""
    return sum(
        int(one.value)
        for one in samples(text)
        if one.name == "lifts_total" and one.labels["result"] == "ok" and one.labels["kind"] == "gate"
    )


def fences(text: str) -> int:
    """Return how many pods were fenced."""
    return sum(int(one.value) for one in samples(text) if one.name == "fences_total")


def results(text: str) -> dict[str, int]:
    """Return how many requests there were by verb and result, binds by result, lifts by kind and result."""
    found = {}
    for one in samples(text):
        if one.name in ("requests_total", "binds_total", "lifts_total"):
            what = one.labels.get("verb") or one.labels.get("kind") or one.name.removesuffix("s_total")
            found[f"{what}.{one.labels['result']}"] = int(one.value)
    return found


def writes(text: str) -> dict[str, int]:
    """Return what was written through the API server, by verb and resource: `PATCH pods/status`."""
    found: dict[str, int] = {}
    for labels, value in _REQUEST.findall(text):
        of = dict(_LABEL.findall(labels))
        if of["verb"] in _WRITES:
            key = f"{of['verb']} {of['resource']}{'/' + of['subresource'] if of.get('subresource') else ''}"
            found[key] = found.get(key, 0) + int(float(value))
    return found


def turned_away(text: str) -> int:
    """Return how many requests the API server answered 429, as too many came at once: clients wait, then ask again."""
    labelled = ((dict(_LABEL.findall(labels)), value) for labels, value in _TERMINATED.findall(text))
    return sum(int(float(value)) for labels, value in labelled if labels["code"] == "429")


def difference(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    """Return what came between two counts."""
    return {key: count - before.get(key, 0) for key, count in after.items() if count > before.get(key, 0)}
