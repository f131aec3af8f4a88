"""Where a DLJob's computation graph comes from, and what to do when it cannot be had. Pure.

A user's code is never imported here: what comes from their image is extracted in a pod of theirs.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any

from cotenant_api import dljob, errors, graph, pod, quantity
from cotenant_operator import reasons
from cotenant_operator.graphs import extraction_pod
from cotenant_operator.parsing import tasks
from cotenant_operator.state import outcomes
from cotenant_operator.state.outcomes import Missing

MAX_PLAIN_BYTES = 256 * 1024
"""Of a document that is not gzipped: so much of each that waits to be read is held."""
REMEDY = "run `cotenant extract`, store its file in a ConfigMap and name it in spec.model.configMapRef"


def config_map_of(spec: dljob.Spec) -> dljob.ConfigMapRef | None:
    """Return the ConfigMap that has to be read first."""
    return None if spec.model is None else spec.model.config_map_ref


def unavailable(spec: dljob.Spec) -> Missing | None:
    """Why there is nothing to read, if so."""
    source = spec.model
    if source is None or not any((source.features, source.config_map_ref, source.onnx, source.entrypoint)):
        return Missing(reason=reasons.NO_MODEL, message=f"spec.model names no computation graph: {REMEDY}")
    extracted = source.onnx is not None or source.entrypoint is not None
    if extracted and spec.precision is not None and spec.precision not in extraction_pod.PRECISIONS:
        known = ", ".join(precision.value for precision in extraction_pod.PRECISIONS)
        message = f"spec.precision: {spec.precision.value} cannot be extracted: write one of {known}, or {REMEDY}"
        return Missing(reason=reasons.MODEL_SOURCE_NOT_SUPPORTED, message=message)
    return None


def inline_text(spec: dljob.Spec) -> bytes | Missing:
    """Return the document in `spec.model.features`."""
    data = json.dumps(None if spec.model is None else spec.model.features, separators=(",", ":")).encode()
    if len(data) > graph.MAX_INLINE_BYTES:
        problem = f"is {len(data)} bytes, inline at most {graph.MAX_INLINE_BYTES}: use configMapRef"
        return unreadable(f"spec.model.features: {problem}")
    return data


def from_config_map(ref: dljob.ConfigMapRef, config_map: Mapping[str, Any] | None) -> bytes | Missing:
    """Return the document in a ConfigMap, as `data` or `binaryData` hold it.

    Args:
        ref: which one.
        config_map: the object; None where there is none.
    """
    if config_map is None:
        message = f"ConfigMap {ref.name} does not exist: create it with key {ref.key}; it is looked for again"
        return Missing(reason=reasons.CONFIG_MAP_NOT_FOUND, message=message, may_come=True)
    binary, text = config_map.get("binaryData") or {}, config_map.get("data") or {}
    if ref.key in text:
        return str(text[ref.key]).encode()
    if ref.key in binary:
        try:
            return base64.b64decode(binary[ref.key], validate=True)
        except binascii.Error as error:
            return unreadable(f"ConfigMap {ref.name}, key {ref.key}: is no base64: {error}")
    known = ", ".join(sorted({*text, *binary})[:8]) or "none"
    message = f"ConfigMap {ref.name} has no key {ref.key} (it has {known}): name one in spec.model.configMapRef.key"
    return Missing(reason=reasons.CONFIG_MAP_NOT_FOUND, message=message, may_come=True)


def too_large(data: bytes, *, source: str) -> Missing | None:
    """Why a document is not even looked at, if so."""
    packed = data[:2] == b"\x1f\x8b"
    limit = graph.MAX_COMPRESSED_BYTES if packed else MAX_PLAIN_BYTES
    if len(data) <= limit:
        return None
    remedy = tasks.REMEDY if packed else "store it gzipped, in binaryData"
    return unreadable(f"{source}: is {len(data)} bytes and may have {limit}: {remedy}")


def requests_per_second(spec: dljob.Spec) -> float | None:
    """Return the load that an inference job declares; None where it declares none."""
    declared = None if spec.slo is None else spec.slo.requests_per_second
    if declared is None or spec.workload_type is not pod.WorkloadType.INFERENCE:
        return None
    try:
        return float(quantity.parse(declared, field="spec.slo.requestsPerSecond")) or None
    except errors.InvalidInputError:
        # The API server has refused such a spec.
        return None


def unreadable(problem: str) -> Missing:
    """Return what is missing where the graph is there and cannot be used."""
    message = f"the computation graph cannot be read: {problem}; extract it again with `cotenant extract`"
    return Missing(reason=reasons.GRAPH_UNREADABLE, message=message, may_come=True)


def not_extracted(problem: str) -> Missing:
    """Return what was extracted cannot be used, however often it is read."""
    return Missing(reason=reasons.GRAPH_UNREADABLE, message=f"the computation graph cannot be read: {problem}")


def awaited() -> Missing:
    """Nothing is extracted yet; `life.extracting` sees to it and says how far it is."""
    message = "the computation graph is not extracted yet"
    return Missing(reason=reasons.EXTRACTION_RUNNING, message=message, may_come=True)


def described(outcome: outcomes.Outcome) -> str:
    """Return the outcome in one line, for conditions."""
    if isinstance(outcome, Missing):
        return outcome.message
    document = outcome.prediction
    models = ", ".join(sorted(document.by_gpu)) if len(document.by_gpu) <= 4 else f"{len(document.by_gpu)} GPU models"
    return f"predicted by {document.model} for {models}"
