"""The CUDA driver API as a tenant needs it, through ctypes.

Context, memory, one kernel that computes and one that faults.

Names and signatures: https://docs.nvidia.com/cuda/cuda-driver-api. The kernels are PTX for compute capability 7.0,
which the driver compiles for any later GPU.
"""

from __future__ import annotations

import ctypes
from typing import Any

from .driver import DriverError

LIBRARY = "libcuda.so.1"
_MIB = 2**20
_MULTIPROCESSORS = 16
"""CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT."""
_BLOCKS, _THREADS, _ROUNDS = 2112, 256, 100_000
"""Some waves of blocks on every SM: milliseconds on a large GPU, in proportion to the SMs that may be used."""
_PTX = b"""
.version 6.0
.target sm_70
.address_size 64
.visible .entry work(.param .u64 out, .param .u32 rounds)
{
    .reg .pred %p<2>;
    .reg .f32 %f<3>;
    .reg .b32 %r<4>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [rounds];
    cvta.to.global.u64 %rd2, %rd1;
    mov.u32 %r2, %tid.x;
    cvt.rn.f32.u32 %f1, %r2;
    mov.f32 %f2, 0f3F000000;
    mov.u32 %r3, 0;
NEXT:
    fma.rn.f32 %f1, %f1, %f2, %f2;
    add.u32 %r3, %r3, 1;
    setp.lt.u32 %p1, %r3, %r1;
    @%p1 bra NEXT;
    st.global.f32 [%rd2], %f1;
    ret;
}
.visible .entry fault()
{
    .reg .b32 %r<2>;
    .reg .b64 %rd<2>;
    mov.u64 %rd1, 16;
    mov.u32 %r1, 1;
    st.global.u32 [%rd1], %r1;
    ret;
}
\0"""


class _Affinity(ctypes.Structure):
    """CUexecAffinityParam: type, then the number of SMs."""

    _fields_ = (("type", ctypes.c_int), ("sm_count", ctypes.c_uint))


class Cuda:
    """Device 0 of this process; a subject.Device."""

    def __init__(self, library: str = LIBRARY) -> None:
        try:
            self._library = ctypes.CDLL(library)
        except OSError as error:
            raise DriverError("dlopen", -1, "NO_LIBRARY", str(error)) from error
        self._device, self._context = ctypes.c_int(), ctypes.c_void_p()
        self._work, self._fault = ctypes.c_void_p(), ctypes.c_void_p()
        self._out = ctypes.c_uint64()

    def open(self) -> None:
        """Connect, take the primary context as torch does, and load the kernels."""
        self._call("cuInit", ctypes.c_uint(0))
        self._call("cuDeviceGet", ctypes.byref(self._device), 0)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), self._device)
        self._call("cuCtxSetCurrent", self._context)

    def facts(self) -> dict[str, Any]:
        """Return what the driver lets this process see."""
        count, affinity = ctypes.c_int(), _Affinity()
        least, greatest = ctypes.c_int(), ctypes.c_int()
        self._call("cuDeviceGetAttribute", ctypes.byref(count), _MULTIPROCESSORS, self._device)
        self._call("cuCtxGetStreamPriorityRange", ctypes.byref(least), ctypes.byref(greatest))
        found: dict[str, Any] = {
            "multiprocessors": count.value,
            "streamPriorities": [least.value, greatest.value],
            **self.memory(),
        }
        try:
            self._call("cuCtxGetExecAffinity", ctypes.byref(affinity), 0)
            found["smCount"] = int(affinity.sm_count)
        except DriverError as error:
            found["smCountReason"] = str(error)
        return found

    def memory(self) -> dict[str, int]:
        """Return what `mem_get_info` says, in MiB."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self._call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return {"freeMiB": free.value // _MIB, "totalMiB": total.value // _MIB}

    def allocate(self, mib: int) -> None:
        """Take memory for good, and write to it."""
        address = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(mib * _MIB))
        self._call("cuMemsetD32_v2", address, ctypes.c_uint(1), ctypes.c_size_t(mib * _MIB // 4))

    def second_context(self) -> None:
        """One context more, which stays; the first one is current again."""
        context = ctypes.c_void_p()
        self._call("cuCtxCreate_v2", ctypes.byref(context), ctypes.c_uint(0), self._device)
        self._call("cuCtxSetCurrent", self._context)

    def step(self) -> None:
        """Compute on all SMs, and wait for the end."""
        self._load()
        rounds = ctypes.c_uint(_ROUNDS)
        parameters = (ctypes.c_void_p * 2)(ctypes.addressof(self._out), ctypes.addressof(rounds))
        self._launch(self._work, _BLOCKS, _THREADS, parameters)
        self._call("cuCtxSynchronize")

    def fault(self) -> None:
        """Write to an address that is nobody's. Raises DriverError, as CUDA says it."""
        self._load()
        self._launch(self._fault, 1, 1, None)
        self._call("cuCtxSynchronize")

    def _load(self) -> None:
        if self._work.value:
            return
        module = ctypes.c_void_p()
        self._call("cuMemAlloc_v2", ctypes.byref(self._out), ctypes.c_size_t(_MIB))
        self._call("cuModuleLoadData", ctypes.byref(module), _PTX)
        self._call("cuModuleGetFunction", ctypes.byref(self._fault), module, b"fault")
        self._call("cuModuleGetFunction", ctypes.byref(self._work), module, b"work")

    def _launch(self, function: ctypes.c_void_p, blocks: int, threads: int, parameters: Any) -> None:
        sizes = [ctypes.c_uint(size) for size in (blocks, 1, 1, threads, 1, 1, 0)]
        self._call("cuLaunchKernel", function, *sizes, None, parameters, None)

    def _call(self, name: str, *arguments: Any) -> None:
        try:
            function = getattr(self._library, name)
        except AttributeError as error:
            raise DriverError(name, -1, "NO_FUNCTION", str(error)) from error
        code = int(function(*arguments))
        if code != 0:
            raise DriverError(name, code, self._text("cuGetErrorName", code), self._text("cuGetErrorString", code))

    def _text(self, name: str, code: int) -> str:
        found = ctypes.c_char_p()
        getattr(self._library, name)(code, ctypes.byref(found))
        return (found.value or b"unknown").decode(errors="replace")
