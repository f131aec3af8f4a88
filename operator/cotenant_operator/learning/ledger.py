"""The measurements of a namespace, as one ConfigMap holds them, and what follows from them. Pure.

data["measurements.jsonl"]          a line per measurement, the oldest first
binaryData["<digest>.json.gz"]      the graphs that the lines name, each once
"""

import base64
import binascii
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cotenant_api import errors, measurement, names
from cotenant_api.graph import Graph
from cotenant_api.names import GPUModel, GraphDigest
from cotenant_operator import labels
from cotenant_operator.state.measured import Alone, Learned, Measured

NAME: Final = "cotenant-measurements"
LABEL: Final = f"{names.GROUP}/measurements"
KEY: Final = "measurements.jsonl"
SUFFIX: Final = ".json.gz"
MAX_LINES_BYTES: Final = 256 * 1024
MAX_GRAPHS_BYTES: Final = 512 * 1024
"""Together well below the 1 MiB that a ConfigMap may hold."""
MAX_OF_A_GRAPH: Final = 8
"""Lines of one graph on one GPU model."""
LEARNED_PERCENT: Final = 110
"""Of the largest peak: peaks are seen every few seconds, and a short one may have been higher."""

Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Ledger:
    """The lines of one namespace, the oldest first."""

    lines: tuple[measurement.Measurement, ...] = ()

    @property
    def ids(self) -> frozenset[str]:
        """What has a line."""
        return frozenset(line.id for line in self.lines)

    def with_lines(self, more: Iterable[measurement.Measurement]) -> "Ledger":
        """With further lines; one of the same id takes the place of the former. Within the bounds."""
        new = {line.id: line for line in more}
        kept = [new.pop(line.id, line) for line in self.lines]
        return Ledger(lines=_bounded([*kept, *new.values()]))

    def learned(self, graph: GraphDigest | None) -> Learned:
        """What the lines of one graph teach."""
        mine = [line for line in self.lines if line.graph == graph]
        peaks = [line.values.memory_peak_mib or 0 for line in mine]
        memory = -(-max(peaks) * LEARNED_PERCENT // 100) if any(peaks) else None
        return Learned(memory_mib=memory, measured=_measured(mine))


EMPTY: Final = Ledger()


def is_ours(config_map: Mapping[str, Any]) -> bool:
    """Whether a ConfigMap of this name was made for this."""
    return LABEL in (config_map["metadata"].get("labels") or {})


def read(config_map: Mapping[str, Any] | None) -> Ledger:
    """The lines of a ConfigMap; those that cannot be read are left out, somebody else wrote them."""
    text = str(((config_map or {}).get("data") or {}).get(KEY) or "")
    found = []
    for line in text.splitlines():
        try:
            found.append(measurement.Measurement.from_json(line, source=KEY))
        except errors.InvalidInputError:
            continue
    return Ledger(lines=_bounded(found))


def graphs(config_map: Mapping[str, Any] | None) -> dict[GraphDigest, str]:
    """The graphs of a ConfigMap, packed and in base64."""
    found = ((config_map or {}).get("binaryData") or {}).items()
    return {GraphDigest(f"sha256:{key.removesuffix(SUFFIX)}"): text for key, text in found if key.endswith(SUFFIX)}


def packed(document: Graph) -> str:
    """A graph as a ConfigMap holds it."""
    return base64.b64encode(document.packed()).decode()


def manifest(namespace: str, ledger: Ledger, documents: Mapping[GraphDigest, str]) -> Json:
    """The ConfigMap; owned by nobody, so that it outlives the DLJobs that it tells of."""
    text = "".join(f"{line.to_json()}\n" for line in ledger.lines)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": NAME,
            "namespace": namespace,
            "labels": {labels.MANAGED_BY: labels.FIELD_MANAGER, LABEL: "true"},
        },
        "data": {KEY: text},
        "binaryData": {_key(graph): document for graph, document in _fitting(ledger, documents).items()},
    }


def patch(found: Mapping[str, Any], wanted: Json) -> Json:
    """The merge patch from one ConfigMap to another, only if the first is still as it was read."""
    gone = dict.fromkeys((found.get("binaryData") or {}).keys() - wanted["binaryData"].keys())
    return {
        "metadata": {
            "uid": found["metadata"]["uid"],
            "resourceVersion": found["metadata"]["resourceVersion"],
            "labels": wanted["metadata"]["labels"],
        },
        "data": wanted["data"],
        "binaryData": {**gone, **wanted["binaryData"]},
    }


def collected(config_maps: Iterable[Mapping[str, Any]]) -> list[str]:
    """The graphs and the lines of ConfigMaps as `cotenant train` reads them: the graphs first, each once.

    A line's group is the network that its graph is named after, so that batch sizes of one are held out together. A
    line whose graph is not there is left out: it teaches nothing.
    """
    packed: dict[GraphDigest, str] = {}
    lines: list[measurement.Measurement] = []
    for config_map in config_maps:
        packed |= graphs(config_map)
        lines += read(config_map).lines
    documents = {graph: _unpacked(text) for graph, text in sorted(packed.items())}
    usable = {graph: document for graph, document in documents.items() if document is not None}
    kept = [line for line in lines if line.graph in usable]
    used = sorted({line.graph for line in kept})
    named = (line.model_copy(update={"group": _group(usable[line.graph], line)}) for line in kept)
    return [json.dumps(usable[graph], separators=(",", ":")) for graph in used] + [line.to_json() for line in named]


def _unpacked(text: str) -> Json | None:
    """A graph document; None where somebody else wrote what cannot be read."""
    try:
        return dict(Graph.read(base64.b64decode(text), source=NAME).to_object())
    except (errors.InvalidInputError, binascii.Error):
        return None


def _group(document: Json, line: measurement.Measurement) -> str:
    name = str(document.get("name") or "")
    return name.removesuffix(f"-{document.get('batchSize')}") or line.group


def _bounded(lines: list[measurement.Measurement]) -> tuple[measurement.Measurement, ...]:
    """The newest, so many of each graph on each GPU model, and so many bytes in all."""
    counts: Counter[tuple[GraphDigest, GPUModel]] = Counter()
    kept, size = [], 0
    for line in reversed(lines):
        counts[line.graph, line.gpu_model] += 1
        size += len(line.to_json()) + 1
        if size > MAX_LINES_BYTES:
            break
        if counts[line.graph, line.gpu_model] <= MAX_OF_A_GRAPH:
            kept.append(line)
    return tuple(reversed(kept))


def _fitting(ledger: Ledger, documents: Mapping[GraphDigest, str]) -> dict[GraphDigest, str]:
    """The graphs that the lines name, those of the newest lines first, as many as there is room for."""
    found: dict[GraphDigest, str] = {}
    room = MAX_GRAPHS_BYTES
    for line in reversed(ledger.lines):
        text = documents.get(line.graph)
        if text is None or line.graph in found or len(text) > room:
            continue
        found[line.graph], room = text, room - len(text)
    return found


def _measured(lines: Iterable[measurement.Measurement]) -> Measured | None:
    """The newest measurement alone on each GPU model."""
    rows: dict[GPUModel, Alone] = {}
    for line in lines:
        if line.outcome is measurement.Outcome.OK and line.values.utilization is not None:
            rows[line.gpu_model] = Alone(
                seconds=int(line.duration_seconds),
                utilization_percent=min(round(line.values.utilization), 100),
                memory_peak_mib=line.values.memory_peak_mib or 0,
            )
    return Measured(by_gpu=rows) if rows else None


def _key(graph: GraphDigest) -> str:
    return f"{graph.removeprefix('sha256:')}{SUFFIX}"
