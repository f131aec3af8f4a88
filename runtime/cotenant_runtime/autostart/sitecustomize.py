"""Start the runtime where the environment asks for it, then run the image's own sitecustomize, if there is one.

Python imports the first `sitecustomize` on its path, so the one of the image is looked for behind this folder.
"""

import importlib.machinery
import importlib.util
import os
import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent


def _start() -> None:
    if not os.environ.get("COTENANT_SPACE_TIME"):
        return
    # The package stands beside this folder, in the image or in what the node agent mounts.
    root = str(_HERE.parents[1])
    if importlib.util.find_spec("cotenant_runtime") is None:
        sys.path.append(root)
    from cotenant_runtime import startup

    startup.start(os.environ)


def _run_the_next() -> None:
    others = [folder for folder in sys.path if Path(folder or ".").resolve() != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


try:
    _start()
finally:
    _run_the_next()
