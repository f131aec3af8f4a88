"""From an ONNX file without weights, as an extraction stored it, to a graph.

The file was written in a user's pod and may be anything: what cannot be read is told, and nothing of it is run.
"""

import zlib
from typing import Final

from cotenant_api import errors, graph
from cotenant_operator.parsing import tasks
from cotenant_predictor.extraction.onnx_reader import document, wire

_FIELDS: Final = {"--batch-size": "spec.batchSize", "--input-shape": "spec.inputShapes"}
"""What a field is called on the command line, where the reader's messages come from."""


def graph_of(packed: bytes, wanted: tasks.ONNX, *, source: str) -> graph.Graph:
    """Return the graph of one step.

    Args:
        packed: the gzipped file.
        wanted: batch, precision, shapes and kind of the job.
        source: what the file is called in messages.

    Raises:
        InvalidInputError: the file cannot be used.
    """
    try:
        options = document.Options(
            name=wanted.name,
            batch_size=wanted.batch_size,
            mode=wanted.mode,
            precision=wanted.precision,
            shapes=wanted.shapes,
        )
        found = document.extract(_unpacked(packed, source=source), options, source=source)
        return graph.Graph.from_object(found, source=source).sealed()
    except errors.InvalidInputError as error:
        field, remedy = _in_words_of_the_spec(error.field), _in_words_of_the_spec(error.remedy)
        raise errors.InvalidInputError(field, error.value, remedy) from error
    except (ImportError, MemoryError, OSError):
        raise
    except Exception as error:  # a user's file in a foreign library: no kind of failure is known ahead
        problem = f"{type(error).__name__}: {errors.shortened(str(error))}"
        size = f"{len(packed)} bytes"
        raise errors.InvalidInputError(source, size, f"cannot be read: {problem}: export it again") from error


def _unpacked(packed: bytes, *, source: str) -> bytes:
    try:
        unpacker = zlib.decompressobj(wbits=31)
        data = unpacker.decompress(packed, wire.MAX_BYTES)
    except zlib.error as error:
        raise errors.InvalidInputError(source, f"{len(packed)} bytes", f"must be gzipped: {error}") from error
    if not unpacker.eof:
        remedy = f"must be whole, and at most {wire.MAX_BYTES} bytes unpacked: {tasks.REMEDY}"
        raise errors.InvalidInputError(source, f"{len(packed)} bytes", remedy)
    return data


def _in_words_of_the_spec(text: str) -> str:
    for flag, field in _FIELDS.items():
        text = text.replace(flag, field)
    return text
