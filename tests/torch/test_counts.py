"""FLOPs and parameters against published counts and against torch's own counter."""

import functools
import resource
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torchvision
import transformers
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from cotenant_api.graph import Graph, OperatorClass

# Multiply-adds in units of 10^9 of one image, and parameters: "GFLOPS" and "Params" of the table of classification
# weights in torchvision's documentation, docs.pytorch.org/vision/stable/models.html.
PUBLISHED = {
    "alexnet": (0.71, 61_100_840),
    "convnext_tiny": (4.46, 28_589_128),
    "densenet121": (2.83, 7_978_856),
    "efficientnet_b0": (0.386, 5_288_548),
    "mnasnet1_0": (0.314, 4_383_312),
    "mobilenet_v2": (0.301, 3_504_872),
    "resnet18": (1.81, 11_689_512),
    "resnet50": (4.09, 25_557_032),
    "resnet152": (11.51, 60_192_808),
    "resnext50_32x4d": (4.23, 25_028_904),
    "shufflenet_v2_x1_0": (0.145, 2_278_604),
    "squeezenet1_1": (0.349, 1_235_496),
    "swin_t": (4.49, 28_288_354),
    "vgg16": (15.47, 138_357_544),
    "vit_b_16": (17.56, 86_567_656),
}

Extract = Callable[..., Graph]
Count = Callable[[Graph], int]


def image_model(name: str, *, batch: int = 1) -> Any:
    return torchvision.models.get_model(name), torch.empty(batch, 3, 224, 224)


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_flops_and_parameters_are_those_published(name: str, extract: Extract, matrix_flops: Count) -> None:
    graph = extract(functools.partial(image_model, name), mode="Inference")
    multiply_adds, parameters = PUBLISHED[name]
    assert matrix_flops(graph) == pytest.approx(2e9 * multiply_adds, rel=0.02)
    assert graph.parameters == parameters
    assert graph.coverage.unknown == {}


@pytest.mark.parametrize(
    "name", ["efficientnet_v2_s", "googlenet", "maxvit_t", "mobilenet_v3_large", "wide_resnet50_2"]
)
def test_flops_and_parameters_are_those_that_come_with_the_weights(
    name: str, extract: Extract, matrix_flops: Count
) -> None:
    meta = torchvision.models.get_model_weights(name).DEFAULT.meta  # what the same documentation is made of
    size = 384 if name == "efficientnet_v2_s" else 224

    def build() -> Any:
        more = {"init_weights": False} if name == "googlenet" else {}
        return torchvision.models.get_model(name, **more), torch.empty(1, 3, size, size)

    graph = extract(build, mode="Inference")
    assert matrix_flops(graph) == pytest.approx(2e9 * meta["_ops"], rel=0.02)
    assert graph.parameters == meta["num_params"] or name == "googlenet"  # whose published weights lack two side heads


@pytest.mark.parametrize(("mode", "passes"), [("Inference", 1), ("Training", 3)])
def test_gpt2_counts_what_the_published_formula_gives(
    mode: str, passes: int, extract: Extract, matrix_flops: Count
) -> None:
    b, s, layers, h, words = 2, 256, 12, 768, 50257

    def build() -> Any:
        config = transformers.GPT2Config(attn_implementation="eager")
        return transformers.GPT2LMHeadModel(config), {"input_ids": torch.zeros(b, s, dtype=torch.long)}

    # Narayanan et al. (2021), "Efficient Large-Scale Language Model Training on GPU Clusters", equation 3, of which
    # a forward pass is a quarter but for the last layer, which is not computed again.
    forward = 24 * b * s * layers * h**2 * (1 + s / (6 * h)) + 2 * b * s * h * words
    assert matrix_flops(extract(build, mode=mode)) == pytest.approx(passes * forward, rel=0.001)


def test_llama2_counts_two_flops_per_weight_and_token(extract: Extract, matrix_flops: Count) -> None:
    def build() -> Any:
        return transformers.LlamaForCausalLM(transformers.LlamaConfig()), {
            "input_ids": torch.zeros(1, 16, dtype=torch.long)
        }

    # Kaplan et al. (2020), "Scaling Laws for Neural Language Models", table 1: 2N a token, N without the embedding;
    # N is 6,738,415,616 (Touvron et al. 2023: 6.7B) less 32,000 x 4,096.
    assert matrix_flops(extract(build, mode="Inference")) == pytest.approx(2 * 16 * 6_607_343_616, rel=0.02)


def test_bert_base_is_as_published(extract: Extract, matrix_flops: Count) -> None:
    def build() -> Any:
        return transformers.BertModel(transformers.BertConfig()), {"input_ids": torch.zeros(1, 128, dtype=torch.long)}

    graph = extract(build, mode="Inference")
    assert graph.parameters == 109_482_240
    assert matrix_flops(graph) == pytest.approx(22.5e9, rel=0.02)  # MobileBERT (2020), table 1


def test_gpt2_has_the_published_parameters_and_shares_its_embedding(extract: Extract) -> None:
    def build() -> Any:
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config())
        return model, {"input_ids": torch.zeros(1, 16, dtype=torch.long)}

    assert extract(build, mode="Inference").parameters == 124_439_808


@pytest.mark.parametrize("name", ["resnet18", "densenet121", "squeezenet1_1"])
def test_training_step_counts_what_torch_counts(name: str, extract: Extract, matrix_flops: Count) -> None:
    assert matrix_flops(extract(lambda: image_model(name, batch=2))) == counted(lambda: image_model(name, batch=2))


def test_eager_attention_counts_what_torch_counts(extract: Extract, matrix_flops: Count) -> None:
    def build() -> Any:
        config = transformers.BertConfig(num_hidden_layers=2, attn_implementation="eager")
        return transformers.BertModel(config), {"input_ids": torch.zeros(2, 64, dtype=torch.long)}

    assert matrix_flops(extract(build)) == counted(build)


def test_transposed_and_dilated_convolutions_count_what_torch_counts(extract: Extract, matrix_flops: Count) -> None:
    def build() -> Any:
        layers = nn.Sequential(
            nn.Conv2d(8, 16, 3, stride=2, padding=1),
            nn.ConvTranspose2d(16, 8, 4, stride=2, padding=1),
            nn.Conv2d(8, 8, 3, dilation=2),
        )
        return layers, torch.empty(2, 8, 33, 31)

    assert matrix_flops(extract(build)) == counted(build)


def test_grouped_convolution_is_twice_the_work_backward(extract: Extract, matrix_flops: Count) -> None:
    def build() -> Any:
        layers = nn.Sequential(nn.Conv2d(4, 8, 1), nn.Conv2d(8, 16, 3, stride=2, padding=1, groups=4))
        return layers, torch.empty(2, 4, 33, 31)

    first, grouped = 2 * 2 * 8 * 33 * 31 * 4, 2 * 2 * 16 * 17 * 16 * (2 * 9)
    assert matrix_flops(extract(build)) == 2 * first + 3 * grouped  # torch's counter forgets the groups backward


def test_one_and_three_dimensions_count_what_torch_counts(extract: Extract, matrix_flops: Count) -> None:
    for build in (
        lambda: (nn.Conv1d(4, 8, 5, stride=2), torch.empty(3, 4, 50)),
        lambda: (nn.Conv3d(4, 8, 3), torch.empty(3, 4, 9, 8, 7)),
    ):
        assert matrix_flops(extract(build)) == counted(build)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_fused_recurrent_layers_count_what_torch_counts_unrolled(
    kind: Any, extract: Extract, matrix_flops: Count
) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(6, 12)
            self.layers = kind(12, 20, num_layers=2, bidirectional=True)

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            return self.layers(self.first(values))[0]

    def build() -> Any:
        return Net(), torch.empty(7, 5, 6)

    graph = extract(build)
    fused = [op for op in graph.operators if op.operator_class is OperatorClass.RNN]
    assert sum(op.repeat for op in fused) == 2 * 2 * 2  # layers, directions, passes
    # Unrolled, the first time step needs no gradient of its hidden state; cuDNN computes it all the same.
    assert matrix_flops(graph) == pytest.approx(counted(build), rel=0.03)


@pytest.mark.parametrize("name", ["resnet50", "bert-base"])
def test_usual_models_are_extracted_in_seconds(name: str, extract: Extract, report: Callable[[str], None]) -> None:
    def build() -> Any:
        if name == "resnet50":
            return image_model(name, batch=64)
        model = transformers.BertForSequenceClassification(transformers.BertConfig())
        return model, {"input_ids": torch.zeros(16, 128, dtype=torch.long)}

    start = time.perf_counter()
    graph = extract(build)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    report(f"extracting {name}: {seconds:.1f} s, {graph.coverage.operators} operators, peak {peak:.2f} GiB so far")
    assert graph.coverage.operators > 500


def counted(build: Callable[[], Any]) -> int:
    """FLOPs of a training step by torch's counter, attention and recurrent layers unfused."""
    with torch.device("meta"):
        model, inputs = build()
        with FlopCounterMode(display=False) as counter:
            output = model(**inputs) if isinstance(inputs, dict) else model(inputs)
            tensors = [output] if isinstance(output, torch.Tensor) else [output.last_hidden_state, output.pooler_output]
            sum(tensor.sum() for tensor in tensors).backward()
    return int(counter.get_total_flops())
