"""What is collected of the measurements of all namespaces: whose a line is and which graph it has is not believed."""

import base64
import json
from typing import Any

from cotenant_api import names
from cotenant_api.graph import Graph
from cotenant_api.names import GraphDigest
from cotenant_operator.learning import collecting, ledger
from cotenant_operator.parsing import tasks
from operator_kit import objects
from operator_kit.measuring import line
from operator_kit.parsing import Inline

Json = dict[str, Any]

GRAPH = objects.toy_graph()
LARGER = objects.toy_graph(flops=2**27)


def config_map(namespace: str, *lines: str, **graphs: bytes) -> Json:
    """The ConfigMap of a namespace; graphs by their digests without `sha256:`."""
    empty = ledger.manifest(namespace, ledger.EMPTY, {}, release=names.RELEASE_NAMESPACE)
    binary = {f"{key}{ledger.SUFFIX}": base64.b64encode(data).decode() for key, data in graphs.items()}
    return empty | {"data": {ledger.KEY: "\n".join(lines)}, "binaryData": binary}


def kept(document: Graph) -> str:
    """The name under which a graph is kept."""
    return document.digest.removeprefix("sha256:")


def text(graph: GraphDigest, name: str = "a", **fields: Any) -> str:
    return line(name, graph=graph, **fields).to_json()


async def collected(config_maps: list[Json], parser: Inline | None = None) -> collecting.Collected:
    return await collecting.collected(config_maps, (parser or Inline()).ask)


async def test_whose_a_line_is_follows_from_the_name_of_its_config_map() -> None:
    forged = line("a", graph=GRAPH.digest, namespace="somebody-else").to_json()
    found = await collected([config_map("team", forged, **{kept(GRAPH): GRAPH.packed()})])
    assert [each.namespace for each in found.lines] == ["team"]


async def test_a_graph_under_the_digest_of_another_is_left_out_and_wins_nowhere() -> None:
    honest = config_map("a-team", text(GRAPH.digest), **{kept(GRAPH): GRAPH.packed()})
    thief = config_map("z-team", text(GRAPH.digest, "b"), **{kept(GRAPH): LARGER.packed()})
    for order in ([honest, thief], [thief, honest]):
        found = await collected(order)
        assert [each.namespace for each in found.lines] == ["a-team"]
        assert json.loads(found.text()[0])["operators"] == GRAPH.to_object()["operators"]
        assert len(found.skipped) == 2
        assert f"the content's digest is {LARGER.digest}" in found.skipped[0]


async def test_a_network_is_named_by_the_namespace_of_its_line() -> None:
    renamed = GRAPH.model_copy(update={"name": "resnet50"})
    assert renamed.computed_digest() == GRAPH.digest
    first = config_map("a", text(GRAPH.digest, "a"), **{kept(GRAPH): renamed.packed()})
    second = config_map("b", text(GRAPH.digest, "b"), **{kept(GRAPH): GRAPH.packed()})
    found = await collected([first, second])
    assert [each.group for each in found.lines] == ["resnet50", "toy"]


async def test_lines_and_graphs_that_cannot_be_read_are_left_out_and_told_of() -> None:
    lines = (text(GRAPH.digest), "nonsense", text(GraphDigest("sha256:00"), "b"))
    found = await collected([config_map("team", *lines, **{kept(GRAPH): GRAPH.packed(), "11": b"\x1f\x8bcut"})])
    assert [each.id for each in found.lines] == ["a"]
    place = f"ConfigMap {ledger.name_of('team')}"
    assert [problem.startswith(place) for problem in found.skipped] == [True] * 3
    assert sum("a line is no measurement" in problem for problem in found.skipped) == 1


async def test_another_config_map_is_not_looked_at() -> None:
    other = config_map("team", text(GRAPH.digest), **{kept(GRAPH): GRAPH.packed()})
    del other["metadata"]["labels"][ledger.LABEL]
    renamed = config_map("team", text(GRAPH.digest), **{kept(GRAPH): GRAPH.packed()})
    renamed["metadata"]["name"] = "settings"
    assert (await collected([other, renamed])).text() == []


class Failing(Inline):
    """A reader that is gone when a graph of the namespace `evil` comes."""

    async def ask(self, namespace: str, task: tasks.Task, data: bytes) -> tasks.Answer:
        """The answer, or a fault."""
        found = await super().ask(namespace, task, data)
        return tasks.failed("the reader was ended") if (namespace, task.kind) == ("evil", "Document") else found


async def test_every_document_is_read_by_the_reader_and_one_that_ends_it_costs_the_others_nothing() -> None:
    both = [config_map(name, text(GRAPH.digest, name), **{kept(GRAPH): GRAPH.packed()}) for name in ("evil", "team")]
    parser = Failing()
    found = await collected(both, parser)
    assert [each.namespace for each in found.lines] == ["team"]
    assert [task.kind for task in parser.asked] == ["Document", "Lines"] * 2
    assert "the reader was ended" in found.skipped[0]
