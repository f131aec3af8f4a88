"""The harness stands alone: on a machine with a GPU there is nothing else of the project."""

import subprocess
import sys

import pytest

FOREIGN = {"cotenant_api", "pydantic", "numpy", "torch", "yaml", "sklearn", "pynvml"}


@pytest.mark.parametrize("module", ["command", "worker", "simulated.engine", "measurements", "observations"])
def test_it_starts_without_any_other_package(module: str) -> None:
    code = f"import sys, cotenant_predictor.profiling.{module}; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in found.stdout.split()}
    assert "cotenant_predictor" in loaded
    assert not loaded & FOREIGN
