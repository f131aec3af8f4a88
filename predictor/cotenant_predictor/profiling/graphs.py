"""The graph documents of the jobs, by the extractor, in processes of their own that see no GPU."""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import sets
from .catalog import Job, in_precision
from .store import Store


def extracted(job: Job) -> Mapping[str, Any]:
    """Return the job's graph document without digest: the only place that knows the extractor. Needs torch.

    Convolutions are of TF32 only where the job is: so it is measured (`torch_engine`), whatever PyTorch's default is.
    """
    torch = importlib.import_module("torch")
    extractor = importlib.import_module("cotenant_predictor.extraction.extractor")
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=job.precision == "tf32"):
        found: Mapping[str, Any] = extractor.extract(job.build, job.extraction_options())
    return found


def extract_missing(jobs: Sequence[Job], store: Store, *, processes: int, timeout_seconds: float) -> str | None:
    """Extract what the store lacks, several at once; why some are still missing, if they are."""
    missing = [job for job in jobs if not store.graph_path(job.name).exists()]
    started = []
    for index in range(min(processes, len(missing))):
        names = [f"{job.name}={job.precision}" for job in missing[index::processes]]
        command = [sys.executable, "-m", __spec__.name, "--folder", str(store.folder), *names]
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
        started.append(subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True))
    problems = []
    for process in started:
        try:
            text = process.communicate(timeout=timeout_seconds)[1]
        except subprocess.TimeoutExpired:
            process.kill()
            text = "took too long" + process.communicate()[1]
        if "No module named 'torch'" in text:
            return "extracting needs torch: pip install torch, or extract where it is installed"
        if process.returncode:
            problems.append(text.strip().splitlines()[-1] if text.strip() else f"ended with {process.returncode}")
    return problems[0][:256] if problems else None


def main() -> None:
    """Extract the named jobs of any set, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("jobs", nargs="+", metavar="NAME=PRECISION")
    arguments = parser.parse_args()
    store, known = Store(arguments.folder), every_job()
    for text in arguments.jobs:
        name, _, precision = text.rpartition("=")
        job = known.get(name) or in_precision(known[name.removesuffix(f"-{precision}")], precision)
        store.write_graph(job.name, extracted(job))


def every_job() -> dict[str, Job]:
    """Return the jobs of all sets by name."""
    return {job.name: job for make in sets.SETS.values() for job in make().jobs}


if __name__ == "__main__":
    main()
