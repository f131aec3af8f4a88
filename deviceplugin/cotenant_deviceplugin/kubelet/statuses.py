"""How an error is told to kubelet, which puts its words into the pod's events, and how kubelet's errors read. Pure."""

import grpc

from cotenant_api import errors

MAX_CHARACTERS = 512
"""kubelet cuts an event's message after 1024 characters, and puts words of its own before ours."""


def of(error: Exception) -> tuple[grpc.StatusCode, str]:
    """Return the status that a call ends with, and its message: what the user of the pod reads."""
    if isinstance(error, errors.TemporaryError):
        return grpc.StatusCode.UNAVAILABLE, _shortened(str(error))
    if isinstance(error, errors.CotenantError):
        return grpc.StatusCode.FAILED_PRECONDITION, _shortened(str(error))
    return grpc.StatusCode.INTERNAL, _shortened(f"the node agent failed: {type(error).__name__}: {error}")


def temporary(what: str, error: grpc.aio.AioRpcError, *, delay_seconds: float) -> errors.TemporaryError:
    """Return what a failed call of ours to kubelet means. `what`: what could not be done."""
    text = _shortened(f"{what}: {error.code().name}: {error.details()}")
    return errors.TemporaryError(text, delay_seconds=delay_seconds)


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_CHARACTERS else f"{line[: MAX_CHARACTERS - 3]}..."
