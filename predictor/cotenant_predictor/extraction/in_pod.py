"""Runs in the pod of an extraction: makes the document, packs it, and writes it into the one ConfigMap that it may.

One file that travels alone into a user's image (Python >= 3.9, the standard library; nothing of Cotenant), beside
`extractor.py` or `onnx_strip.py`, whichever is needed:

    python in_pod.py --config-map NAME --namespace NAME --key KEY --seconds N entrypoint MODULE:CALLABLE [OPTION]...
    python in_pod.py --config-map NAME --namespace NAME --key KEY --seconds N onnx FILE

The credentials are those of the pod's ServiceAccount. What went wrong is said in one line, the last one on standard
error, which kubelet puts into the pod's status. Exit codes: 0 the document is written, 1 it cannot be made or written,
124 it was not made in time.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import gzip
import http.client
import importlib.util
import io
import json
import os
import ssl
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import FrameType, ModuleType

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
MAX_PACKED_BYTES = 128 * 1024
SEND_SECONDS = 120.0
"""How long writing is tried."""
ANSWER_SECONDS = 20.0
TIMED_OUT = 124
HERE = Path(__file__).resolve().parent

_PASSING = (408, 425, 429, 500, 502, 503, 504)
_NEEDS_TORCH = (
    "use an image with PyTorch 2.1 or newer for this Python, or extract the graph elsewhere with `cotenant extract` "
    "and name its ConfigMap in spec.model.configMapRef"
)


class FailedError(Exception):
    """The document cannot be made or written; the message says why, and what to do."""


def main(argv: Sequence[str]) -> int:
    """Make and write the document; the exit code."""
    arguments = _parser().parse_args(argv)
    limit = threading.Timer(arguments.seconds, _expire, (arguments.seconds, threading.main_thread().ident))
    limit.daemon = True
    limit.start()
    try:
        document = _from_onnx(arguments.rest) if arguments.kind == "onnx" else _from_entrypoint(arguments.rest)
        packed = _packed(document, what=arguments.kind)
        limit.cancel()
        _write(packed, arguments)
    except FailedError as error:
        _tell(str(error))
        return 1
    print(f"cotenant: wrote {len(packed)} bytes to ConfigMap {arguments.config_map}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="in_pod")
    parser.add_argument("--config-map", required=True)
    parser.add_argument("--namespace", required=True)
    parser.add_argument("--key", required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--account", type=Path, default=ACCOUNT)
    parser.add_argument("kind", choices=("entrypoint", "onnx"))
    parser.add_argument("rest", nargs=argparse.REMAINDER)
    return parser


def _from_entrypoint(rest: list[str]) -> bytes:
    """Return what the extractor prints. Everything else that the user's code prints is on standard error."""
    extractor = _extractor()
    sys.argv = ["extractor", *rest]
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            code = extractor.main()
    except SystemExit as error:
        raise FailedError(
            f"{rest[0]} ended the program (exit code {error.code}) before its step was run: let it return"
        ) from error
    except BaseException as error:
        traceback.print_exc()
        module = rest[0].partition(":")[0]
        raise FailedError(
            f"{type(error).__name__}: {_first_line(error)}, at {_place(error)}: let `python -c 'import {module}'` run "
            "through in this image"
        ) from error
    if code:
        # It has said why.
        sys.exit(code)
    return printed.getvalue().encode()


def _extractor() -> ModuleType:
    try:
        return _load("extractor")
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise FailedError(f"{error.name} cannot be used: {error}: {_NEEDS_TORCH}") from error
        raise FailedError(f"torch is not installed for {sys.executable}: {_NEEDS_TORCH}") from error
    except (ImportError, OSError, AttributeError, SyntaxError) as error:
        raise FailedError(f"torch cannot be used: {_first_line(error)}: {_NEEDS_TORCH}") from error


def _from_onnx(rest: list[str]) -> bytes:
    path = Path(rest[0])
    strip = _load("onnx_strip")
    try:
        found: bytes = strip.strip(path)
    except OSError as error:
        raise FailedError(
            f"spec.model.onnx.path: {path} cannot be read: {error.strerror}: name a file of the image, or with "
            "claimName of the volume"
        ) from error
    except strip.NotONNXError as error:
        raise FailedError(f"spec.model.onnx.path: {path} {error}: export the model again") from error
    return found


def _load(name: str) -> ModuleType:
    """Return a file beside this one, under a name that no module of the user has."""
    specification = importlib.util.spec_from_file_location(f"cotenant_{name}", str(HERE / f"{name}.py"))
    if specification is None or specification.loader is None:
        raise FailedError(f"{name}.py is not beside {__file__}: a fault of Cotenant")
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module
    specification.loader.exec_module(module)
    return module


def _packed(document: bytes, *, what: str) -> bytes:
    packed = gzip.compress(document, mtime=0)
    if len(packed) > MAX_PACKED_BYTES:
        kind = "graph without its weights" if what == "onnx" else "graph document"
        raise FailedError(
            f"the {kind} has {len(packed) // 1024} KiB packed, and at most {MAX_PACKED_BYTES // 1024} fit: give the "
            "DLJob whole GPUs (spec.sharing: Exclusive), or the graph of a part of the model by "
            "spec.model.configMapRef"
        )
    return packed


def _write(packed: bytes, arguments: argparse.Namespace) -> None:
    """Write it, and try again where that may help.

    Raises:
        FailedError: it is refused, or nothing answers for SEND_SECONDS.
    """
    body = json.dumps({"binaryData": {arguments.key: base64.b64encode(packed).decode()}}).encode()
    name = f"{arguments.namespace}/configmaps/{arguments.config_map}"
    path = f"/api/v1/namespaces/{name}?fieldManager=cotenant-extraction"
    deadline, pause, problem = time.monotonic() + SEND_SECONDS, 0.5, "nothing was tried"
    while time.monotonic() < deadline:
        try:
            status, answer = _patch(path, body, arguments.account)
        except (OSError, http.client.HTTPException) as error:
            problem = f"{type(error).__name__}: {error}"
        else:
            if 200 <= status < 300:
                return
            problem = f"the API server answers {status}: {answer}"
            # A token may have been renewed meanwhile; it is read again each time.
            if status not in _PASSING and status != 401:
                raise FailedError(
                    f"ConfigMap {arguments.config_map} cannot be written: {problem}: look for an admission policy or "
                    "a quota that is against it"
                )
        time.sleep(min(pause, max(deadline - time.monotonic(), 0.0)))
        pause = min(2 * pause, 15.0)
    raise FailedError(
        f"ConfigMap {arguments.config_map} could not be written for {SEND_SECONDS:g} s: {problem}: does a "
        "NetworkPolicy keep the pod from the API server?"
    )


def _patch(path: str, body: bytes, account: Path) -> tuple[int, str]:
    """Status code and message of one request."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise FailedError("KUBERNETES_SERVICE_HOST is not set in the container: do not unset it")
    context = ssl.create_default_context(cafile=str(account / "ca.crt"))
    headers = {
        "Authorization": "Bearer " + (account / "token").read_text(encoding="ascii").strip(),
        "Content-Type": "application/merge-patch+json",
        "Accept": "application/json",
    }
    connection = http.client.HTTPSConnection(host, int(port), timeout=ANSWER_SECONDS, context=context)
    try:
        connection.request("PATCH", path, body=body, headers=headers)
        answer = connection.getresponse()
        text = answer.read(65536).decode("utf-8", "replace")
    finally:
        connection.close()
    try:
        message = json.loads(text).get("message", "")
    except (ValueError, AttributeError):
        message = text
    return answer.status, " ".join(str(message).split())[:300]


def _expire(seconds: float, main_thread: int | None) -> None:
    """Say where the program is, and end it: its code may never come back."""
    frame = sys._current_frames().get(main_thread or 0)
    _tell(
        f"the graph was not there after {seconds:g} s; the program was at {_place_of(frame)}: raise "
        "spec.model.entrypoint.timeoutSeconds, or let the callable load no data and no weights"
    )
    os._exit(TIMED_OUT)


def _place_of(frame: FrameType | None) -> str:
    return _innermost(traceback.extract_stack(frame)) if frame is not None else "its end"


def _place(error: BaseException) -> str:
    return _innermost(traceback.extract_tb(error.__traceback__))


def _innermost(frames: Sequence[traceback.FrameSummary]) -> str:
    """Return the last frame in the user's code; where there is none, the last."""
    own = [each for each in frames if not _is_foreign(each.filename)]
    last = (own or list(frames))[-1:]
    return f"{last[0].filename}:{last[0].lineno} in {last[0].name}" if last else "its start"


def _is_foreign(file: str) -> bool:
    """Return whether a file is ours, torch's or Python's own."""
    ours = (str(HERE), str(Path(__file__).absolute().parent), "<frozen")
    own_library = file.startswith(str(Path(os.__file__).parent)) and "-packages" not in file
    return file.startswith(ours) or own_library or "/torch/" in file


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [""])[0][:256]


def _tell(message: str) -> None:
    sys.stdout.flush()
    print("cotenant: " + " ".join(message.split()), file=sys.stderr, flush=True)


if __name__ == "__main__":
    # The folder of this file is no place for the user's imports.
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != HERE]
    sys.exit(main(sys.argv[1:]))
