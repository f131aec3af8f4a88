"""The surroundings of `in_pod.py`: an API server that answers as told, over TLS, and the pod's account. No torch."""

import http.server
import json
import os
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cotenant_predictor import extraction

FOLDER = Path(extraction.__file__).parent
FILES = ("in_pod.py", "extractor.py", "onnx_strip.py")
KEY = "graph.json.gz"


@dataclass(frozen=True)
class Patch:
    """A request that came: path, token, and what it would write."""

    path: str
    token: str
    body: Mapping[str, Any]


@dataclass
class Pod:
    """A container with our files, and the server that it writes to.

    Attributes:
        answers: status codes to come; when there are no more: 200.
        patches: what has come.
    """

    folder: Path
    port: int = 0
    answers: list[int] = field(default_factory=list)
    patches: list[Patch] = field(default_factory=list)

    def run(
        self, *arguments: str, seconds: float = 100, modules: Path | None = None
    ) -> "subprocess.CompletedProcess[str]":
        """Run `in_pod.py` with what is to be extracted; the user's modules are in the current folder, or in another."""
        where = ("--config-map", "result", "--namespace", "team", "--key", KEY, "--seconds", str(seconds))
        environment = {
            **os.environ,
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(self.port),
            **({} if modules is None else {"PYTHONPATH": str(modules)}),
        }
        command = (sys.executable, self.folder / "code" / "in_pod.py", *where, "--account", self.folder / "account")
        return subprocess.run(
            (*command, *arguments),
            cwd=self.folder / "work",
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def module(self, name: str, text: str) -> None:
        """Write one of the user's modules."""
        (self.folder / "work" / f"{name}.py").write_text(text)


def last_line(done: "subprocess.CompletedProcess[str]") -> str:
    """What kubelet would show last."""
    return (done.stderr.strip().splitlines() or [""])[-1]


@contextmanager
def pod(folder: Path) -> Iterator[Pod]:
    """A pod whose files are in a folder."""
    for name in ("code", "work", "account"):
        (folder / name).mkdir()
    for name in FILES:
        (folder / "code" / name).write_bytes((FOLDER / name).read_bytes())
    (folder / "account" / "token").write_text("secret")
    made = Pod(folder)
    with serving(made, certificate(folder)) as port:
        made.port = port
        yield made


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for loopback that the account trusts, and its key."""
    key, found = folder / "key.pem", folder / "account" / "ca.crt"
    new = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    name = ("-subj", "/CN=kubernetes", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2")
    command = (*new, *name, "-keyout", key, "-out", found)
    subprocess.run(command, check=True, capture_output=True)
    return found, key


@contextmanager
def serving(made: Pod, files: tuple[Path, Path]) -> Iterator[int]:
    """The API server's port on loopback."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_PATCH(self) -> None:
            """Answer as told."""
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            made.patches.append(Patch(self.path, self.headers["Authorization"], body))
            status = made.answers.pop(0) if made.answers else 200
            if status == 0:
                self.connection.close()
                return
            text = json.dumps({"message": f"said {status}"}).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - the base class calls it so
            """Nothing is printed."""

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()
