"""The networks that are measured: as large as published, and each a job that can be run and extracted."""

from typing import Any

import pytest
import torch
import torchvision

from cotenant_api.graph import Graph
from cotenant_predictor.profiling import catalog, graphs, sets
from cotenant_predictor.profiling.catalog import Job
from cotenant_predictor.profiling.networks import classic, language, mobile, perception, residual

TORCHVISION: tuple[tuple[str, Any, dict[str, Any]], ...] = (
    ("resnet18", residual.resnet, {"depth": 18}),
    ("resnet34", residual.resnet, {"depth": 34}),
    ("resnet50", residual.resnet, {"depth": 50}),
    ("vgg19_bn", classic.vgg, {"depth": 19}),
    ("googlenet", classic.googlenet, {}),
    ("densenet121", classic.densenet, {"depth": 121}),
    ("densenet161", classic.densenet, {"depth": 161}),
    ("densenet169", classic.densenet, {"depth": 169}),
    ("squeezenet1_0", classic.squeezenet, {}),
    ("mobilenet_v2", mobile.mobilenetv2, {}),
    ("mnasnet0_5", mobile.mnasnet, {"width": 0.5}),
    ("mnasnet1_0", mobile.mnasnet, {}),
    ("mnasnet1_3", mobile.mnasnet, {"width": 1.3}),
    ("shufflenet_v2_x0_5", mobile.shufflenetv2, {"width": 0.5}),
    ("shufflenet_v2_x1_0", mobile.shufflenetv2, {}),
    ("shufflenet_v2_x2_0", mobile.shufflenetv2, {"width": 2.0}),
    ("vit_b_16", perception.vit, {}),
)
# Of the papers, or of the publisher's own code; heads and what never computes may differ by a thousandth.
PUBLISHED: tuple[tuple[str, Any, dict[str, Any], bool, int], ...] = (
    ("BERT-base", language.bert, {}, True, 109_483_778),
    ("ALBERT-base", language.albert, {}, True, 11_685_122),
    ("Whisper-small", perception.whisper, {}, False, 241_734_912),
    ("wav2vec 2.0 base", perception.wav2vec2, {}, False, 94_396_320),
    ("PyramidNet-110, alpha 48", residual.pyramidnet, {"alpha": 48}, True, 1_772_706),
    ("PyramidNet-110, alpha 84", residual.pyramidnet, {"alpha": 84}, True, 3_904_446),
)
REPRESENTATIVE = {name for make in sets.SETS.values() for name in make().paired}
JOBS = {job.name: job for make in sets.SETS.values() for job in make().jobs}


def parameters(model: Any) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(("name", "function", "arguments"), TORCHVISION, ids=[row[0] for row in TORCHVISION])
def test_a_network_has_exactly_the_parameters_of_torchvisions(name: str, function: Any, arguments: Any) -> None:
    more = {"init_weights": False, "aux_logits": False} if name == "googlenet" else {}
    with torch.device("meta"):
        model, inputs = function(2, training=True, **arguments)
        assert parameters(model) == parameters(torchvision.models.get_model(name, **more))
        assert model(**inputs)["loss"].shape == ()


@pytest.mark.parametrize(
    ("function", "arguments", "training", "published"), [row[1:] for row in PUBLISHED], ids=[r[0] for r in PUBLISHED]
)
def test_a_network_has_the_published_parameters(function: Any, arguments: Any, training: bool, published: int) -> None:
    with torch.device("meta"):
        model, inputs = function(2, training=training, **arguments)
        model(**inputs)
    assert parameters(model) == pytest.approx(published, rel=1e-3)


@pytest.mark.parametrize("name", [name for name, job in JOBS.items() if name in REPRESENTATIVE])
def test_a_job_of_a_set_runs_forward_and_says_its_batch(name: str) -> None:
    job = JOBS[name]
    with torch.device("meta"):
        model, inputs = job.build()
        output = model.train(job.training)(**inputs)
    assert {tensor.shape[0] for tensor in inputs.values()} == {job.batch_size}
    assert (output["loss"].shape == ()) if job.training else (output.shape[0] == job.batch_size)


@pytest.mark.parametrize("name", ["resnet18-64", "lstm-256x1-16", "squeezenet-inference-8", "whisper-inference-2"])
def test_a_job_is_extracted_into_a_whole_graph_document(name: str) -> None:
    job = JOBS[name]
    graph = Graph.from_object(graphs.extracted(job), source=name).sealed()
    assert (graph.name, graph.batch_size, graph.coverage.unknown) == (name, job.batch_size, {})
    assert graph.mode == ("Training" if job.training else "Inference")


@pytest.mark.parametrize("precision", ["fp32", "tf32"])
def test_a_graph_has_the_precision_in_which_its_job_is_measured(precision: str) -> None:
    job = catalog.in_precision(JOBS["resnet18-64"], precision)
    convolutions = [one for one in graphs.extracted(job)["operators"] if one["class"] == "conv"]
    assert {one["dtype"] for one in convolutions} == {precision}
    assert torch.backends.cudnn.allow_tf32


def test_sound_networks_refuse_to_train() -> None:
    with pytest.raises(ValueError, match="whisper: has no loss here; measure it as inference"):
        Job("w", "whisper", "transformer", "perception.whisper", 2).build()
