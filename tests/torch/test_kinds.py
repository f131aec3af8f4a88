"""Kinds of jobs beside one model and one optimizer: checkpointing both ways, a GAN, fused cells, and odd embeddings."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils import checkpoint

from cotenant_api.graph import Graph, OperatorClass, Phase

Extract = Callable[..., Graph]


class Deep(nn.Module):
    """Blocks, checkpointed or not."""

    def __init__(self, **how: Any) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Tanh()) for _ in range(4))
        self.how = how

    def forward(self, values: Tensor) -> Tensor:
        """Values of shape (b, 64)."""
        for block in self.blocks:
            values = checkpoint.checkpoint(block, values, **self.how) if self.how else block(values)
        return values


def products(graph: Graph) -> int:
    return sum(op.repeat for op in graph.operators if op.operator_class is OperatorClass.MATMUL)


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("compiled", [True, False])
def test_checkpointing_computes_forward_twice_and_saves_less(
    reentrant: bool,
    compiled: bool,
    extract: Extract,
) -> None:
    def build(**how: Any) -> Any:
        inputs = torch.empty(8, 64, requires_grad=True) if reentrant else torch.empty(8, 64)
        return Deep(**how), inputs

    kept = extract(build, compiled=compiled)
    again = extract(lambda: build(use_reentrant=reentrant), compiled=compiled)
    assert again.saved_activation_bytes < kept.saved_activation_bytes
    assert products(again) == products(kept) + 4


def test_cells_are_two_products_and_one_kernel(extract: Extract) -> None:
    class Cells(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.LSTMCell(8, 16), nn.GRUCell(16, 16)

        def forward(self, values: Tensor) -> Tensor:
            hidden, _ = self.first(values)
            return self.second(hidden, hidden)

    graph = extract(lambda: (Cells(), torch.empty(4, 8)))
    forward = [op for op in graph.operators if op.phase is Phase.FORWARD and op.kernels and op.flops]
    names = [op.name for op in forward for _ in range(op.repeat)]
    assert names.count("aten::mm") == 4
    assert {"aten::_thnn_fused_lstm_cell", "aten::_thnn_fused_gru_cell"} <= set(names)
    assert "aten::sigmoid" not in names
    sweep = next(op for op in graph.operators if op.phase is Phase.OPTIMIZER)
    assert sweep.dims["gradientBytes"] == graph.parameter_bytes


def test_gan_steps_both_networks_and_shares_the_made_images(extract: Extract) -> None:
    def build() -> Any:
        maker, judge = nn.Linear(10, 20), nn.Linear(20, 1)
        optimizers = {net: torch.optim.Adam(net.parameters()) for net in (maker, judge)}

        def step(real: Tensor) -> None:
            made = maker(torch.randn(4, 10))
            optimizers[judge].zero_grad()
            (judge(made.detach()) - judge(real)).mean().backward()
            optimizers[judge].step()
            optimizers[maker].zero_grad()
            judge(made).mean().backward()
            optimizers[maker].step()

        return {"modules": [maker, judge], "inputs": torch.empty(4, 20), "step": step}

    graph = extract(build)
    sweeps = [(op.name, op.dims["gradientBytes"]) for op in graph.operators if op.phase is Phase.OPTIMIZER]
    assert sweeps == [("optimizer::adam", 4 * 21), ("optimizer::adam", 4 * 220)]
    made = [op for op in graph.operators if op.name == "aten::addmm" and op.dims["n"] == 20]
    assert sum(op.repeat for op in made) == 1


def test_mixed_precision_compiles_too(extract: Extract) -> None:
    def build() -> Any:
        return nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64)), torch.empty(8, 64)

    graph = extract(build, precision="bf16", compiled=True)
    assert {op.dtype for op in graph.operators if op.operator_class is OperatorClass.MATMUL} == {"bf16"}
    assert any("gelu" in op.name and "layer_norm" in op.name for op in graph.operators)
