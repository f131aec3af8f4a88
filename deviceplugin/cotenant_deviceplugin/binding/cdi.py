"""The CDI specification of one allocation, made of NVIDIA's for the GPUs and of what limits the container. Pure.

Field names and versions: https://github.com/cncf-tags/container-device-interface/blob/main/SPEC.md
A runtime refuses fields that the declared version does not have, so what NVIDIA's toolkit wrote keeps its version.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cotenant_api import errors
from cotenant_api.names import GPUUID
from cotenant_deviceplugin.binding import ledger, nodes
from cotenant_deviceplugin.binding.grants import Numbers
from cotenant_deviceplugin.binding.ledger import Nonce
from cotenant_deviceplugin.mps.backend import Edits

HOOKS_OF_WHOLE_GPUS = frozenset({"enable-cuda-compat", "apply-cuda-memory-limits"})
"""Hooks of NVIDIA's toolkit that containers of a shared GPU do not get: the first lets a client of MPS load a libcuda
that is newer than its server's, the second sets limits by variables that the tenant sets (toolkit 1.20)."""
LEAST_VERSION = (0, 5, 0)
"""The first in which a device's name may begin with a digit, as a nonce may."""
MAX_DEPTH = 32
MAX_VALUES = 100_000
"""Of the edits of one GPU, which have some hundred. YAML's aliases repeat a value for a few bytes."""

Object = Mapping[str, Any]


@dataclass(frozen=True)
class Base:
    """What NVIDIA's specification says of one GPU: all edits, in the order in which they apply."""

    version: tuple[int, ...]
    edits: tuple[Object, ...]


def check(specification: Object) -> None:
    """Raise InvalidInputError where a specification is not of the shape that is read here."""
    _version(specification)
    devices = _objects(specification, "devices")
    for edits in (_edits(each) for each in (specification, *devices)):
        for name in ("mounts", "deviceNodes", "hooks"):
            _objects(edits, name)
        for hook in edits.get("hooks") or ():
            _texts(hook, "args")
        _texts(edits, "env")
    for device in devices:
        if not isinstance(device.get("name"), str):
            raise errors.InvalidInputError("devices.name", device.get("name"), "must be a text")


def base_of(specification: Object, gpu: GPUUID, numbers: Numbers) -> Base | None:
    """Return a GPU's edits in a specification of NVIDIA's; None where it does not know the GPU, or gives another.

    Raises:
        InvalidInputError: it is no specification.
    """
    known = named(specification, gpu, numbers)
    return None if known is None or wrong_nodes(known, numbers) is not None else known


def wrong_nodes(base: Base, numbers: Numbers) -> str | None:
    """Return why edits do not give a GPU by its device node, and no other GPU; None where they do."""
    if numbers.minor is None:
        return "cannot be compared with the GPU, whose minor number the driver does not tell"
    return nodes.wrong((node for edits in base.edits for node in edits.get("deviceNodes") or ()), numbers.minor)


def named(specification: Object, gpu: GPUUID, numbers: Numbers) -> Base | None:
    """Return what a specification of NVIDIA's gives by a name of the GPU; None where it has none of its names.

    A device is named by UUID, by index, or by type and index (`--device-name-strategy` of nvidia-ctk).

    Raises:
        InvalidInputError: it is no specification.
    """
    check(specification)
    devices = {device.get("name"): device for device in specification.get("devices") or ()}
    names: tuple[str, ...] = (gpu, str(numbers.index), f"gpu{numbers.index}")
    device = next((devices[name] for name in names if name in devices), None)
    if device is None:
        return None
    own = (specification.get("containerEdits"), device.get("containerEdits"))
    for edits in own:
        _measure(edits, 0, {})
    return Base(_version(specification), tuple(edits for edits in own if edits))


def specification(nonce: Nonce, bases: Iterable[Base], edits: Edits) -> dict[str, Any]:
    """Return the specification of the one device that an allocation names.

    Raises InvalidInputError where two GPUs ask for edits that exclude each other.
    """
    bases = tuple(bases)
    ours: dict[str, Any] = {"env": [f"{name}={value}" for name, value in sorted(edits.environment.items())]}
    if edits.mounts:
        ours["mounts"] = list(edits.mounts)
    given = [nodes.for_containers(each) for base in bases for each in base.edits]
    theirs = [_for_sharing(each) if edits.shared else each for each in given]
    merged = _merged([*theirs, ours])
    version = max([LEAST_VERSION, *(base.version for base in bases)])
    return {
        "cdiVersion": ".".join(str(part) for part in version),
        "kind": ledger.KIND,
        "devices": [{"name": nonce, "containerEdits": merged}],
    }


def minors(text: bytes) -> frozenset[int] | None:
    """Return the minor numbers of all GPUs that a specification of ours gives; None: it cannot be read."""
    try:
        value = json.loads(text)
        if not isinstance(value, Mapping):
            return None
        check(value)
    except (ValueError, RecursionError, errors.InvalidInputError):
        return None
    devices = _objects(value, "devices")
    return nodes.minors(node for device in devices for node in _objects(_edits(device), "deviceNodes"))


def _edits(of: Object) -> Object:
    edits = of.get("containerEdits") or {}
    if not isinstance(edits, Mapping):
        raise errors.InvalidInputError("containerEdits", edits, "must be an object")
    return edits


def _objects(of: Object, field: str) -> list[Object]:
    return _list(of, field, Mapping, "must be a list of objects")


def _texts(of: Object, field: str) -> list[str]:
    return _list(of, field, str, "must be a list of texts")


def _list(of: Object, field: str, kind: type[Any], remedy: str) -> list[Any]:
    values = of.get(field) or []
    if not isinstance(values, list) or not all(isinstance(value, kind) for value in values):
        raise errors.InvalidInputError(field, values, remedy)
    return values


def _measure(value: object, depth: int, known: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """Return how many values one has with all that is in it, and how deep it is; raise InvalidInputError beyond bounds.

    What an alias has contain itself has no end, and not all that YAML knows is in JSON.
    """
    count, height = known.get(id(value), (1, 0))
    if height == 0 and isinstance(value, Mapping | list) and depth <= MAX_DEPTH:
        parts = [_measure(each, depth + 1, known) for each in (value if isinstance(value, list) else value.values())]
        count, height = 1 + sum(part[0] for part in parts), 1 + max((part[1] for part in parts), default=0)
        known[id(value)] = count, height
    if depth + height > MAX_DEPTH or count > MAX_VALUES:
        raise errors.InvalidInputError(
            "containerEdits", "...", f"must be {MAX_DEPTH} levels deep and have {MAX_VALUES} values at most"
        )
    if not isinstance(value, Mapping | list | str | int | float | None):
        raise errors.InvalidInputError("containerEdits", value, "must be text, number, list or object")
    if isinstance(value, float) and not math.isfinite(value):
        raise errors.InvalidInputError("containerEdits", value, "must be a number that JSON has")
    if isinstance(value, Mapping) and not all(isinstance(key, str) for key in value):
        raise errors.InvalidInputError("containerEdits", list(value), "must have names that are text")
    return count, height


def _for_sharing(edits: Object) -> Object:
    """Without what would take a client of MPS away from its server or its limits."""
    if "hooks" not in edits:
        return edits
    kept = [hook for hook in edits["hooks"] if not HOOKS_OF_WHOLE_GPUS & set(hook.get("args") or ())]
    return {**edits, "hooks": kept}


def _merged(edits: Iterable[Object]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in ((key, value) for each in edits for key, value in each.items()):
        if isinstance(value, list):
            result[key] = [*result.get(key, ()), *value]
        elif result.setdefault(key, value) != value:
            raise errors.InvalidInputError(f"containerEdits.{key}", value, "GPUs of one container must agree on it")
    lists = {key: _unique(value) if isinstance(value, list) else value for key, value in result.items()}
    # The last one wins, whatever a runtime makes of a variable that is named twice.
    variables = {text.partition("=")[0]: text for text in lists.get("env", ())}
    return lists | {"env": list(variables.values())}


def _unique(values: list[Any]) -> list[Any]:
    """Without repetitions: GPUs of one node share their control devices and libraries."""
    return list({json.dumps(value, sort_keys=True): value for value in values}.values())


def _version(specification: Object) -> tuple[int, ...]:
    text = str(specification.get("cdiVersion", ""))
    try:
        return tuple(int(part) for part in text.split("."))
    except ValueError as error:
        raise errors.InvalidInputError("cdiVersion", text, "must be numbers with dots") from error
