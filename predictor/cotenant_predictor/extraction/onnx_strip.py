"""What of an ONNX file says shapes, without its weights: a smaller ONNX file of the same graph.

One file that travels alone into a user's image (Python >= 3.9, the standard library; nothing of Cotenant, no onnx). It
reads the wire format of protobuf; the file is mapped, so that weights are passed over and never read, and a file with
external data is never opened beside this one. What it keeps, by the messages of onnx.proto:

    ModelProto      ir_version, opset_import, graph, functions
    GraphProto      node, name, initializer, sparse_initializer, input, output, value_info
    FunctionProto   everything but doc_string and metadata_props
    NodeProto       input, output, op_type, name, attribute, domain, overload
    AttributeProto  everything but doc_string; numbers beyond the first 4096 of a list become 0, text beyond 4 KiB goes
    TensorProto     dims, data_type, name; the elements of int32, int64 and bool up to 4096 (what Reshape and the like
                    are told), of other numbers up to 16 (what Resize is told); else it is marked as external data
    ValueInfoProto  name, type
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Union

MAX_KEPT_BYTES = 1600 * 1024
"""What is left of a file at most."""
INTEGERS_KEPT = 4096
OTHERS_KEPT = 16
TEXT_KEPT = 4096
MAX_DEPTH = 64
"""Messages inside one another."""

Data = Union[bytes, mmap.mmap]  # noqa: UP007 - Python 3.9 runs this
_Change = Callable[["Data", int, int, int], bytes]

_VARINT, _FIXED64, BYTES, _FIXED32 = 0, 1, 2, 5
_INT32, _INT64, _STRING, _BOOL = 6, 7, 8, 9
_EXTERNAL = 1


class NotONNXError(ValueError):
    """The file is damaged, of another format, or too large even without its weights."""


def strip(path: Path) -> bytes:
    """Return the file without its weights.

    Raises:
        NotONNXError: it is no whole ONNX file, or more than MAX_KEPT_BYTES are left of it.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        if not path.stat().st_size:
            raise NotONNXError("is empty")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return stripped(data)


def stripped(data: Data) -> bytes:
    """As `strip`, of what is in memory."""
    kept = _message(data, 0, len(data), fields=_MODEL, depth=0)
    if not any(number == 7 for number, *_ in entries(kept, 0, len(kept))):
        raise NotONNXError("holds no graph: it is of another format")
    return kept


def entries(data: Data, start: int, end: int) -> Iterator[tuple[int, int, int, int, int]]:
    """Yield number, wire type, where the field begins, where its value begins, and where it ends."""
    at = start
    while at < end:
        begin = at
        key, at = _number(data, at, end)
        kind = key & 7
        value = at
        if kind == _VARINT:
            _, at = _number(data, at, end)
        elif kind == BYTES:
            length, value = _number(data, at, end)
            at = value + length
        elif kind in (_FIXED64, _FIXED32):
            at += 8 if kind == _FIXED64 else 4
        else:
            raise NotONNXError(f"is of another format, or damaged: byte {begin}")
        if at > end:
            raise NotONNXError(f"is truncated: a field at byte {begin} is longer than what it is in")
        yield key >> 3, kind, begin, value, at


def _number(data: Data, at: int, end: int) -> tuple[int, int]:
    """Return a variable-length integer, and where it ends."""
    value = shift = 0
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise NotONNXError(f"is truncated, or of another format: byte {at}")


def _message(data: Data, start: int, end: int, *, fields: dict[int, _Change | None], depth: int) -> bytes:
    """Return a message of only these fields; None: as it is."""
    if depth > MAX_DEPTH:
        raise NotONNXError(f"has graphs more than {MAX_DEPTH} deep inside one another")
    parts = []
    size = 0
    for number, kind, begin, value, stop in entries(data, start, end):
        if number not in fields:
            continue
        change = fields[number]
        if change is None or kind != BYTES:
            part = bytes(data[begin:stop])
        else:
            part = _field(number, change(data, value, stop, depth + 1))
        parts.append(part)
        size += len(part)
        if size > MAX_KEPT_BYTES:
            raise NotONNXError(f"has a graph of more than {MAX_KEPT_BYTES >> 10} KiB without its weights")
    return b"".join(parts)


def _field(number: int, content: bytes) -> bytes:
    return _written(number << 3 | BYTES) + _written(len(content)) + content


def _written(value: int) -> bytes:
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def _only(fields: dict[int, _Change | None]) -> _Change:
    """Return how to rewrite a message of which only these fields are kept."""

    def change(data: Data, start: int, end: int, depth: int) -> bytes:
        return _message(data, start, end, fields=fields, depth=depth)

    return change


def _tensor(data: Data, start: int, end: int, depth: int) -> bytes:
    """Return a tensor with its elements where they are few; else as one whose elements lie in another file."""
    elements, kind, external = 1, 0, False
    for number, wire, _, value, stop in entries(data, start, end):
        if number == 1:
            for size in _integers(data, wire, value, stop):
                elements *= size
        elif number == 2 and wire == _VARINT:
            kind = _number(data, value, stop)[0]
        elif number == 14 and wire == _VARINT:
            external = _number(data, value, stop)[0] == _EXTERNAL
    limit = INTEGERS_KEPT if kind in (_INT32, _INT64, _BOOL) else OTHERS_KEPT
    if not external and kind != _STRING and elements <= limit:
        return _message(data, start, end, fields=_WHOLE_TENSOR, depth=depth)
    return _message(data, start, end, fields=_BARE_TENSOR, depth=depth) + _written(14 << 3) + _written(_EXTERNAL)


def _integers(data: Data, wire: int, start: int, end: int) -> list[int]:
    """One integer, or those that are packed into one field; those below zero count as none."""
    found = []
    while start < end:
        value, start = _number(data, start, end)
        found.append(value if value < 1 << 63 else 0)
        if wire == _VARINT:
            break
    return found


def _attribute(data: Data, start: int, end: int, depth: int) -> bytes:
    """Return an attribute; its lists keep their lengths."""
    parts = []
    counts = {7: 0, 8: 0}
    for number, kind, begin, value, stop in entries(data, start, end):
        if number in counts:
            part, counts[number] = _listed(data, number, kind, (begin, value, stop), seen=counts[number])
        elif number in _NESTED and kind == BYTES:
            part = _field(number, _NESTED[number](data, value, stop, depth + 1))
        elif number == 13 or (number == 4 and stop - value > TEXT_KEPT):
            continue
        else:
            part = bytes(data[begin:stop])
        parts.append(part)
    if depth > MAX_DEPTH or sum(map(len, parts)) > MAX_KEPT_BYTES:
        raise NotONNXError("has an attribute that is too large or too deep")
    return b"".join(parts)


def _listed(data: Data, number: int, kind: int, place: tuple[int, int, int], *, seen: int) -> tuple[bytes, int]:
    """Return a number of a list, or several that are packed, and how many there have been; late ones become 0."""
    begin, value, stop = place
    size = 4 if number == 7 else 0
    if kind != BYTES:
        zero = _written(number << 3 | kind) + (struct.pack("<f", 0.0) if size else b"\0")
        return (bytes(data[begin:stop]) if seen < INTEGERS_KEPT else zero), seen + 1
    count = (stop - value) // 4 if size else len(_integers(data, BYTES, value, stop))
    if seen + count <= INTEGERS_KEPT:
        return bytes(data[begin:stop]), seen + count
    return _field(number, bytes(count * (size or 1))), seen + count


def _graph(data: Data, start: int, end: int, depth: int) -> bytes:
    return _message(data, start, end, fields=_GRAPH, depth=depth)


_WHOLE_TENSOR: dict[int, _Change | None] = dict.fromkeys((1, 2, 4, 5, 7, 8, 9, 10, 11))
_BARE_TENSOR: dict[int, _Change | None] = dict.fromkeys((1, 2, 8))
_SPARSE = _only({1: _tensor, 2: _tensor, 3: None})
_NESTED: dict[int, _Change] = {5: _tensor, 6: _graph, 10: _tensor, 11: _graph, 22: _SPARSE, 23: _SPARSE}
_NODE = _only({**dict.fromkeys((1, 2, 3, 4, 7, 8)), 5: _attribute})
_VALUE = _only(dict.fromkeys((1, 2)))
_FUNCTION = _only({**dict.fromkeys((1, 4, 5, 6, 9, 10, 13)), 7: _NODE, 11: _attribute, 12: _VALUE})
_GRAPH: dict[int, _Change | None] = {1: _NODE, 2: None, 5: _tensor, 11: _VALUE, 12: _VALUE, 13: _VALUE, 15: _SPARSE}
_MODEL: dict[int, _Change | None] = {1: None, 7: _graph, 8: None, 25: _FUNCTION}
