"""What a figure was measured with: driver, CUDA, torch, processor, and the state of this code."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path

from .nvml import Gpu


def describe(gpu: Gpu, *, commit: str | None = None) -> dict[str, str]:
    """Return the environment of a measurement. `commit`: what the caller knows, where no repository is at hand."""
    return {
        **gpu.versions(),
        "torch": _version("torch"),
        "cpu": f"{_processor()}, {len(os.sched_getaffinity(0))} cores",
        "commit": commit or _head() or f"sources {_sources()}",
    }


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _head() -> str | None:
    try:
        found = subprocess.run(
            ["git", "rev-parse", "HEAD"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip()


def _sources() -> str:
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
