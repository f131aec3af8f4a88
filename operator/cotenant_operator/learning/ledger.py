"""The measurements of a namespace, as one ConfigMap in the release's namespace holds them. Pure.

data["measurements.jsonl"]          a line per measurement, the oldest first
binaryData["<digest>.json.gz"]      the graphs that the lines name, each once
"""

import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from cotenant_api import errors, measurement, names
from cotenant_api.names import GPUModel, GraphDigest
from cotenant_operator import labels
from cotenant_operator.state.measured import Alone, Learned, Measured

PREFIX: Final = "cotenant-measurements-"
"""Of a ConfigMap's name; the namespace whose jobs were measured follows."""
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


class Brief(NamedTuple):
    """What of a line is kept in memory: a tenth of it.

    Attributes:
        ok: whether the run ended well.
        utilization: of time alone on the GPU, in percent; None: not measured.
    """

    graph: GraphDigest
    gpu_model: GPUModel
    ok: bool
    utilization: float | None
    seconds: int
    peak_mib: int


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
        """Return what the lines of one graph teach."""
        return learned(self.briefs(), graph)

    def briefs(self) -> tuple["Brief", ...]:
        """Return what of the lines is needed to learn from them."""
        return tuple(map(brief, self.lines))


EMPTY: Final = Ledger()


def name_of(namespace: str) -> str:
    """Return the name of the ConfigMap that holds a namespace's measurements."""
    return f"{PREFIX}{namespace}"


def namespace_of(config_map: Mapping[str, Any]) -> str | None:
    """Return the namespace whose measurements a ConfigMap holds; None: it was not made for measurements."""
    metadata = config_map["metadata"]
    is_ours = LABEL in (metadata.get("labels") or {}) and metadata["name"].startswith(PREFIX)
    return str(metadata["name"]).removeprefix(PREFIX) if is_ours else None


def brief(line: measurement.Measurement) -> Brief:
    """Return what of a line is kept in memory."""
    return Brief(
        graph=GraphDigest(sys.intern(line.graph)),
        gpu_model=GPUModel(sys.intern(line.gpu_model)),
        ok=line.outcome is measurement.Outcome.OK,
        utilization=line.values.utilization,
        seconds=int(line.duration_seconds),
        peak_mib=line.values.memory_peak_mib or 0,
    )


def learned(lines: Iterable[Brief], graph: GraphDigest | None) -> Learned:
    """Return what the lines of one graph teach."""
    mine = [line for line in lines if line.graph == graph]
    largest = max((line.peak_mib for line in mine), default=0)
    memory = -(-largest * LEARNED_PERCENT // 100) if largest else None
    return Learned(memory_mib=memory, measured=_measured(mine))


def read(config_map: Mapping[str, Any] | None) -> Ledger:
    """Return the lines of a ConfigMap, without those that cannot be read."""
    return Ledger(lines=_bounded(parsed(config_map, source=KEY)[0]))


def parsed(
    config_map: Mapping[str, Any] | None, *, source: str
) -> tuple[list[measurement.Measurement], list[errors.InvalidInputError]]:
    """Return the lines of a ConfigMap, and what is wrong with those that cannot be read."""
    text = str(((config_map or {}).get("data") or {}).get(KEY) or "")
    found, bad = [], []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            found.append(measurement.Measurement.from_json(line, source=f"{source}:{number}"))
        except errors.InvalidInputError as error:
            bad.append(error)
    return found, bad


def text(config_map: Mapping[str, Any] | None) -> bytes:
    """Return the lines of a ConfigMap as bytes: as many of the newest, whole, as it may have."""
    whole = str(((config_map or {}).get("data") or {}).get(KEY) or "").encode()
    if len(whole) <= MAX_LINES_BYTES:
        return whole
    return whole[-MAX_LINES_BYTES:].partition(b"\n")[2]


def graphs(config_map: Mapping[str, Any] | None) -> dict[GraphDigest, str]:
    """Return the graphs of a ConfigMap, packed and in base64."""
    found = ((config_map or {}).get("binaryData") or {}).items()
    return {GraphDigest(f"sha256:{key.removesuffix(SUFFIX)}"): text for key, text in found if key.endswith(SUFFIX)}


def manifest(namespace: str, ledger: Ledger, documents: Mapping[GraphDigest, str], *, release: str) -> Json:
    """Return the ConfigMap; owned by nobody, so that it outlives the DLJobs that it tells of.

    Args:
        namespace: whose jobs were measured.
        ledger: the lines.
        documents: graphs, packed and in base64.
        release: the namespace of the ConfigMap, where tenants may write nothing.
    """
    text = "".join(f"{line.to_json()}\n" for line in ledger.lines)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name_of(namespace),
            "namespace": release,
            "labels": {labels.MANAGED_BY: labels.FIELD_MANAGER, LABEL: "true"},
        },
        "data": {KEY: text},
        "binaryData": {_key(graph): document for graph, document in _fitting(ledger, documents).items()},
    }


def patch(found: Mapping[str, Any], wanted: Json) -> Json:
    """Return the merge patch from one ConfigMap to another, only if the first is still as it was read."""
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


def _bounded(lines: list[measurement.Measurement]) -> tuple[measurement.Measurement, ...]:
    """Return the newest, so many of each graph on each GPU model, and so many bytes in all."""
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
    """Return the graphs that the lines name, those of the newest lines first, as many as there is room for."""
    found: dict[GraphDigest, str] = {}
    room = MAX_GRAPHS_BYTES
    for line in reversed(ledger.lines):
        text = documents.get(line.graph)
        if text is None or line.graph in found or len(text) > room:
            continue
        found[line.graph], room = text, room - len(text)
    return found


def _measured(lines: Iterable[Brief]) -> Measured | None:
    """Return the newest measurement alone on each GPU model."""
    rows: dict[GPUModel, Alone] = {}
    for line in lines:
        if line.ok and line.utilization is not None:
            rows[line.gpu_model] = Alone(
                seconds=line.seconds,
                utilization_percent=min(round(line.utilization), 100),
                memory_peak_mib=line.peak_mib,
            )
    return Measured(by_gpu=rows) if rows else None


def _key(graph: GraphDigest) -> str:
    return f"{graph.removeprefix('sha256:')}{SUFFIX}"
