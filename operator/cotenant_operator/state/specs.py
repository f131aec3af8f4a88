"""The spec of a DLJob as it is kept: its text, or why it cannot be used. Pure."""

import json
from typing import Final

from cotenant_api import dljob, documents, errors, nesting
from cotenant_operator.state import templates, views

MAX_BYTES: Final = 128 * 1024
"""Of a spec as JSON, a graph inline included."""
_TOO_LARGE: Final = "cotenant.dev/bytes"
"""In the place of a spec that is too large: its size. The API server leaves no such key in a DLJob."""
_OF_ALL: Final = ("ttlSecondsAfterFinished", "suspend", "completions")
"""What is read of a spec of which nothing else is."""


def bounded(raw: views.Object) -> views.Object:
    """Return a DLJob's spec; of one that is too large only its size, and what is read of finished DLJobs."""
    size = len(json.dumps(raw, separators=(",", ":")))
    if size <= MAX_BYTES:
        return raw
    return {_TOO_LARGE: size, **{field: raw.get(field) for field in _OF_ALL}}


def text(raw: views.Object) -> tuple[bytes | None, str | None]:
    """Return the spec as JSON, or why it cannot be used."""
    found = json.dumps(raw, separators=(",", ":")).encode()
    size = raw.get(_TOO_LARGE, len(found))
    if size > MAX_BYTES:
        remedy = "put a graph into a ConfigMap (spec.model.configMapRef), and long variables and commands, too"
        return None, f"spec: {size} bytes: may have {MAX_BYTES}: {remedy}"
    if nesting.MARK.encode() in found:
        return None, f"spec: nested deeper than {nesting.MAX_DEPTH} levels: no field of a DLJob needs that: remove it"
    spec, problem = read(dljob.Spec, raw, source="spec")
    if spec is not None:
        problem = problem or dljob.contradiction(spec) or templates.problem(spec.template)
    return (found, None) if problem is None else (None, problem)


def read(model: type[documents.M], value: views.Object, *, source: str) -> tuple[documents.M | None, str | None]:
    """Return the value, or why it cannot be read."""
    try:
        return documents.validated(model, value, source=source), None
    except errors.InvalidInputError as error:
        return None, str(error)
