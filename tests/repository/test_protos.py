"""kubelet's messages are what `make protos` writes."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROTOS = Path("cotenant_deviceplugin/kubelet/protos")


def test_the_committed_messages_are_what_the_proto_files_give(tmp_path: Path) -> None:
    folder = ROOT / "deviceplugin" / PROTOS
    sources = sorted(str(path) for path in folder.glob("*.proto"))
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{ROOT / 'deviceplugin'}"]
    subprocess.run([*command, f"--python_out={tmp_path}", f"--pyi_out={tmp_path}", *sources], check=True)
    generated = {path.name: path.read_text() for path in (tmp_path / PROTOS).iterdir()}
    committed = {path.name: path.read_text() for path in folder.glob("*_pb2.py*")}
    assert generated == committed
    assert len(sources) == 2
