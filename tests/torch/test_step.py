"""What one step records: phases, memory, chains, fused operators, mixed precision, optimizers, and full steps."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils import checkpoint

from cotenant_api.graph import Graph, Operator, OperatorClass, Phase

Extract = Callable[..., Graph]


def named(graph: Graph, name: str, phase: Phase | None = None) -> list[Operator]:
    return [op for op in graph.operators if op.name == name and phase in (None, op.phase)]


def perceptron() -> Any:
    layers = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 32))
    return layers, torch.empty(16, 64)


class Attending(nn.Module):
    """One attention layer with dropout behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(32, 96)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Values of shape (b, n, 32)."""
        query, key, value = (part.unflatten(-1, (4, 8)).transpose(1, 2) for part in self.qkv(values).chunk(3, dim=-1))
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return functional.dropout(mixed.transpose(1, 2).flatten(2), 0.1, self.training)


def attending() -> Any:
    return Attending(), torch.empty(2, 10, 32)


class Recurrent(nn.Module):
    """An LSTM behind a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 12)
        self.lstm = nn.LSTM(12, 20, num_layers=2, batch_first=True)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Values of shape (b, t, 6)."""
        return self.lstm(self.first(values))[0]


def test_every_phase_of_a_training_step_is_seen(extract: Extract) -> None:
    graph = extract(perceptron)
    assert {op.phase for op in graph.operators} == set(Phase)
    assert sum(op.repeat for op in named(graph, "aten::addmm", Phase.FORWARD)) == 2
    assert sum(op.repeat for op in named(graph, "aten::mm", Phase.BACKWARD)) == 3  # the input needs no gradient


def test_inference_has_a_forward_phase_alone(extract: Extract) -> None:
    graph = extract(perceptron, mode="Inference")
    assert {op.phase for op in graph.operators} == {Phase.FORWARD}
    assert (graph.optimizer, graph.saved_activation_bytes) == (None, 0)


def test_bytes_are_those_of_inputs_and_outputs(extract: Extract) -> None:
    first = named(extract(perceptron), "aten::addmm", Phase.FORWARD)[0]
    assert first.bytes_read == 4 * (128 + 16 * 64 + 64 * 128)
    assert first.bytes_written == 4 * 16 * 128
    assert first.dims == {"b": 1, "m": 16, "n": 128, "k": 64}


def test_saved_activations_leave_out_parameters_and_inputs(extract: Extract) -> None:
    assert extract(perceptron).saved_activation_bytes == 4 * 16 * 128  # the ReLU's output, saved twice


def test_peak_is_what_is_alive_at_once_as_references_keep_it(extract: Extract) -> None:
    class Residual(nn.Module):
        def __init__(self, *, keeps: bool) -> None:
            super().__init__()
            self.keeps = keeps

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            first = values.tanh()
            second = first.tanh()
            if not self.keeps:
                return second.tanh()
            return first + second.tanh()

    def peak(**how: bool) -> int | None:
        return extract(lambda: (Residual(**how), torch.empty(64)), mode="Inference").peak_activation_bytes

    assert peak(keeps=True) == 4 * 4 * 64  # both names, the temporary, and the sum
    assert peak(keeps=False) == 3 * 4 * 64
    assert extract(perceptron, mode="Inference").peak_activation_bytes == 2 * 4 * 16 * 128


def test_peak_of_training_has_what_is_saved_and_gradients(extract: Extract) -> None:
    graph = extract(perceptron)
    gradients = 4 * (128 * 32 + 32)
    # Of the second layer, when the gradient of its input is made: what is saved, and that gradient.
    assert graph.peak_activation_bytes is not None
    assert graph.peak_activation_bytes >= graph.saved_activation_bytes + gradients + 4 * 16 * 128
    assert graph.peak_activation_bytes <= graph.saved_activation_bytes + graph.parameter_bytes + 3 * 4 * 16 * 128


def test_buffer_that_is_written_in_place_is_no_activation(extract: Extract) -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(10_000))

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            self.seen.add_(1)
            return values.tanh()

    assert extract(lambda: (Counting(), torch.empty(64)), mode="Inference").peak_activation_bytes == 4 * 64


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_layout_of_convolutions_is_seen(layout: torch.memory_format, extract: Extract) -> None:
    def images() -> Any:
        layers = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Conv2d(8, 8, 1)).to(memory_format=layout)
        return layers, torch.empty(2, 3, 16, 16).contiguous(memory_format=layout)

    assert extract(images, precision="fp16").channels_last is (layout is torch.channels_last)
    assert not extract(perceptron).channels_last


def test_weight_that_is_gone_does_not_lend_its_cast_to_another(extract: Extract) -> None:
    class Fleeting(nn.Module):
        def forward(self, values: torch.Tensor) -> list[torch.Tensor]:
            return [nn.functional.linear(values[:, :size], nn.Parameter(torch.empty(4, size))) for size in sizes]

    sizes = range(8, 64)
    graph = extract(lambda: (Fleeting(), torch.empty(2, 64)), mode="Inference", precision="fp16")
    assert sorted(op.dims["k"] for op in named(graph, "aten::mm")) == [*sizes]


def test_parameters_and_inputs_are_counted_in_bytes(extract: Extract) -> None:
    graph = extract(perceptron)
    assert graph.parameters == 64 * 128 + 128 + 128 * 32 + 32
    assert graph.parameter_bytes == 4 * graph.parameters
    assert graph.input_bytes_per_step == 4 * 16 * 64


def test_views_launch_nothing_and_move_nothing(extract: Extract) -> None:
    views = [op for op in extract(perceptron).operators if op.name in ("aten::t", "aten::detach")]
    assert views
    assert {(op.kernels, op.bytes_read, op.bytes_written) for op in views} == {(0, 0, 0)}


def test_longest_chain_counts_what_must_wait_for_one_another(extract: Extract) -> None:
    def chain() -> Any:
        return nn.Sequential(*[nn.ReLU() for _ in range(7)]), torch.empty(4)

    class Branches(nn.Module):
        def forward(self, values: torch.Tensor) -> list[torch.Tensor]:
            return [values.relu() for _ in range(7)]

    assert extract(chain, mode="Inference").critical_path_operators == 7
    assert extract(lambda: (Branches(), torch.empty(4)), mode="Inference").critical_path_operators == 1


def test_checkpointed_layers_save_their_inputs_alone(extract: Extract) -> None:
    class Deep(nn.Module):
        def __init__(self, *, saves: bool) -> None:
            super().__init__()
            self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Tanh()) for _ in range(4))
            self.saves = saves

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            for block in self.blocks:
                values = block(values) if self.saves else checkpoint.checkpoint(block, values, use_reentrant=False)
            return values

    kept = extract(lambda: (Deep(saves=True), torch.empty(8, 64)))
    again = extract(lambda: (Deep(saves=False), torch.empty(8, 64)))
    assert kept.saved_activation_bytes == 8 * 8 * 64 * 4
    assert again.saved_activation_bytes == 3 * 8 * 64 * 4
    assert sum(op.repeat for op in named(again, "aten::tanh")) == 2 * sum(op.repeat for op in named(kept, "aten::tanh"))


def test_attention_is_one_fused_operator_each_way(extract: Extract) -> None:
    graph = extract(attending)
    forward, backward = [op for op in graph.operators if op.operator_class is OperatorClass.ATTENTION]
    assert forward.dims == {"b": 2, "heads": 4, "q": 10, "k": 10, "d": 8}
    assert forward.flops == 2 * 2 * 2 * 4 * 10 * 10 * 8
    assert (backward.phase, backward.flops) == (Phase.BACKWARD, 5 * forward.flops // 2)
    assert not named(graph, "aten::bmm")
    assert not named(graph, "aten::_softmax")


def test_dropout_is_one_operator_each_way(extract: Extract) -> None:
    graph = extract(attending)
    assert sum(op.repeat for op in named(graph, "aten::native_dropout")) == 1
    assert not named(graph, "aten::bernoulli_")
    assert not named(extract(attending, mode="Inference"), "aten::native_dropout")


def test_gradients_pass_through_fused_operators(extract: Extract) -> None:
    for build in (attending, lambda: (Recurrent(), torch.empty(3, 5, 6))):
        graph = extract(build)
        sweep = next(op for op in graph.operators if op.phase is Phase.OPTIMIZER)
        assert sweep.dims["gradientBytes"] == graph.parameter_bytes


def test_recurrent_layers_are_one_operator_per_layer(extract: Extract) -> None:
    graph = extract(lambda: (Recurrent(), torch.empty(3, 5, 6)))
    layers = named(graph, "aten::lstm", Phase.FORWARD)
    assert [(op.repeat, op.dims["i"]) for op in layers] == [(1, 12), (1, 20)]
    assert layers[0].dims == {"b": 3, "t": 5, "i": 12, "h": 20}
    assert layers[0].kernels > 5
    assert not named(graph, "aten::sigmoid_")
    assert graph.critical_path_operators > 4 * 5


def test_packed_sequences_count_their_tokens(extract: Extract) -> None:
    class Packed(Recurrent):
        def forward(self, values: torch.Tensor) -> torch.Tensor:
            lengths = torch.tensor([5, 4, 2], device="cpu")
            packed = nn.utils.rnn.pack_padded_sequence(self.first(values), lengths, batch_first=True)
            return self.lstm(packed)[0].data

    layer = named(extract(lambda: (Packed(), torch.empty(3, 5, 6))), "aten::lstm", Phase.FORWARD)[0]
    assert layer.flops == 2 * (5 + 4 + 2) * (80 * 12 + 80 * 20)


@pytest.mark.parametrize(
    ("optimizer", "states"),
    [("sgd", 0), ("sgd:momentum=0.9", 1), ("adam", 2), ("AdamW", 2), ("rmsprop", 1), ("adagrad", 1), ("adadelta", 2)],
)
def test_optimizer_is_one_sweep_over_weights_gradients_and_state(optimizer: str, states: int, extract: Extract) -> None:
    graph = extract(perceptron, optimizer=optimizer)
    (sweep,) = [op for op in graph.operators if op.phase is Phase.OPTIMIZER]
    size = graph.parameter_bytes
    assert graph.optimizer == optimizer.partition(":")[0].lower()
    assert (sweep.repeat, sweep.kernels) == (1, 1)
    assert sweep.dims == {"tensors": 4, "stateBytes": states * size, "gradientBytes": size}
    assert (sweep.bytes_read, sweep.bytes_written) == ((2 + states) * size, (1 + states) * size)


def test_factored_optimizer_keeps_little_state(extract: Extract) -> None:
    graph = extract(lambda: (nn.Linear(1000, 1000, bias=False), torch.empty(2, 1000)), optimizer="adafactor")
    (sweep,) = [op for op in graph.operators if op.phase is Phase.OPTIMIZER]
    assert sweep.dims["stateBytes"] < 0.02 * graph.parameter_bytes


def test_frozen_parameters_are_not_swept(extract: Extract) -> None:
    def build() -> Any:
        model, inputs = perceptron()
        model[0].requires_grad_(requires_grad=False)
        return model, inputs

    graph = extract(build)
    (sweep,) = [op for op in graph.operators if op.phase is Phase.OPTIMIZER]
    assert sweep.dims["tensors"] == 2
    assert graph.parameters == 64 * 128 + 128 + 128 * 32 + 32


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_mixed_precision_keeps_fp32_parameters_and_computes_below(precision: str, extract: Extract) -> None:
    graph = extract(perceptron, precision=precision)
    matrix = {op.dtype for op in graph.operators if op.operator_class is OperatorClass.MATMUL}
    casts = named(graph, "aten::_to_copy", Phase.FORWARD)
    assert matrix == {precision}
    assert graph.parameter_bytes == 4 * graph.parameters
    assert sum(op.repeat for op in casts) == 1 + 4 + 1  # the input, each parameter once, the loss
    assert next(op for op in graph.operators if op.phase is Phase.OPTIMIZER).dtype == "fp32"


def test_mixed_precision_reaches_convolutions_attention_and_recurrent_layers(extract: Extract) -> None:
    builds = {
        OperatorClass.CONV: lambda: (nn.Conv2d(3, 8, 3), torch.empty(1, 3, 9, 9)),
        OperatorClass.ATTENTION: attending,
        OperatorClass.RNN: lambda: (Recurrent(), torch.empty(3, 5, 6)),
    }
    for cls, build in builds.items():
        found = {op.dtype for op in extract(build, precision="bf16").operators if op.operator_class is cls}
        assert found == {"bf16"}


def test_what_autocast_keeps_in_fp32_stays_there(extract: Extract) -> None:
    def build() -> Any:
        return nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.LogSoftmax(dim=1)), torch.empty(4, 8)

    graph = extract(build, precision="bf16")
    kept = [*named(graph, "aten::native_layer_norm"), *named(graph, "aten::_log_softmax")]
    assert {op.dtype for op in kept} == {"fp32"}


def test_code_that_asks_for_autocast_hears_what_it_would_on_a_gpu_and_may_turn_it_off(extract: Extract) -> None:
    class Asking(nn.Module):
        def forward(self, values: torch.Tensor) -> torch.Tensor:
            device = values.device.type
            if not torch.is_autocast_enabled(device):
                return values
            values = values.to(torch.get_autocast_dtype(device))
            with torch.autocast(device, enabled=False):
                return nn.functional.layer_norm(values, (8,))

    def build() -> Any:
        return nn.Sequential(nn.Linear(8, 8), Asking(), nn.LayerNorm(8)), torch.empty(4, 8)

    norms = [op.dtype for op in named(extract(build, precision="bf16"), "aten::native_layer_norm", Phase.FORWARD)]
    assert sorted(norms) == ["bf16", "fp32"]
    assert len(named(extract(build, precision="fp32"), "aten::native_layer_norm", Phase.FORWARD)) == 1


def test_convolutions_are_tf32_by_torchs_default_and_products_when_asked(extract: Extract) -> None:
    def build() -> Any:
        return nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4, 2)), torch.empty(1, 3, 3, 3)

    def dtypes(precision: str) -> set[tuple[str, str]]:
        classes = {OperatorClass.CONV, OperatorClass.MATMUL}
        operators = extract(build, precision=precision).operators
        return {(op.operator_class.value, op.dtype) for op in operators if op.operator_class in classes}

    assert dtypes("fp32") == {("conv", "tf32"), ("matmul", "fp32")}
    assert dtypes("tf32") == {("conv", "tf32"), ("matmul", "tf32")}


def test_full_step_alternates_two_networks(extract: Extract) -> None:
    def build() -> Any:
        first, second = nn.Linear(8, 8), nn.Linear(8, 1)
        optimizers = [torch.optim.Adam(first.parameters()), torch.optim.SGD(second.parameters())]

        def step(values: torch.Tensor) -> None:
            for optimizer in optimizers:
                optimizer.zero_grad()
                second(first(values)).sum().backward()
                optimizer.step()

        return {"modules": [first, second], "inputs": torch.empty(4, 8), "step": step}

    graph = extract(build)
    sweeps = [op.name for op in graph.operators if op.phase is Phase.OPTIMIZER]
    assert sweeps == ["optimizer::adam", "optimizer::sgd"]
    assert graph.parameters == 8 * 8 + 8 + 8 + 1
    assert sum(op.repeat for op in named(graph, "aten::addmm", Phase.FORWARD)) == 4


def test_activations_of_one_backward_pass_are_gone_in_the_next(extract: Extract) -> None:
    def build(*, passes: int) -> Any:
        model = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64))

        def step(values: torch.Tensor) -> None:
            for _ in range(passes):
                model(values).sum().backward()

        return {"modules": [model], "inputs": torch.empty(16, 64), "step": step}

    once, thrice = extract(lambda: build(passes=1)), extract(lambda: build(passes=3))
    assert once.saved_activation_bytes == thrice.saved_activation_bytes == 4 * 16 * 64


def test_learning_rate_schedulers_and_clipping_do_not_disturb(extract: Extract) -> None:
    def build() -> Any:
        model, inputs = perceptron()
        optimizer = torch.optim.AdamW(model.parameters())
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)

        def step(values: torch.Tensor) -> None:
            model(values).sum().backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()

        return {"modules": [model], "inputs": inputs, "step": step}

    assert [op.name for op in extract(build).operators if op.phase is Phase.OPTIMIZER] == ["optimizer::adamw"]


def test_loss_of_the_output_is_used_where_there_is_one(extract: Extract) -> None:
    class WithLoss(nn.Linear):
        def forward(self, values: torch.Tensor) -> Any:
            return {"loss": super().forward(values).mean(), "other": values.exp()}

    names = {op.name for op in extract(lambda: (WithLoss(4, 4), torch.empty(2, 4))).operators}
    assert "aten::mean" in names
    assert "aten::sum" not in {
        op.name for op in extract(lambda: (WithLoss(4, 4, bias=False), torch.empty(2, 4))).operators
    }


def test_same_step_gives_the_same_document(extract: Extract) -> None:
    assert extract(attending).sealed() == extract(attending).sealed()


def test_model_built_on_the_cpu_is_moved(extract: Extract) -> None:
    def build() -> Any:
        with torch.device("cpu"):
            return perceptron()

    assert extract(build) == extract(perceptron)


def test_nothing_is_left_behind(extract: Extract) -> None:
    before = torch.optim.Optimizer.__init__
    extract(attending, precision="bf16")
    values = torch.ones(1, 2, 3, 4)
    assert torch.optim.Optimizer.__init__ is before
    assert functional.scaled_dot_product_attention(values, values, values).dtype == torch.float32
    assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32
    assert functional.dropout(values, 0.5).shape == values.shape
