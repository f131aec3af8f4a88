"""What kubelet has allocated, from the checkpoint that it keeps. Read only; nothing is ever written there.

The JSON is that of `Data` in kubelet's pkg/kubelet/cm/devicemanager/checkpoint/checkpoint.go (1.36). Its checksum is
left alone: it hashes how Go prints kubelet's own types, and kubelet renames a whole file into place.
"""

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from cotenant_api import errors, names
from cotenant_api.names import PodUID
from cotenant_deviceplugin.kubelet.owners import Recorded
from cotenant_deviceplugin.kubelet.plugin import CDIName, Token, Tokens
from cotenant_deviceplugin.kubelet.protos import deviceplugin_v1beta1_pb2 as messages


async def read(path: Path) -> tuple[Recorded, ...]:
    """Return the containers with tokens in the file.

    Raises:
        TemporaryError: it is not there (kubelet writes it at the first registration), or is not what kubelet writes.
    """
    try:
        text = await asyncio.to_thread(path.read_bytes)
    except FileNotFoundError as error:
        text_of_error = f"there is no {path} yet: kubelet writes it when it first hears of a device plugin's devices"
        raise errors.TemporaryError(text_of_error, delay_seconds=1) from error
    except OSError as error:
        raise errors.TemporaryError(f"kubelet's checkpoint cannot be read: {error}", delay_seconds=1) from error
    return recorded(text)


def recorded(text: bytes) -> tuple[Recorded, ...]:
    """Return the containers with tokens in a checkpoint.

    Pure. Raises TemporaryError where it is not what kubelet writes.
    """
    try:
        entries = json.loads(text)["Data"]["PodDeviceEntries"] or []
        return tuple(_entry(entry) for entry in entries if entry["ResourceName"] == names.GPU_SHARE)
    # Whatever is wrong with it, it is not kubelet's, or not yet; ValueError covers JSON, base64 and UTF-8.
    except (ValueError, KeyError, TypeError, AttributeError, DecodeError) as error:
        text_of_error = f"kubelet's checkpoint is not readable: {type(error).__name__}: {errors.shortened(str(error))}"
        raise errors.TemporaryError(text_of_error, delay_seconds=1) from error


def _entry(entry: dict[str, Any]) -> Recorded:
    answer = messages.ContainerAllocateResponse.FromString(base64.b64decode(entry["AllocResp"], validate=True))
    return Recorded(
        pod_uid=PodUID(_text(entry["PodUID"])),
        container=_text(entry["ContainerName"]),
        tokens=_tokens(entry["DeviceIDs"]),
        cdi_names=tuple(CDIName(device.name) for device in answer.cdi_devices),
    )


def _tokens(by_numa_node: dict[str, list[str]]) -> Tokens:
    """Our devices name no NUMA node: kubelet files them under "-1"."""
    return frozenset(Token(_text(token)) for tokens in by_numa_node.values() for token in tokens)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{errors.shortened(value)} is no text")
    return value
