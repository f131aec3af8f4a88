"""Graph networks, embedding bags and sparse gradients: sizes come from declared examples of the inputs."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from cotenant_api.graph import Graph, Operator, OperatorClass, Phase

Extract = Callable[..., Graph]
NODES, EDGES, WIDTH = 1000, 5000, 32

pytestmark = [
    pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta"),
    pytest.mark.filterwarnings("ignore:Sparse invariant checks are implicitly disabled"),
]


class Messages(nn.Module):
    """A layer of a graph network: gather along edges, add up at their ends, divide by how many there were."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(16, WIDTH)

    def forward(self, features: Tensor, edges: Tensor) -> Tensor:
        """Features of shape (nodes, 16), edges of shape (2, edges)."""
        added = torch.zeros(features.shape[0], WIDTH).index_add(0, edges[1], self.layer(features)[edges[0]])
        degrees = torch.zeros(features.shape[0]).scatter_add(0, edges[1], torch.ones(edges.shape[1]))
        return added / degrees.clamp(min=1).unsqueeze(1)


class Product(nn.Module):
    """A layer of a graph network: a product with the adjacency matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(16, WIDTH)

    def forward(self, features: Tensor, adjacency: Tensor) -> Tensor:
        """Features of shape (nodes, 16), adjacency of shape (nodes, nodes)."""
        return torch.sparse.mm(adjacency, self.layer(features))


def messages() -> Any:
    return Messages(), (torch.empty(NODES, 16), torch.zeros(2, EDGES, dtype=torch.long))


def of(graph: Graph, name: str, phase: Phase = Phase.FORWARD) -> Operator:
    (found,) = [op for op in graph.operators if op.name == name and op.phase is phase]
    return found


def test_gathers_and_scatters_are_sparse_and_sized_by_the_declared_edges(extract: Extract) -> None:
    graph = extract(messages)
    gather, scatter = of(graph, "aten::index"), of(graph, "aten::index_add")
    assert {op.operator_class for op in (gather, scatter)} == {OperatorClass.SPARSE}
    assert gather.bytes_read == 4 * NODES * WIDTH + 8 * EDGES  # every node is picked more than once
    assert scatter.flops == EDGES * WIDTH
    assert of(graph, "aten::scatter_add").operator_class is OperatorClass.SPARSE
    assert of(graph, "aten::index_put", Phase.BACKWARD).operator_class is OperatorClass.SPARSE
    assert graph.coverage.unknown == {}


@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_product_with_a_sparse_matrix_meets_its_entries_both_ways(layout: str, extract: Extract) -> None:
    def build() -> Any:
        with torch.device("cpu"):
            ends = torch.stack([torch.arange(EDGES) % NODES, torch.arange(EDGES) // NODES])
            adjacency = torch.sparse_coo_tensor(ends, torch.ones(EDGES), (NODES, NODES)).coalesce()
        return Product(), (torch.empty(NODES, 16), adjacency if layout == "coo" else adjacency.to_sparse_csr())

    graph = extract(build)
    forward = of(graph, "aten::_sparse_addmm")
    (backward,) = [op for op in graph.operators if op.phase is Phase.BACKWARD and "entries" in op.dims]
    for op in (forward, backward):
        assert op.operator_class is OperatorClass.SPARSE
        assert op.dims == {"entries": EDGES, "m": NODES, "n": WIDTH, "k": NODES}
        assert op.flops == 2 * EDGES * WIDTH


def test_sparse_matrix_made_in_the_step_is_sized_by_its_entries(extract: Extract) -> None:
    class Making(Product):
        def forward(self, features: Tensor, ends: Tensor) -> Tensor:
            return super().forward(features, torch.sparse_coo_tensor(ends, torch.ones(EDGES), (NODES, NODES)))

    graph = extract(lambda: (Making(), (torch.empty(NODES, 16), torch.zeros(2, EDGES, dtype=torch.long))))
    assert of(graph, "aten::_sparse_addmm").dims["entries"] == EDGES


def test_embedding_bags_read_a_row_for_every_index(extract: Extract) -> None:
    class Bag(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.EmbeddingBag(10_000, 64, mode="sum")

        def forward(self, indices: Tensor, starts: Tensor) -> Tensor:
            return self.table(indices, starts)

    graph = extract(lambda: (Bag(), (torch.zeros(3000, dtype=torch.long), torch.zeros(100, dtype=torch.long))))
    bag = of(graph, "aten::_embedding_bag")
    assert bag.operator_class is OperatorClass.EMBEDDING
    assert bag.bytes_read == 4 * 3000 * 64 + 8 * 3000 + 8 * 100
    assert of(graph, "aten::_embedding_bag_backward", Phase.BACKWARD).bytes_written == 4 * 10_000 * 64


def test_sparse_gradients_sweep_only_their_rows(extract: Extract) -> None:
    def build() -> Any:
        return nn.Embedding(10_000, 64, sparse=True), torch.zeros(100, dtype=torch.long), lambda out: (out * out).sum()

    sweep = of(extract(build, optimizer="sparseadam"), "optimizer::sparseadam", Phase.OPTIMIZER)
    assert sweep.dims["gradientBytes"] == 100 * (4 * 64 + 8)
    assert sweep.dims["stateBytes"] == 2 * 4 * 10_000 * 64
    assert sweep.bytes_written < 0.05 * sweep.dims["stateBytes"]
