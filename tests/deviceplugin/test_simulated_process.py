"""The process of `cotenant simulated-agents`, without an API server."""

import json
import signal
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import argparse
from cotenant_deviceplugin.commands import simulated_agents
parser = argparse.ArgumentParser()
simulated_agents.configure(parser)
raise SystemExit(simulated_agents.run(parser.parse_args()))
"""


def test_it_says_what_it_waits_for_and_ends_cleanly_on_sigterm(tmp_path: Path) -> None:
    kubeconfig = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    (tmp_path / "n1.conf").write_text(json.dumps(kubeconfig))
    agent = {"node": "n1", "gpuModel": "Tesla-T4", "gpus": 2, "kubeconfig": "n1.conf"}
    (tmp_path / "agents.yaml").write_text(json.dumps({"agents": [agent]}))
    command = [sys.executable, "-c", PROGRAM, "--config", str(tmp_path / "agents.yaml")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "n1: simulated GPUs: " in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=30)
    assert (process.returncode, output) == (0, "")
    assert "Traceback" not in errors
