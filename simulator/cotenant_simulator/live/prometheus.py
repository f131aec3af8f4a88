"""Asks Prometheus what dcgm-exporter recorded: one GET for each metric. Decides nothing; no error tells the token."""

import http.client
import json
import re
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, urlencode, urlsplit

from cotenant_api import errors
from cotenant_simulator.live import dcgm

FIELD: Final = "--prometheus"
_URL: Final = "must be a URL such as http://prometheus.monitoring:9090, or a file"
TIMEOUT_SECONDS: Final = 30.0
_MOST_BYTES: Final = 256 << 20
_PRINTABLE: Final = re.compile("[!-~]+")
"""ASCII without blanks: what a request line can hold."""


def answers(url: str, *, seconds: int, token: str = "") -> Mapping[str, Any]:
    """Answers of `/api/v1/query`, by metric; of metrics that are not recorded, too.

    Args:
        url: of the server, with a path where it is behind one.
        seconds: how far back.
        token: bearer token, where it asks for one.

    Raises:
        InvalidInputError: it is no URL of HTTP.
        TemporaryError: there is no answer in time, or one that is no JSON.
        PermanentError: the server refuses.
    """
    parts = require_url(url)
    return {metric: _asked(parts, dcgm.query(metric, seconds=seconds), token=token) for metric in dcgm.METRICS}


def require_url(url: str) -> SplitResult:
    """Return the parts of a server's URL.

    Raises:
        InvalidInputError: it is no URL of HTTP.
    """
    try:
        parts = urlsplit(url)
        # Names and ports that no server can have are found as these are read.
        host, _ = (parts.hostname or "").encode("idna"), parts.port
    except ValueError as error:
        raise errors.InvalidInputError(FIELD, url, f"{_URL}: {error}") from error
    if parts.scheme not in ("http", "https") or not host or not _PRINTABLE.fullmatch(url):
        raise errors.InvalidInputError(FIELD, url, _URL)
    return parts


def token(path: Path, *, field: str) -> str:
    """Return the bearer token that a file holds.

    Raises:
        InvalidInputError: it cannot be read, or holds none.
    """
    try:
        found = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise errors.InvalidInputError(field, str(path), f"cannot be read: {error}") from error
    if not _PRINTABLE.fullmatch(found):
        raise errors.InvalidInputError(field, str(path), "must hold one token: ASCII on one line, without blanks")
    return found


def saved(path: Path) -> Mapping[str, Any]:
    """Answers from a file: one JSON object of them, by metric.

    Raises:
        InvalidInputError: it cannot be read, or is no JSON object.
    """
    try:
        found = json.loads(path.read_bytes())
    except OSError as error:
        raise errors.InvalidInputError(FIELD, str(path), f"cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise errors.InvalidInputError(FIELD, str(path), f"must be JSON: {error}") from error
    if not isinstance(found, dict):
        remedy = f"must be a JSON object with an answer of Prometheus for each of {', '.join(dcgm.METRICS)}"
        raise errors.InvalidInputError(FIELD, str(path), remedy)
    return found


def _asked(parts: SplitResult, query: str, *, token: str) -> Any:
    target = f"{parts.path.rstrip('/')}/api/v1/query?{urlencode({'query': query})}"
    headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    host = parts.netloc.rpartition("@")[2]
    connection = (
        http.client.HTTPSConnection(host, timeout=TIMEOUT_SECONDS, context=ssl.create_default_context())
        if parts.scheme == "https"
        else http.client.HTTPConnection(host, timeout=TIMEOUT_SECONDS)
    )
    try:
        connection.request("GET", target, headers=headers)
        answer = connection.getresponse()
        status, text = answer.status, answer.read(_MOST_BYTES)
    except (OSError, http.client.HTTPException) as error:
        raise errors.TemporaryError(f"{FIELD}: {host} gave no answer to {query}: {error!r}", delay_seconds=1) from error
    finally:
        connection.close()
    if status != http.client.OK:
        said = errors.shortened(text.decode(errors="replace"))
        raise errors.PermanentError(f"{FIELD}: {host} answered {status} to {query}: {said}")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        said = errors.shortened(text.decode(errors="replace"))
        raise errors.PermanentError(f"{FIELD}: {host} answered {query} with no JSON: {said}") from error
