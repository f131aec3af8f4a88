"""Answers of the API server: objects, and Statuses as Kubernetes words them."""

from collections.abc import Sequence
from typing import Any

import orjson

from cotenant_extender.kube import transport

Object = dict[str, Any]

REASONS = {
    400: "BadRequest",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    504: "Timeout",
}


class RefusedError(Exception):
    """A request is refused.

    Args:
        code: the HTTP status.
        causes: `details.causes` of the Status.
    """

    def __init__(self, code: int, message: str, *, causes: Sequence[Object] = (), retry_after: int = 0) -> None:
        super().__init__(message)
        self.code, self.message, self.causes, self.retry_after = code, message, causes, retry_after

    @property
    def answer(self) -> transport.Answer:
        """It as an answer."""
        headers = {"Retry-After": str(self.retry_after)} if self.retry_after else {}
        return transport.Answer(self.code, headers, orjson.dumps(status(self.code, self.message, self.causes)))


def status(code: int, message: str, causes: Sequence[Object] = ()) -> Object:
    """A Status that says no."""
    found: Object = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": message,
        "reason": REASONS.get(code, "Unknown"),
        "code": code,
    }
    if causes:
        found["details"] = {"causes": list(causes)}
    return found


def ok(value: Object, code: int = 200) -> transport.Answer:
    """An object."""
    return transport.Answer(code, {}, orjson.dumps(value))


def success() -> transport.Answer:
    """A Status that says yes."""
    return ok({"kind": "Status", "apiVersion": "v1", "status": "Success"}, 201)
