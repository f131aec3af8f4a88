"""From an ONNX file without weights, as an extraction stored it, to a graph document. Heavy: runs in a thread.

The file was written in a user's pod and may be anything: what cannot be read is told, and nothing of it is run.
"""

import importlib
import zlib
from typing import Final

from cotenant_api import dljob, errors, graph
from cotenant_operator.graphs import extraction_pod, sources
from cotenant_operator.state.outcomes import Missing

MAX_BYTES: Final = 16 * 1024 * 1024
"""Of a file without weights; the stripper writes no larger one."""
_READER: Final = "cotenant_predictor.extraction.onnx_reader.document"
_FIELDS: Final = {"--batch-size": "spec.batchSize", "--input-shape": "spec.inputShapes"}
"""What a field is called on the command line, where the reader's messages come from."""


def document(packed: bytes, wanted: dljob.Spec, *, name: str) -> bytes | Missing:
    """The graph document as JSON, or why there is none.

    Args:
        packed: the gzipped file.
        wanted: batch, precision, shapes and kind of the job.
        name: of the graph.
    """
    source = "spec.model.onnx"
    try:
        data = _unpacked(packed)
        # Imported when the first such job comes: onnx takes time and memory.
        reader = importlib.import_module(_READER)
        options = reader.Options(
            name=name,
            batch_size=wanted.batch_size or 1,
            mode=extraction_pod.mode(wanted).value,
            precision=(wanted.precision or graph.Precision.FP32).value,
            shapes={shape.name: shape.dims for shape in wanted.input_shapes},
        )
        found = reader.extract(data, options, source=source)
        return graph.Graph.from_object(found, source=source).sealed().to_json().encode()
    except errors.InvalidInputError as error:
        return sources.not_extracted(_in_words_of_the_spec(str(error)))
    except Exception as error:  # noqa: BLE001 - a user's file in a foreign library: no kind of failure is known ahead
        return sources.not_extracted(f"{source}: {type(error).__name__}: {errors.shortened(str(error))}")


def _unpacked(packed: bytes) -> bytes:
    if len(packed) > graph.MAX_COMPRESSED_BYTES:
        remedy = f"must have at most {graph.MAX_COMPRESSED_BYTES}"
        raise errors.InvalidInputError("spec.model.onnx", f"{len(packed)} bytes packed", remedy)
    try:
        unpacker = zlib.decompressobj(wbits=31)
        data = unpacker.decompress(packed, MAX_BYTES)
    except zlib.error as error:
        raise errors.InvalidInputError("spec.model.onnx", packed[:16], f"must be gzipped: {error}") from error
    if not unpacker.eof:
        remedy = f"must be whole, and at most {MAX_BYTES} bytes unpacked"
        raise errors.InvalidInputError("spec.model.onnx", packed[:16], remedy)
    return data


def _in_words_of_the_spec(text: str) -> str:
    for flag, field in _FIELDS.items():
        text = text.replace(flag, field)
    return text
