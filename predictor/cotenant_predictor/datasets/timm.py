"""timm's published step times of whole image models on two GPU models, each with the graph of what ran.

A quarter of the models has graphs here, chosen by a digest of the name: `chosen`. A run starts at its file's largest
batch and goes down, two steps an octave, until one runs: what is below the largest says that the next larger one does
not fit into the GPU's memory, or is more than a kernel can count: `Run.fits_until`.
"""

import csv
import dataclasses
import functools
import gzip
import hashlib
import lzma
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from cotenant_api import errors
from cotenant_api.graph import Graph, OperatorClass
from cotenant_api.names import GPUModel
from cotenant_predictor.jobs import rates

FOLDER: Final = Path(__file__).with_name("timm")
SUFFIX: Final = ".jsonl.xz"
"""Of the file of one model's graphs."""
GPU_MODELS: Final = {
    "rtx3090": GPUModel("NVIDIA-GeForce-RTX-3090"),
    "rtx4090": GPUModel("NVIDIA-GeForce-RTX-4090"),
    "4090": GPUModel("NVIDIA-GeForce-RTX-4090"),
}
BATCHES: Final = (1024, 768, 512, 384, 256, 192, 128, 96, 64, 48, 32, 24, 16, 12, 8, 6, 4, 3, 2, 1)
"""Those that a run tries."""

_NAME: Final = re.compile(
    r"benchmark-(?P<mode>train|infer)-amp-(?P<layout>nchw|nhwc)-pt(?P<torch>\d+)-cu\d+-(?P<gpu>rtx3090|rtx4090|4090)"
    r"(?P<compiled>-dynamo)?\.csv\.gz"
)
_FUSED_FROM: Final = 200
"""From torch 2.0 on attention is one operator."""
_MERGED_FROM: Final = 291
"""The parameters of these tables are those of models whose branches were merged (RepVGG, GhostNetV3, RepViT)."""
_WIDE_FROM: Final = 280
"""From torch 2.8 on depthwise convolutions of 2^31 elements run in either layout (pytorch/pytorch, #153101)."""
MOST_ELEMENTS: Final = 2**31 - 1
"""Of a tensor that PyTorch's own kernel for depthwise convolutions takes (pytorch/pytorch, #155225)."""
MOST_SEQUENCES: Final = 2**16 - 1
"""That fused attention takes at once: a grid of CUDA has no more blocks that way (pytorch/pytorch, #146704)."""
_PREFIXES: Final = re.compile(r"^(tf_|gluon_|ssl_|swsl_|ig_|legacy_|ese_|gc|eca_|gmixer)")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Published:
    """One row of a table.

    Attributes:
        table: name of the file, without its ends.
        fused: whether attention ran as one operator.
        merged: whether parallel branches that can be made one convolution had been, as one does before serving.
        image: edge of the square images, in pixels.
        gmacs: multiply-accumulates of an image, in 10^9; None where the table does not say.
        mega_activations: elements of an image's activations, in 10^6; None where the table does not say.
        wide: whether depthwise convolutions of any size ran.
        fails_at: the next larger batch, which did not run; None for a run that ended at its first.
    """

    table: str
    gpu_model: GPUModel
    training: bool
    compiled: bool
    channels_last: bool
    fused: bool
    merged: bool
    wide: bool
    model: str
    image: int
    batch_size: int
    step_seconds: float
    mega_parameters: float
    gmacs: float | None
    mega_activations: float | None
    fails_at: int | None

    @property
    def family(self) -> str:
        """Models of one kind: the first word of the name, without whose weights they are."""
        return re.split(r"[_\d]", _PREFIXES.sub("", self.model))[0]

    def graph_name(self, *, fused: bool = True, merged: bool = False) -> str:
        """Of the graph of what ran, where attention is one operator, or is not, and branches are merged, or are not."""
        kind = "train" if self.training else "infer"
        compiled = "-compiled" if self.compiled else ""
        variant = ("" if fused else "-unfused") + ("-merged" if merged else "")
        return f"timm-{self.model}-{self.image}-{self.batch_size}-{kind}{compiled}{variant}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """One measured step, and its graph."""

    row: Published
    graph: Graph

    @property
    def fits_until(self) -> int | None:
        """The next larger batch, which did not fit into memory; None where there is none, or a kernel's limit says no.

        A limit that the batch that ran exceeds, too, is none: another kernel ran.
        """
        if self.row.fails_at is None:
            return None
        more = self.row.fails_at / self.row.batch_size
        for most, size in self._counted():
            if size <= most < more * size:
                return None
        return self.row.fails_at

    def _counted(self) -> Iterator[tuple[int, float]]:
        """Yield what kernels count with few bits: how many they take, and how many the largest had."""
        depthwise, attention = [0.0], [0]
        for op in self.graph.operators:
            if op.operator_class is OperatorClass.CONV and rates.is_depthwise(op):
                item = op.bytes_written / op.output_elements
                depthwise += [op.output_elements, op.bytes_read / item]
            elif op.operator_class is OperatorClass.ATTENTION:
                attention.append(op.dims["b"])
        if not self.row.wide:
            yield MOST_ELEMENTS, max(depthwise)
        yield MOST_SEQUENCES, max(attention)


def chosen(model: str) -> bool:
    """Return whether this model's graphs ship: one in four."""
    return hashlib.sha256(model.encode()).digest()[0] < 64


@functools.cache
def published() -> tuple[Published, ...]:
    """Every row of every table, of all models."""
    return tuple(row for path in sorted(FOLDER.glob("*.csv.gz")) for row in _rows_of(path))


@functools.cache
def load() -> tuple[Run, ...]:
    """Return the rows of the chosen models that have a graph, in the order of the tables.

    A few models of the tables are no part of timm any more, so that nothing can be extracted.

    Raises:
        InvalidInputError: a graph is damaged.
    """
    rows = [row for row in published() if chosen(row.model)]
    graphs = {model: graphs_of(model) for model in dict.fromkeys(row.model for row in rows)}
    laid_out: dict[tuple[str, bool], Graph] = {}
    """By name: tables share graphs."""
    found = []
    for row in rows:
        graph = _graph(row, graphs[row.model])
        if graph is not None:
            key = graph.name, row.channels_last
            if key not in laid_out:
                laid_out[key] = graph.model_copy(update={"channels_last": row.channels_last}).sealed()
            found.append(Run(row=row, graph=laid_out[key]))
    return tuple(found)


def graphs_of(model: str) -> dict[str, Graph]:
    """Return a model's graphs by name; empty where it has none.

    Raises:
        InvalidInputError: a graph is damaged.
    """
    path = FOLDER / "graphs" / f"{model}{SUFFIX}"
    if not path.exists():
        return {}
    lines = lzma.decompress(path.read_bytes()).splitlines()
    found = (Graph.read(line, source=f"{path.name}:{number}") for number, line in enumerate(lines, 1))
    return {graph.name: graph for graph in found}


def _graph(row: Published, graphs: Mapping[str, Graph]) -> Graph | None:
    """Return the graph of what ran; where a variant is no different, the plain one stands for it."""
    variant = graphs.get(row.graph_name(fused=row.fused, merged=row.merged))
    return variant or graphs.get(row.graph_name())


def _rows_of(path: Path) -> Iterator[Published]:
    told = _NAME.fullmatch(path.name)
    if told is None:
        raise errors.InvalidInputError("timm", path.name, "is no table of this set")
    mode = told["mode"]
    with gzip.open(path, "rt", encoding="utf-8", newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if row[f"{mode}_step_time"] and row[f"{mode}_batch_size"]]
    largest = max(_whole(row[f"{mode}_batch_size"]) for row in rows)
    for row in rows:
        batch = _whole(row[f"{mode}_batch_size"])
        yield Published(
            table=path.name.removeprefix("benchmark-").removesuffix(".csv.gz"),
            gpu_model=GPU_MODELS[told["gpu"]],
            training=mode == "train",
            compiled=told["compiled"] is not None,
            channels_last=told["layout"] == "nhwc",
            fused=int(told["torch"]) >= _FUSED_FROM,
            merged=int(told["torch"]) >= _MERGED_FROM,
            wide=told["layout"] == "nhwc" or int(told["torch"]) >= _WIDE_FROM,
            model=row["model"],
            image=_whole(row[f"{mode}_img_size"]),
            batch_size=batch,
            step_seconds=float(row[f"{mode}_step_time"]) / 1e3,
            mega_parameters=float(row["param_count"]),
            gmacs=_number(row.get(f"{mode}_gmacs")),
            mega_activations=_number(row.get(f"{mode}_macts")),
            fails_at=BATCHES[BATCHES.index(batch) - 1] if batch in BATCHES and batch < largest else None,
        )


def _whole(text: str) -> int:
    return int(float(text))


def _number(text: str | None) -> float | None:
    return float(text) if text else None
