"""What the process of the node agent loads: each package costs memory on every node."""

import subprocess
import sys

PROGRAM = """
import contextlib, io, sys
from cotenant_api import cli
with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
    cli.main(["node-agent", "--help"])
from cotenant_deviceplugin.node import http, process, settings
foreign = {name.partition(".")[0] for name in sys.modules} - sys.stdlib_module_names
print(*foreign - {name for name in foreign if name.startswith("_")})
"""
ALLOWED = frozenset(
    {
        *("cotenant_api", "cotenant_deviceplugin"),
        *("h11", "prometheus_client", "pynvml", "yaml"),
        *("annotated_types", "pydantic", "pydantic_core", "typing_extensions", "typing_inspection"),
        *("cython_runtime", "google", "grpc"),
        "grpc_tools",  # where it is installed, grpc makes an empty module of it
    }
)


def test_the_node_agent_loads_no_other_package() -> None:
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60)
    assert set(run.stdout.split()) - ALLOWED == set()
