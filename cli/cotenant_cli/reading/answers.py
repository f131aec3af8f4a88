"""What an answer of the API server holds; of one that is not what was asked for, what it means and what to do. Pure."""

import http.client
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from cotenant_api import errors, nesting

Object = Mapping[str, Any]

BUSY_SECONDS: Final = 5.0
_WRONG_SERVER: Final = (
    "is the server the right one (clusters[].cluster.server in the kubeconfig), or does a proxy ask for a login?"
)
_REMEDIES: Final = {
    http.client.UNAUTHORIZED: "log in again: the cluster does not know these credentials",
    http.client.NOT_FOUND: _WRONG_SERVER,
    http.client.FORBIDDEN: "the ClusterRole cotenant-viewer may: ask an admin to bind it to you",
}


class NotNowError(errors.TemporaryError):
    """The API server answers, and says that it cannot do this now."""


def passes(status: int) -> bool:
    """Return whether what keeps the API server from answering passes: it has too much to do, or something is down."""
    return status == http.client.TOO_MANY_REQUESTS or status >= http.client.INTERNAL_SERVER_ERROR


def is_success(status: int) -> bool:
    """Return whether an answer holds what was asked for."""
    return http.client.OK <= status < http.client.MULTIPLE_CHOICES


def decoded(what: str, status: int, data: bytes) -> dict[str, Any]:
    """Return the JSON object that an answer is; of a refusal in other words, those as its message.

    Raises:
        PermanentError: it is no refusal, and no JSON object: whoever answers is no API server.
    """
    try:
        found = json.loads(nesting.bounded(data))
    except ValueError:
        found = None
    if isinstance(found, dict):
        return found
    said = errors.shortened(data)
    if is_success(status):
        raise errors.PermanentError(f"{what}: the answer is no JSON object: {said}: {_WRONG_SERVER}")
    return {"message": said}


def items(path: str, answer: Object) -> Sequence[Object]:
    """Return the objects of a list, or of a page of it.

    Raises:
        PermanentError: the answer is no list.
    """
    found = answer.get("items", "")
    if found is None:
        # Go writes a slice so that was never filled.
        return ()
    if isinstance(found, list) and all(isinstance(one, dict) for one in found):
        return found
    raise errors.PermanentError(f"GET {path}: the answer is no list: {_WRONG_SERVER}")


def refusal(path: str, status: int, answer: Object, *, remedies: Mapping[int, str] = _REMEDIES) -> errors.CotenantError:
    """Return the error of a GET whose answer is not what was asked for: a NotNowError, or a PermanentError.

    Args:
        path: that was asked for.
        status: of the answer.
        answer: its body.
        remedies: what to do, by status.
    """
    said = f"GET {path}: {status}: {errors.shortened(str(answer.get('message', '')))}"
    if passes(status):
        return NotNowError(said, delay_seconds=BUSY_SECONDS)
    remedy = remedies.get(status)
    return errors.PermanentError(f"{said}: {remedy}" if remedy else said)
