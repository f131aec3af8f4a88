"""Gives every input of an ONNX graph a shape: as declared, as the file has it, the batch where it leaves that open.

The batch is the dimension whose name speaks of a batch; where none does, the first dimension of an input if it is open.
Other open dimensions are declared by their input's shape, or by their own name.
"""

from collections.abc import Mapping

import onnx

from cotenant_api import errors
from cotenant_predictor.extraction.onnx_reader.values import MAX_ELEMENTS, Origin, Shape, Value, dtype_of

_BATCH_NAMES = frozenset({"n", "b", "bs", "bsz"})


def bound(
    model: onnx.ModelProto, shapes: Mapping[str, Shape], *, batch_size: int, source: str
) -> tuple[dict[str, int], dict[str, Value]]:
    """Sizes of the dimensions that the file names, and the inputs by name.

    Raises:
        InvalidInputError: a dimension is open, or no input can have the batch.
    """
    held = {tensor.name for tensor in model.graph.initializer}
    entries = [entry for entry in model.graph.input if entry.name not in held]
    symbols = _symbols(entries, shapes, batch_size=batch_size, source=source)
    inputs = {}
    for entry in entries:
        if entry.type.WhichOneof("value") != "tensor_type":
            inputs[entry.name] = Value(name=entry.name, shape=None, dtype="fp32", origin=Origin.INPUT)
            continue
        shape = shapes[entry.name] if entry.name in shapes else _shape(entry, symbols, batch_size, source=source)
        dtype = dtype_of(entry.type.tensor_type.elem_type)
        if dtype is None:
            raise errors.InvalidInputError(f"{source}: input", entry.name, "has no element type: export it again")
        value = Value(name=entry.name, shape=shape, dtype=dtype, origin=Origin.INPUT)
        if min(shape, default=1) < 1 or value.elements > MAX_ELEMENTS:
            remedy = f"must have sizes of 1 or more and at most {MAX_ELEMENTS} elements: see --input-shape"
            raise errors.InvalidInputError(f"{source}: input {entry.name[:128]!r}", list(shape), remedy)
        inputs[entry.name] = value
    _check_batch(entries, inputs, shapes, batch_size=batch_size, source=source)
    return symbols, inputs


def _dims(entry: onnx.ValueInfoProto) -> list[int | str] | None:
    """Sizes and names of the dimensions; None where not even the rank is known."""
    kind = entry.type.tensor_type
    if not kind.HasField("shape"):
        return None
    # Exporters write open dimensions as a name, as nothing, or as -1 or 0.
    return [
        dim.dim_value if dim.WhichOneof("value") == "dim_value" and dim.dim_value > 0 else dim.dim_param
        for dim in kind.shape.dim
    ]


def _symbols(
    entries: list[onnx.ValueInfoProto], shapes: Mapping[str, Shape], *, batch_size: int, source: str
) -> dict[str, int]:
    """Sizes by name: as declared for the name or for an input that has it, else the batch's."""
    found: dict[str, int] = {}
    named, first = [], []
    for entry in entries:
        dims = _dims(entry) or []
        declared = shapes.get(entry.name)
        if declared is not None and dims and len(declared) != len(dims):
            remedy = f"the input has {len(dims)} dimensions in {source}"
            raise errors.InvalidInputError(f"--input-shape {entry.name}", list(declared), remedy)
        for axis, dim in enumerate(dims):
            if not isinstance(dim, str) or not dim:
                continue
            if declared is not None:
                found.setdefault(dim, declared[axis])
            elif len(shapes.get(dim, ())) == 1:
                found.setdefault(dim, shapes[dim][0])
            named += [dim] if _is_batch(dim) else []
            first += [dim] if axis == 0 else []
    for dim in dict.fromkeys(named or first):
        if found.setdefault(dim, batch_size) != batch_size and named:
            remedy = f"gives {dim[:128]!r} this size, but --batch-size is {batch_size}: let them agree"
            raise errors.InvalidInputError("--input-shape", found[dim], remedy)
    return found


def _is_batch(name: str) -> bool:
    """Return whether a dimension is the batch itself; what is computed from it is another one."""
    plain = name.lower()
    return plain in _BATCH_NAMES or ("batch" in plain and plain.replace("_", "").isalnum())


def _shape(entry: onnx.ValueInfoProto, symbols: Mapping[str, int], batch_size: int, *, source: str) -> Shape:
    dims = _dims(entry)
    name = entry.name[:128]
    remedy = f"its size is open: declare it with --input-shape {name}="
    by_name = (
        "" if dims is None else next((dim for dim in dims if isinstance(dim, str) and dim and dim not in symbols), "")
    )
    if dims is None:
        raise errors.InvalidInputError(f"{source}: input {name!r}", "no shape", f"{remedy}SIZES")
    sizes: list[int | None] = [
        dim if isinstance(dim, int) else symbols.get(dim, batch_size if axis == 0 and not dim else None)
        for axis, dim in enumerate(dims)
    ]
    if None in sizes:
        axis = sizes.index(None)
        example = ",".join(str(size or "SIZE") for size in sizes)
        also = f" or --input-shape {by_name[:128]}=SIZE" if by_name else ""
        raise errors.InvalidInputError(
            f"{source}: input {name!r}, axis {axis}", dims[axis] or "?", remedy + example + also
        )
    return tuple(size for size in sizes if size is not None)


def _check_batch(
    entries: list[onnx.ValueInfoProto],
    inputs: Mapping[str, Value],
    shapes: Mapping[str, Shape],
    *,
    batch_size: int,
    source: str,
) -> None:
    """Refuse a file whose sizes are all fixed, unless it was made for this batch, or is told otherwise."""
    sized = {name: value for name, value in inputs.items() if value.dims}
    if any(entry.name in shapes for entry in entries) or not sized:
        return
    if any(batch_size in value.dims for value in sized.values()):
        return
    name, value = next(iter(sized.items()))
    like = ",".join(map(str, (batch_size, *value.dims[1:])))
    remedy = f"the file fixes another batch: export it with an open one, or try --input-shape {name[:128]}={like}"
    raise errors.InvalidInputError(f"{source}: input {name[:128]!r}", list(value.dims), remedy)
