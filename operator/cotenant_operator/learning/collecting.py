"""From the ConfigMaps of measurements to the documents that `cotenant train` reads. Decides; reads nothing itself.

The operator alone writes these ConfigMaps, in the release's namespace. Still nothing in them is believed that can be
checked: whose a line is follows from the ConfigMap's name, and a graph's digest from its content. Graphs are tenants'
documents: the confined process reads them, and the lines. What cannot be used is left out and told of; the other lines
are collected.
"""

import base64
import binascii
import gzip
import io
import json
import zlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cotenant_api import errors, measurement
from cotenant_api import graph as graphs
from cotenant_api.names import GraphDigest
from cotenant_operator.learning import ledger
from cotenant_operator.parsing import tasks

Ask = Callable[[str, tasks.Task, bytes], Awaitable[tasks.Answer]]
"""Whose bytes they are, what is wanted of them, and they: the confined process answers."""


class Document(NamedTuple):
    """A graph document.

    Attributes:
        text: one line of JSON.
        network: what the graph is named after, whatever its batch size; empty: it has no name.
    """

    text: str
    network: str


@dataclass(kw_only=True, slots=True)
class Collected:
    """What was collected.

    Attributes:
        graphs: by the digest of their content.
        lines: each with its namespace, and of a graph that is there.
        skipped: what is wrong with each graph and the lines that are left out.
    """

    graphs: dict[GraphDigest, Document] = field(default_factory=dict)
    lines: list[measurement.Measurement] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    def text(self) -> list[str]:
        """Return the graphs that lines name, each once, then the lines."""
        used = sorted({line.graph for line in self.lines})
        return [self.graphs[digest].text for digest in used] + [line.to_json() for line in self.lines]


async def collected(config_maps: Iterable[Mapping[str, Any]], ask: Ask) -> Collected:
    """Return the graphs and the lines of the ConfigMaps of all namespaces.

    A line's group is the network that its namespace's graph is named after, so that batch sizes of one are held out
    together.
    """
    found = Collected()
    for config_map in config_maps:
        namespace = ledger.namespace_of(config_map)
        if namespace is not None:
            await _collect(found, namespace, config_map, ask)
    return found


async def _collect(found: Collected, namespace: str, config_map: Mapping[str, Any], ask: Ask) -> None:
    place = f"ConfigMap {config_map['metadata']['name']}"
    own: dict[GraphDigest, Document] = {}
    for claimed, packed in ledger.graphs(config_map).items():
        try:
            document = await _document(packed, claimed, namespace, ask, source=f"{place}.binaryData")
        except errors.InvalidInputError as error:
            found.skipped.append(str(error))
        else:
            own[claimed] = document
            found.graphs.setdefault(claimed, document)
    task = tasks.Task(kind=tasks.Kind.LINES, source=f"{place}.data")
    answer = await ask(namespace, task, ledger.text(config_map))
    if (problem := answer.problem or answer.fault) is not None:
        found.skipped.append(problem)
    # Each is one thing that was left out.
    found.skipped += [f"{task.source}: a line is no measurement of this version"] * answer.skipped
    for line in answer.lines:
        if line.graph not in own:
            remedy = "its graph is not kept: nothing can be learned from this line"
            found.skipped.append(str(errors.InvalidInputError(f"{task.source}.graph", line.graph, remedy)))
            continue
        known = {"namespace": namespace, "group": own[line.graph].network or line.group}
        found.lines.append(line.model_copy(update=known))


async def _document(packed: str, claimed: GraphDigest, namespace: str, ask: Ask, *, source: str) -> Document:
    """Return a graph document whose content has the digest under which it is kept. Raises InvalidInputError."""
    task = tasks.Task(kind=tasks.Kind.DOCUMENT, source=source)
    answer = await ask(namespace, task, _from_base64(packed, source=source))
    if answer.graph is None or answer.packed is None:
        raise errors.InvalidInputError(source, claimed, answer.problem or answer.fault or "could not be read")
    if answer.graph != claimed:
        remedy = f"the content's digest is {answer.graph}: a graph is kept under the digest of its content"
        raise errors.InvalidInputError(source, claimed, remedy)
    return _named(_from_base64(answer.packed, source=source), source=source)


def _from_base64(text: str, *, source: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise errors.InvalidInputError(source, text[:32], f"must be base64: {error}") from error


def _named(packed: bytes, *, source: str) -> Document:
    """Return what the confined process wrote itself; within bounds all the same."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
            text = file.read(graphs.MAX_BYTES + 1)
        value = json.loads(text)
        name, batch = str(value.get("name") or ""), value.get("batchSize")
    except (OSError, EOFError, zlib.error, ValueError, RecursionError, AttributeError) as error:
        raise errors.InvalidInputError(source, packed[:16], f"no graph document came back: {error}") from error
    return Document(json.dumps(value, separators=(",", ":")), name.removesuffix(f"-{batch}"))
