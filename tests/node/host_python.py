"""This machine's Python with PyTorch, in a container: too large for an image, so its folders are mounted, read-only.

`COTENANT_TORCH_VENV` names a virtual environment that has it; otherwise it is what `make test-node` has made.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Final

from cotenant_e2e import configuration

VENV: Final = Path(os.environ.get("COTENANT_TORCH_VENV") or configuration.REPOSITORY / ".venv-torch")
SYSTEM: Final = (Path("/usr"), Path("/lib"), Path("/lib64"))
"""Where the distribution has its libraries; images of busybox have none of these."""
PREFIXES: Final = "import json, sys; print(json.dumps([sys.prefix, sys.base_prefix]))"


def python() -> Path:
    """The interpreter, at the same path in the container."""
    return VENV / "bin" / "python"


def volumes(*more: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """A pod's volumes and its container's mounts: the interpreter with all that it needs, and more folders.

    Raises:
        FileNotFoundError: there is no such environment.
    """
    asked = subprocess.run((python(), "-c", PREFIXES), capture_output=True, text=True, check=True)
    wanted = [*(path for path in SYSTEM if path.exists()), *(Path(each) for each in json.loads(asked.stdout)), *more]
    folders = [path for path in dict.fromkeys(wanted) if not any(path.is_relative_to(other) for other in SYSTEM)]
    folders += [path for path in SYSTEM if path in wanted]
    named = {f"host-{number}": path for number, path in enumerate(folders)}
    return (
        [{"name": name, "hostPath": {"path": str(path), "type": "Directory"}} for name, path in named.items()],
        [{"name": name, "mountPath": str(path), "readOnly": True} for name, path in named.items()],
    )
