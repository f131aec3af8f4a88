"""How programs say that a GPU had no memory left: texts of their last words. Data, and a search in it. Pure.

Each is what a library prints or raises when an allocation on the device is refused. None is a text for host memory:
more GPU memory would not help there.
"""

import re
from typing import Final

TEXTS: Final = {
    "PyTorch": (r"CUDA out of memory", r"torch(\.cuda)?\.OutOfMemoryError", r"c10::OutOfMemoryError"),
    "CUDA runtime": (
        r"(?i:cuda ?(runtime ?)?(api )?(error|failure)\b[^\n]{0,120}out of memory)",
        r"(?i:cudaMalloc\w* (retry )?failed[^\n]{0,40}out of memory)",
        r"cudaErrorMemoryAllocation",
        r"CUDA failure 2\b",
        r"cuda runtime error \(2\)",
    ),
    "CUDA driver": (r"CUDA_ERROR_OUT_OF_MEMORY", r"CUDA driver error: out of memory"),
    "cuBLAS, cuDNN, cuSPARSE, cuSOLVER, cuFFT": (
        r"(CUBLAS|CUDNN|CUSPARSE|CUSOLVER)_STATUS_ALLOC_FAILED",
        r"CUFFT_ALLOC_FAILED",
    ),
    "JAX and XLA": (
        r"(RESOURCE_EXHAUSTED|Resource exhausted): [^\n]{0,80}[Oo]ut of memory",
        r"RESOURCE_EXHAUSTED: Failed to allocate request for [^\n]{1,80} on device ordinal",
        r"Out of memory while trying to allocate \d+ bytes",
        r"BufferAssignment OOM Debugging",
    ),
    "TensorFlow": (r"OOM when allocating tensor [^\n]{0,400}device:GPU",),
    "ONNX Runtime": (r"BFCArena::AllocateRawInternal[^\n]{0,200}Failed to allocate memory for requested buffer",),
    "CuPy": (r"cupy\.cuda\.memory\.OutOfMemoryError",),
    "TensorRT": (r"Cuda Runtime \(out of memory\)", r"Error Code 2: OutOfMemory"),
    "Triton": (r"(?i:failed to allocate (CUDA|GPU|device) memory)",),
}
"""Who says it -> regular expressions."""

MAX_LINE: Final = 300
_ANY: Final = re.compile("|".join(f"(?:{text})" for texts in TEXTS.values() for text in texts))


def line(text: str) -> str | None:
    """Return the line of a container's last words that says so, cut; None where none does."""
    found = _ANY.search(text)
    if found is None:
        return None
    start = text.rfind("\n", 0, found.start()) + 1
    end = text.find("\n", found.start())
    return " ".join(text[start : end if end >= 0 else None].split())[:MAX_LINE]


def last_line(text: str) -> str:
    """Return the last words themselves: the last line that is not empty, cut."""
    lines = [part.strip() for part in text.splitlines() if part.strip()]
    return lines[-1][:MAX_LINE] if lines else ""
