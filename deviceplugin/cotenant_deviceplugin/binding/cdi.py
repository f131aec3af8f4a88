"""CDI specifications: ours for one allocation, made of NVIDIA's for the GPUs and of what limits the container. Pure.

Field names and versions: https://github.com/cncf-tags/container-device-interface/blob/main/SPEC.md
A runtime refuses fields that the declared version does not have, so what NVIDIA's toolkit wrote keeps its version.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cotenant_api import errors
from cotenant_api.names import GPUUID
from cotenant_deviceplugin.binding import ledger
from cotenant_deviceplugin.binding.ledger import Nonce
from cotenant_deviceplugin.mps.backend import Edits

BASE_KIND = "nvidia.com/gpu"
LEAST_VERSION = (0, 5, 0)
"""The first in which a device's name may begin with a digit, as a nonce may."""

Object = Mapping[str, Any]


@dataclass(frozen=True)
class Base:
    """What NVIDIA's specification says of one GPU: all edits, in the order in which they apply."""

    version: tuple[int, ...]
    edits: tuple[Object, ...]


def base_of(specification: Object, gpu: GPUUID, index: int) -> Base | None:
    """The edits of a GPU in a specification; its device is named by UUID, or else by index. None: it is not there."""
    devices = {device.get("name"): device for device in specification.get("devices") or ()}
    device = devices.get(gpu) or devices.get(str(index))
    if specification.get("kind") != BASE_KIND or device is None:
        return None
    own = (specification.get("containerEdits"), device.get("containerEdits"))
    return Base(_version(specification), tuple(edits for edits in own if edits))


def specification(nonce: Nonce, bases: Iterable[Base], edits: Edits) -> dict[str, Any]:
    """The specification of the one device that an allocation names.

    Raises InvalidInputError where two GPUs ask for edits that exclude each other.
    """
    bases = tuple(bases)
    ours: dict[str, Any] = {"env": [f"{name}={value}" for name, value in sorted(edits.environment.items())]}
    if edits.mounts:
        ours["mounts"] = list(edits.mounts)
    merged = _merged([each for base in bases for each in base.edits] + [ours])
    version = max([LEAST_VERSION, *(base.version for base in bases)])
    return {
        "cdiVersion": ".".join(str(part) for part in version),
        "kind": ledger.KIND,
        "devices": [{"name": nonce, "containerEdits": merged}],
    }


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
