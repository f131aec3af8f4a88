"""What an answer of the API server means that is not what was asked for: whether to ask again, and what to do. Pure."""

import http.client
from collections.abc import Mapping
from typing import Any, Final

from cotenant_api import errors

BUSY_SECONDS: Final = 5.0
_REMEDIES: Final = {
    http.client.UNAUTHORIZED: "log in again: the cluster does not know these credentials",
    http.client.FORBIDDEN: "the ClusterRole cotenant-viewer may: ask an admin to bind it to you",
}


class NotNowError(errors.TemporaryError):
    """The API server answers, and says that it cannot do this now."""


def passes(status: int) -> bool:
    """Return whether what keeps the API server from answering passes: it has too much to do, or something is down."""
    return status == http.client.TOO_MANY_REQUESTS or status >= http.client.INTERNAL_SERVER_ERROR


def refusal(
    path: str, status: int, answer: Mapping[str, Any], *, remedies: Mapping[int, str] = _REMEDIES
) -> errors.CotenantError:
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
