"""Asks Prometheus what dcgm-exporter recorded: one GET for each metric. Decides nothing; no error tells the token."""

import http.client
import json
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from cotenant_api import errors
from cotenant_simulator.live import dcgm

FIELD: Final = "--prometheus"
TIMEOUT_SECONDS: Final = 30.0
_MOST_BYTES: Final = 256 << 20


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
    return {metric: _asked(url, dcgm.query(metric, seconds=seconds), token=token) for metric in dcgm.METRICS}


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


def _asked(url: str, query: str, *, token: str) -> Any:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise errors.InvalidInputError(FIELD, url, "must be a URL such as http://prometheus.monitoring:9090, or a file")
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
    except ValueError as error:
        said = errors.shortened(text.decode(errors="replace"))
        raise errors.PermanentError(f"{FIELD}: {host} answered {query} with no JSON: {said}") from error
