"""Runs a command on the stand-in GPU: its driver, `nvidia-cuda-mps-control`, libnvidia-ml and libcuda are found first.

    python e2e/gpu/standin.py e2e/gpu/run.sh behaviour all DIR

Needs gcc. Every result of it says that it is simulated, because the driver's version says so.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

E2E = Path(__file__).resolve().parent.parent

sys.path.insert(0, str(E2E))

from cotenant_standin import building, driver, mps_control, state  # noqa: E402  # found beside this file


@contextlib.contextmanager
def started() -> Iterator[dict[str, str]]:
    """Yield the environment of a process on a machine with one stand-in GPU, as long as the block lasts."""
    with tempfile.TemporaryDirectory(prefix="cotenant-standin-") as folder:
        root = Path(folder)
        root.chmod(0o755)  # other users look into it, too
        machine = state.create(root / "gpu")
        (root / "bin").mkdir()
        mps_control.install(root / "bin")
        (root / "lib").mkdir()
        for library in (building.nvml(), building.cuda_experiments()):
            shutil.copy(library, root / "lib")
        environment = {
            **os.environ,
            state.FOLDER_VARIABLE: str(machine.root),
            "PATH": f"{root / 'bin'}:{os.environ['PATH']}",
            "LD_LIBRARY_PATH": f"{root / 'lib'}:{os.environ.get('LD_LIBRARY_PATH', '')}".rstrip(":"),
        }
        command = [sys.executable, "-m", "cotenant_standin.driver"]
        with subprocess.Popen(
            command, env={**environment, "PYTHONPATH": str(E2E)}, stdout=subprocess.PIPE, text=True
        ) as process:
            if process.stdout is None or process.stdout.readline().strip() != driver.READY:
                raise RuntimeError("the stand-in's driver does not start")
            try:
                yield environment
            finally:
                process.terminate()


def main(command: Sequence[str]) -> int:
    """Return the command's exit code."""
    with started() as environment:
        return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
