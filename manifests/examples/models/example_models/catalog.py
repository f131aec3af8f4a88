"""The table of example graphs: which model, how large a batch, how fed, how asked."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from . import language, recommendation, vision

Builder = Callable[..., Any]


@dataclasses.dataclass(frozen=True)
class Example:
    """One graph document; its name, and what `cotenant extract` would be told."""

    name: str
    build: Builder
    batch_size: int
    precision: str = "fp32"
    optimizer: str | None = None
    workers: int = 0
    samples_per_second: float | None = None
    data_on_gpu: bool = False
    requests_per_second: float | None = None
    """Given: inference."""
    arguments: Mapping[str, Any] = dataclasses.field(default_factory=lambda: MappingProxyType({}))

    def options(self) -> dict[str, Any]:
        """What the extractor takes."""
        rate = self.requests_per_second
        return {
            "name": self.name,
            "batchSize": self.batch_size,
            "mode": "Training" if rate is None else "Inference",
            "precision": self.precision,
            "optimizer": self.optimizer,
            "host": {
                "loaderWorkers": self.workers,
                "samplesPerSecond": self.samples_per_second,
                "dataOnGPU": self.data_on_gpu,
            },
            "inference": None if rate is None else {"requestsPerSecond": rate, "samplesPerRequest": 1},
        }

    def job(self) -> Any:
        """What the callable returns."""
        return self.build(self.batch_size, **self.arguments)


def _image(architecture: str, **more: Any) -> Builder:
    return functools.partial(vision.classifier, architecture=architecture, **more)


SGD = "sgd:momentum=0.9"

EXAMPLES = (
    # Trained from images that a loader decodes: the loader decides how busy the GPU is.
    Example("resnet18-32", _image("resnet18"), 32, optimizer=SGD, workers=4, samples_per_second=600),
    Example("resnet50-64", _image("resnet50"), 64, "fp16", SGD, workers=8, samples_per_second=900),
    Example("resnet50-256", _image("resnet50"), 256, "fp16", SGD, workers=24, samples_per_second=3600),
    Example("mobilenetv2-96", _image("mobilenet_v2"), 96, "fp16", SGD, workers=8, samples_per_second=1100),
    Example("densenet121-32", _image("densenet121"), 32, "fp32", SGD, workers=4, samples_per_second=250),
    Example("efficientnet-b0-64", _image("efficientnet_b0"), 64, "fp16", "rmsprop:momentum=0.9", workers=6),
    Example("squeezenet-128", _image("squeezenet1_1"), 128, optimizer=SGD, workers=8, samples_per_second=1000),
    Example("shufflenetv2-128", _image("shufflenet_v2_x1_0"), 128, optimizer=SGD, workers=6, samples_per_second=800),
    Example("vgg16-32", _image("vgg16"), 32, "fp32", SGD, workers=4),
    Example("vit-b16-256", _image("vit_b_16"), 256, "bf16", "adamw", workers=16, samples_per_second=1500),
    Example("swin-t-32", _image("swin_t"), 32, "fp16", "adamw", workers=4, samples_per_second=300),
    Example("unet-16", vision.unet, 16, "fp16", "adam", workers=8, samples_per_second=60, arguments={"size": 512}),
    Example("deeplabv3-4", functools.partial(vision.segmenter, architecture="deeplabv3_resnet50"), 4, "fp16", SGD),
    # Trained on data that is small or lies on the GPU: the kernels decide, or launching them.
    Example("dcgan-128", vision.dcgan, 128, workers=2, samples_per_second=6000),
    Example("lstm-32", language.lstm, 32, optimizer="adam"),
    Example("lstm-16", language.lstm, 16, optimizer="sgd", arguments={"width": 256}),
    Example("neumf-1024", recommendation.neumf, 1024, optimizer="adam", data_on_gpu=True),
    Example("dlrm-2048", recommendation.dlrm, 2048, optimizer="sgd", workers=4, samples_per_second=60_000),
    Example("bert-base-16", language.bert, 16, "fp16", "adamw"),
    Example("albert-base-16", language.albert, 16, "fp16", "adamw"),
    Example("gpt2-16", language.gpt2, 16, "bf16", "adamw", arguments={"length": 1024}),
    Example("t5-small-16", language.t5, 16, "fp32", "adafactor"),
    # Serving: the requests decide.
    Example("resnet50-serve-8", _image("resnet50"), 8, "fp16", requests_per_second=900.0),
    Example("convnext-tiny-serve-4", _image("convnext_tiny"), 4, "fp16", requests_per_second=300.0),
    Example("yolos-serve-1", vision.yolos, 1, "fp16", requests_per_second=40.0),
    Example(
        "lraspp-serve-2",
        functools.partial(vision.segmenter, architecture="lraspp_mobilenet_v3_large"),
        2,
        requests_per_second=120.0,
    ),
    Example("bert-base-serve-8", language.bert, 8, "fp16", requests_per_second=400.0, arguments={"labels": False}),
    Example("distilbert-serve-4", language.distilbert, 4, requests_per_second=200.0, arguments={"labels": False}),
    Example("gpt2-serve-4", language.gpt2, 4, "fp16", requests_per_second=40.0, arguments={"labels": False}),
    Example("whisper-base-serve-4", language.whisper, 4, "fp16", requests_per_second=60.0),
    Example("wav2vec2-serve-2", language.wav2vec2, 2, "fp32", requests_per_second=15.0),
)
"""Every example, in the order of the table in the documentation."""
