"""A canary: a program that uses one GPU as a tenant would, and tells in one line of JSON how far it got.

It is a process of its own, because CUDA may hang, crash, and keep a GPU until the process ends. Standard library alone,
so that it is run by its path, without site-packages, and starts at once; nothing else of this program may import it but
for its path. Calls of CUDA: https://docs.nvidia.com/cuda/cuda-driver-api.
"""

import ctypes
import json
import signal
import sys
import uuid
from typing import Any

SIZE = 1 << 20
"""Bytes that are written and read back."""
PATTERN = 0xA5
MPS_ENABLED = 133
"""CU_DEVICE_ATTRIBUTE_MPS_ENABLED: whether contexts of this process are shared by MPS; older drivers do not know it."""
INVALID_VALUE = 1


class CallError(Exception):
    """A call that returned anything but CUDA_SUCCESS; or another step that did not come out as it must."""

    def __init__(self, step: str, error: str, number: int = 0) -> None:
        super().__init__(step, error)
        self.step, self.error, self.number = step, error, number


class CUDA:
    """The driver library. Raises OSError where it cannot be loaded."""

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function. Raises CallError, and AttributeError where the library has none of this name."""
        number = getattr(self._library, name)(*arguments)
        if number:
            raise CallError(name, self._named(number), number)

    def _named(self, number: int) -> str:
        name = ctypes.c_char_p()
        self._library.cuGetErrorName(number, ctypes.byref(name))
        return (name.value or str(number).encode()).decode(errors="replace")


def used(cuda: CUDA, gpu: str) -> bool | None:
    """Use the GPU; whether that went by way of MPS, None where the driver does not tell."""
    cuda.call("cuInit", 0)
    device = found(cuda, gpu)
    shared = by_mps(cuda, device)
    context = ctypes.c_void_p()
    cuda.call("cuCtxCreate_v2", ctypes.byref(context), 0, device)
    memory = ctypes.c_uint64()
    cuda.call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(SIZE))
    cuda.call("cuMemsetD8_v2", memory, ctypes.c_ubyte(PATTERN), ctypes.c_size_t(SIZE))
    cuda.call("cuCtxSynchronize")
    back = ctypes.create_string_buffer(SIZE)
    cuda.call("cuMemcpyDtoH_v2", back, memory, ctypes.c_size_t(SIZE))
    if back.raw != bytes([PATTERN]) * SIZE:
        raise CallError("compare", "what was read back is not what was written")
    cuda.call("cuMemFree_v2", memory)
    cuda.call("cuCtxDestroy_v2", context)
    return shared


def found(cuda: CUDA, gpu: str) -> ctypes.c_int:
    """Return the device of this UUID, whatever its number is here."""
    count, device, found_uuid = ctypes.c_int(), ctypes.c_int(), (ctypes.c_ubyte * 16)()
    cuda.call("cuDeviceGetCount", ctypes.byref(count))
    for ordinal in range(count.value):
        cuda.call("cuDeviceGet", ctypes.byref(device), ordinal)
        cuda.call("cuDeviceGetUuid_v2", found_uuid, device)
        if gpu == f"GPU-{uuid.UUID(bytes=bytes(found_uuid))}":
            return device
    raise CallError("cuDeviceGet", f"none of {count.value} devices is {gpu}")


def by_mps(cuda: CUDA, device: ctypes.c_int) -> bool | None:
    """Return whether this process is a client of MPS; None: the driver does not tell."""
    value = ctypes.c_int()
    try:
        cuda.call("cuDeviceGetAttribute", ctypes.byref(value), MPS_ENABLED, device)
    except CallError as error:
        if error.number != INVALID_VALUE:
            raise
        return None
    return bool(value.value)


def main(library: str, gpu: str, seconds: int) -> int:
    """Say what came of it; after so many seconds SIGALRM ends the process, even if whoever started it is gone."""
    signal.alarm(seconds)
    try:
        told: dict[str, object] = {"passed": True, "mps": used(CUDA(library), gpu)}
    except CallError as error:
        told = {"step": error.step, "error": error.error}
    except (OSError, AttributeError) as error:
        told = {"unrunnable": str(error)}
    print(json.dumps(told), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
