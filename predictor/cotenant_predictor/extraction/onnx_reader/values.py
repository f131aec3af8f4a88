"""What flows between the nodes of an ONNX graph: shapes, types, and small constants. Values only: reads no file."""

import dataclasses
import enum
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx

Array: TypeAlias = npt.NDArray[Any]
Shape: TypeAlias = tuple[int, ...]

MAX_ELEMENTS = 1 << 42
"""Of one tensor: 16 TiB in fp32, more than any GPU or host holds."""

_BITS = {
    "fp32": 32,
    "uint8": 8,
    "int8": 8,
    "uint16": 16,
    "int16": 16,
    "int32": 32,
    "int64": 64,
    "string": 128,
    "bool": 8,
    "fp16": 16,
    "fp64": 64,
    "uint32": 32,
    "uint64": 64,
    "complex64": 64,
    "complex128": 128,
    "bf16": 16,
    "fp8_e4m3fn": 8,
    "fp8_e4m3fnuz": 8,
    "fp8_e5m2": 8,
    "fp8_e5m2fnuz": 8,
    "uint4": 4,
    "int4": 4,
    "fp4_e2m1": 4,
    "fp8_e8m0": 8,
    "uint2": 2,
    "int2": 2,
}
"""In the order of onnx.TensorProto.DataType, from 1."""
_NAMES = dict(enumerate(_BITS, start=1))
_NUMBERS = {name: number for number, name in _NAMES.items()}
FLOATS = frozenset(name for name in _BITS if name.startswith(("fp", "bf")))
QUANTIZED = frozenset({"int8", "uint8", "int4", "uint4", "int2", "uint2"})

_keys = itertools.count()


class Origin(enum.Enum):
    """Where a tensor's elements come from."""

    INPUT = "input"
    INITIALIZER = "initializer"
    CONSTANT = "constant"
    """Made by a node without inputs, or filled with one value."""
    COMPUTED = "computed"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Value:
    """One tensor. Two values are the same tensor if they have the same `key`."""

    name: str
    shape: Shape | None
    """None: a sequence or an optional, whose tensors nothing says."""
    dtype: str
    static: bool = False
    """Whether it depends on no input of the graph: a runtime computes it once, when it loads the file."""
    origin: Origin = Origin.COMPUTED
    array: Array | None = None
    """The elements where they are known and few."""
    key: int = dataclasses.field(default_factory=lambda: next(_keys))

    @property
    def elements(self) -> int:
        """How many; an opaque value has none."""
        return 0 if self.shape is None else math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Of its elements, rounded up."""
        return -(-self.elements * _BITS[self.dtype] // 8)

    @property
    def dims(self) -> Shape:
        """The shape; that of an opaque value is empty."""
        return self.shape or ()

    @property
    def floats(self) -> bool:
        """Whether gradients can flow through it."""
        return self.dtype in FLOATS

    def type_proto(self) -> onnx.TypeProto:
        """Return the type as ONNX writes it."""
        return onnx.helper.make_tensor_type_proto(_NUMBERS[self.dtype], self.shape)

    def tensor_proto(self) -> onnx.TensorProto | None:
        """Return the elements as ONNX writes them; None where they are not known."""
        return None if self.array is None else onnx.numpy_helper.from_array(self.array, self.name)

    def cast(self, dtype: str) -> "Value":
        """Return the same elements in another type: another tensor."""
        return dataclasses.replace(self, dtype=dtype, array=None, origin=Origin.COMPUTED, key=next(_keys))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Occurrence:
    """One node with what it reads and writes, run `repeat` times in a step."""

    domain: str
    """Empty for ONNX's own operators."""
    operator: str
    place: str
    """Where it stands in the file, for messages."""
    opset: int
    attributes: Mapping[str, Any]
    inputs: tuple[Value | None, ...]
    outputs: tuple[Value | None, ...]
    repeat: int = 1
    folded: bool = False
    """Whether a runtime does it when it loads the file, not in a step."""

    @property
    def name(self) -> str:
        """The operator's name in a graph document."""
        return f"{self.domain or 'onnx'}::{self.operator}"

    @property
    def read(self) -> tuple[Value, ...]:
        """The inputs that are there."""
        return tuple(value for value in self.inputs if value is not None)

    @property
    def written(self) -> tuple[Value, ...]:
        """The outputs that are there."""
        return tuple(value for value in self.outputs if value is not None)

    def input(self, index: int) -> Value | None:
        """Return the input at a position; None where it is left out."""
        return self.inputs[index] if index < len(self.inputs) else None

    def shape(self, index: int) -> Shape:
        """Return the shape of an input; empty where it is left out."""
        value = self.input(index)
        return () if value is None else value.dims

    def whole(self, name: str, default: int) -> int:
        """Return an integer attribute."""
        value = self.attributes.get(name, default)
        return value if isinstance(value, int) else default

    def text(self, name: str, default: str = "") -> str:
        """Return a string attribute."""
        value = self.attributes.get(name, default)
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else default


def dtype_of(number: int) -> str | None:
    """Return the graph document's name of an ONNX element type; None for an unknown one."""
    return _NAMES.get(number)


def dtype_of_array(array: Array) -> str | None:
    """As `dtype_of`, of known elements."""
    return dtype_of(onnx.helper.np_dtype_to_tensor_dtype(np.dtype(array.dtype)))


def axis_of(axis: int, shape: Sequence[int]) -> int:
    """Return an axis counted from the end, counted from the start; clamped to those that there are."""
    return max(0, min(axis + len(shape) if axis < 0 else axis, len(shape) - 1))
