"""The parts of a model: how each is written as JSON and read back. A part that was not learned is absent.

Long lists of numbers are written as the bytes of an array, in base64: `{"array": "..", "type": "<f4"}`. That is a
third of the size of digits, and read ten times as fast. The narrowest type that keeps every number exactly is taken.
"""

import base64
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from cotenant_predictor.jobs import features
from cotenant_predictor.jobs.guarded import Guarded

FEWEST_PACKED: Final = 32
"""A shorter list stays as readable as it is."""
TYPES: Final = ("|u1", "<u2", "<i4", "<f4", "<f8")


def packed(value: Any) -> Any:
    """Return a state in which long lists of numbers (of equally long lists, too) are arrays in base64."""
    if isinstance(value, dict):
        return {key: packed(member) for key, member in value.items()}
    if not isinstance(value, list):
        return value
    if _shape(value) is None:
        return [packed(member) for member in value]
    array = np.array(value)
    if array.size < FEWEST_PACKED:
        return value
    narrow = next((array.astype(name) for name in TYPES if _keeps(array, name)), None)
    if narrow is None:
        raise ValueError("a number is not finite")
    text = base64.b64encode(narrow.tobytes()).decode("ascii")
    return {"array": text, "type": narrow.dtype.str, "shape": list(array.shape)}


def unpacked(value: Any) -> Any:
    """Return what `packed` was given, with arrays for its long lists.

    Raises:
        KeyError: an array has no type or shape.
        ValueError: an array is damaged, or its type is not one of `TYPES`.
    """
    if isinstance(value, list):
        return [unpacked(member) for member in value]
    if not isinstance(value, dict):
        return value
    if "array" not in value:
        return {key: unpacked(member) for key, member in value.items()}
    if value["type"] not in TYPES:
        raise ValueError(f"{value['type']!r} is no type of an array; types are {', '.join(TYPES)}")
    data = base64.b64decode(value["array"], validate=True)
    return np.frombuffer(data, dtype=value["type"]).reshape(value["shape"])


def _shape(value: Any) -> tuple[int, ...] | None:
    """Return the shape of a list of numbers, or of equally shaped lists; None where it is neither."""
    if type(value) in {int, float}:
        return ()
    if not isinstance(value, list) or not value:
        return None
    shapes = {_shape(member) for member in value}
    first = shapes.pop()
    return None if shapes or first is None else (len(value), *first)


def _keeps(array: Any, name: str) -> bool:
    with np.errstate(over="ignore", invalid="ignore"):
        return bool((array.astype(name) == array).all())


def residuals_state(residuals: Mapping[str, Guarded]) -> dict[str, Any]:
    """Corrections of single jobs by target, as JSON."""
    return {target: residual.to_state() for target, residual in residuals.items()}


def residuals_of(state: Mapping[str, Any]) -> dict[str, Guarded]:
    """Return what `residuals_state` gave.

    Raises:
        KeyError: something is missing.
        ValueError: a target is not known, or a correction is not valid.
    """
    unknown = set(state) - set(features.TARGETS)
    if unknown:
        raise ValueError(f"{', '.join(sorted(unknown))} is no target; targets are {', '.join(features.TARGETS)}")
    residuals = {target: Guarded.from_state(of_target) for target, of_target in state.items()}
    for target, corrections in residuals.items():
        for member in corrections.members:
            if len(member.center) != len(features.NAMES):
                raise ValueError(f"{target}: {len(member.center)} features, this release has {len(features.NAMES)}")
    return residuals
