"""From an ONNX file to a graph document: the surface of this extractor. Needs onnx; reads no external data.

Nothing is run and no weight is looked at. Every shape follows from the inputs' shapes; a dimension of an input that the
file leaves open is the batch or is declared.
"""

import dataclasses
import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
import onnx.defs

from cotenant_api import errors
from cotenant_predictor.extraction.onnx_reader import attention, operators, precision, quantized, training, wire
from cotenant_predictor.extraction.onnx_reader.inputs import bound
from cotenant_predictor.extraction.onnx_reader.values import Occurrence, Shape
from cotenant_predictor.extraction.onnx_reader.walk import Walker

MAX_FILE_BYTES = 2 * 1024**3
"""What protobuf takes."""
OLDEST_OPSET = 7
"""Since then all operators broadcast as numpy does."""

Row = dict[str, Any]
_DECODE_ERROR: type[Exception] = importlib.import_module("google.protobuf.message").DecodeError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """What the user says of the job."""

    name: str
    batch_size: int
    mode: str = "Inference"
    """Training or Inference."""
    precision: str = "fp32"
    """fp32 takes the types that the file has."""
    optimizer: str | None = None
    """Of a training step, as sgd:momentum=0.9; default: adamw."""
    shapes: Mapping[str, Shape] = dataclasses.field(default_factory=dict)
    """Shapes of inputs, or of any tensor that no shape follows for."""
    host: Row = dataclasses.field(default_factory=dict)
    inference: Row | None = None


def read(path: Path) -> bytes:
    """Return the file's bytes.

    Raises:
        InvalidInputError: it cannot be read, or is larger than an ONNX file can be.
    """
    try:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            remedy = "an ONNX file has at most 2 GiB: save it with external data, which is not needed here"
            raise errors.InvalidInputError("MODEL", str(path), remedy)
        return path.read_bytes()
    except OSError as error:
        raise errors.InvalidInputError("MODEL", str(path), f"cannot be read: {error.strerror}") from error


def extract(data: bytes, options: Options, *, source: str) -> Row:
    """One step of an ONNX model, as a graph document without digest.

    Args:
        data: the file's bytes.
        options: what the user says of the job.
        source: the file's name, for messages.

    Raises:
        InvalidInputError: the file is damaged, of an opset that is not known, or leaves a shape open.
    """
    if options.batch_size < 1:
        raise errors.InvalidInputError("--batch-size", options.batch_size, "must be 1 or more")
    model = parsed(data, source=source)
    symbols, inputs = bound(model, options.shapes, batch_size=options.batch_size, source=source)
    walker = Walker(model, source=source, symbols=symbols, shapes=options.shapes)
    walker.undeclared -= {*symbols, *(entry.name for entry in model.graph.input)}
    walker.run(inputs)
    if walker.undeclared:
        remedy = "names no input of the model and no tensor whose shape is open"
        raise errors.InvalidInputError("--input-shape", min(walker.undeclared), remedy)
    nodes = _typed(attention.joined(walker.occurrences), options)
    if not any(not node.folded for node in nodes):
        raise errors.InvalidInputError(source, "no operators", "must have nodes that depend on an input of the graph")
    return _document(model, nodes, inputs.values(), options, unknown=walker.unknown)


def parsed(data: bytes, *, source: str) -> onnx.ModelProto:
    """Return the model in the bytes.

    Raises:
        InvalidInputError: they are no whole ONNX model, one of an opset that is not known, or have too many parts.
    """
    wire.check(data, source=source)
    remedy = "must be a whole ONNX file: it is truncated or of another format; export it again"
    try:
        model = onnx.load_model_from_string(data)
    except (_DECODE_ERROR, RecursionError, ValueError) as error:
        raise errors.InvalidInputError(source, data[:16], f"{remedy} ({error})"[:400]) from error
    if not model.HasField("graph") or not model.graph.node:
        raise errors.InvalidInputError(source, data[:16], f"{remedy} (it holds no graph)")
    versions = [entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")]
    if not versions:
        raise errors.InvalidInputError(source, data[:16], f"{remedy} (it states no opset)")
    newest = onnx.defs.onnx_opset_version()
    if not OLDEST_OPSET <= versions[0] <= newest:
        remedy = f"onnx {onnx.__version__} reads {OLDEST_OPSET} to {newest}: convert the model, or install a newer onnx"
        raise errors.InvalidInputError(f"{source}: opset", versions[0], remedy)
    return model


def _typed(nodes: Sequence[Occurrence], options: Options) -> list[Occurrence]:
    lower = options.precision in precision.LOWER
    if options.mode == "Training":
        return precision.mixed(nodes, options.precision) if lower else list(nodes)
    absorbed = quantized.absorbed(nodes)
    return precision.converted(absorbed, options.precision) if lower else absorbed


def _document(
    model: onnx.ModelProto, nodes: Sequence[Occurrence], inputs: Any, options: Options, *, unknown: Any
) -> Row:
    trains = options.mode == "Training"
    parameters = list({value.key: value for node in nodes for value in operators.weights(node)}.values())
    run = [node for node in nodes if not node.folded]
    rows = [row for node in run for row in operators.rows(node, training=trains)]
    saved = 0
    if trains:
        step = training.backward(nodes)
        rows += step.rows
        saved = step.saved_bytes
        rows.append(training.sweep(parameters, options.optimizer or "adamw"))
    rows = _folded([_with_tf32(row, options.precision) for row in rows])
    opset = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    longest = _longest(run, training=trains)
    return {
        "v": 1,
        "name": options.name,
        "framework": f"onnx opset {opset}",
        "mode": options.mode,
        "batchSize": options.batch_size,
        "precision": _precision(rows, options.precision),
        "optimizer": (options.optimizer or "adamw").lower().partition(":")[0] if trains else None,
        "compiled": not trains,  # a runtime launches its kernels; what trains the model is a framework
        "parameters": sum(value.elements for value in parameters),
        "parameterBytes": sum(value.bytes for value in parameters),
        "savedActivationBytes": saved,
        "inputBytesPerStep": sum(value.bytes for value in inputs),
        "criticalPathOperators": 2 * longest + 1 if trains else longest,
        "host": options.host,
        "inference": options.inference,
        "operators": rows,
        "coverage": _coverage(rows, unknown),
    }


def _with_tf32(row: Row, precision: str) -> Row:
    """Convolutions and recurrent layers run in TF32 as frameworks have it by default; products where asked."""
    classes = operators.MATRIX if precision == "tf32" else ("conv", "rnn")
    return {**row, "dtype": "tf32"} if row["dtype"] == "fp32" and row["class"] in classes else row


def _folded(rows: Sequence[Row]) -> list[Row]:
    """Rows that are equal in every key but `repeat`, made one."""
    counts: dict[tuple[Any, ...], int] = {}
    first: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        kept = {key: value for key, value in row.items() if key not in ("repeat", "dims")}
        key = (*sorted(kept.items()), tuple(row.get("dims", {}).items()))
        counts[key] = counts.get(key, 0) + row.get("repeat", 1)
        first.setdefault(key, row)
    return [{**row, "repeat": counts[key]} for key, row in first.items()]


def _precision(rows: Sequence[Row], asked: str) -> str:
    """Return what is asked for; else the type of most matrix work, where the file has another one than fp32."""
    if asked != "fp32":
        return asked
    amounts: dict[str, int] = {}
    for row in rows:
        if row["class"] in operators.MATRIX:
            amounts[row["dtype"]] = amounts.get(row["dtype"], 0) + row["repeat"] * row.get("flops", 0)
    largest = max(amounts, key=lambda dtype: amounts[dtype], default="fp32")
    kind = "fp8" if largest.startswith("fp8") else largest
    return kind if kind in ("fp16", "bf16", "fp8", "int8") else "fp32"


def _coverage(rows: Sequence[Row], control: Mapping[str, int]) -> Row:
    """Operators counted, and those of no known class: an unknown one is taken for one FLOP per output element."""
    unknown = dict(control)
    elements = 0
    for row in rows:
        if row["class"] == "other":
            unknown[row["name"]] = unknown.get(row["name"], 0) + row["repeat"]
            elements += row["repeat"] * row.get("outputElements", 0)
    known = sum(row.get("flops", 0) * row["repeat"] for row in rows)
    share = 100 * known / (known + elements) if elements else 100.0
    return {
        "operators": sum(row["repeat"] for row in rows),
        "unknown": dict(sorted(unknown.items())),
        "flopsPercent": round(share, 2),
    }


def _longest(nodes: Sequence[Occurrence], *, training: bool) -> int:
    """Return the longest chain of kernels that must wait for one another; what repeats waits for itself."""
    depths: dict[int, int] = {}
    longest = 0
    for node in nodes:
        rows = operators.rows(node, training=training)
        serial = sum(row["kernels"] if row["class"] == "rnn" else min(1, row["kernels"]) for row in rows)
        depth = serial * node.repeat + max((depths.get(value.key, 0) for value in node.read), default=0)
        longest = max(longest, depth)
        depths.update({value.key: depth for value in node.written})
    return longest
