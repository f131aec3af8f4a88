"""Requests to the API server, with the answers translated once into values and errors.

An answer 429 was not carried out: it is retried, as its Retry-After says, unless a PodDisruptionBudget is the cause. An
answer 5xx, or none, may have been: it is retried only where that is harmless; a Binding is not (see `binder`).
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import orjson

from cotenant_api import errors, nesting
from cotenant_extender.kube import transport

Object = dict[str, Any]
Sleep = Callable[[float], Awaitable[None]]

AT_ONCE_BYTES = 64 * 1024
"""Of what is looked through in one turn of the event loop."""
ATTEMPTS = 4
FIRST_DELAY_SECONDS = 0.2
MAX_DELAY_SECONDS = 10.0
DISRUPTION_BUDGET = "DisruptionBudget"
"""Cause of an answer 429 to an Eviction, as the API server names it."""


class APIError(errors.PermanentError):
    """The API server refused a request.

    Args:
        status: the HTTP status.
        message: what it says.
    """

    def __init__(self, status: int, message: str) -> None:
        self.status, self.message = status, message
        super().__init__(f"{status}: {message}")


class NotFoundError(APIError):
    """The object is not there."""


class ConflictError(APIError):
    """A precondition did not hold."""


class GoneError(APIError):
    """The resource version is too old to watch or list from."""


class BusyError(errors.TemporaryError):
    """The API server answered 429 or 5xx until the attempts were used up."""


MANY_BUDGETS: Final = "more than one PodDisruptionBudget"
"""Of the answer to an Eviction of a pod that several select."""


class BudgetError(BusyError):
    """A PodDisruptionBudget is against an eviction now, or several select the pod.

    Args:
        budget: its name; empty: the API server did not say it as this knows it.
    """

    def __init__(self, message: str, *, delay_seconds: float, budget: str) -> None:
        self.budget = budget
        super().__init__(message, delay_seconds=delay_seconds)


class Client:
    """JSON over a transport."""

    def __init__(self, carrier: transport.Transport, *, sleep: Sleep = asyncio.sleep) -> None:
        self.carrier, self.sleep = carrier, sleep

    async def get(self, path: str, *, timeout_seconds: float = 30.0, accept: str = transport.JSON) -> Object:
        """Read.

        Raises:
            TooLargeError: the answer is larger than what is read at once.
        """
        return await self._retried(transport.Request("GET", path, timeout_seconds=timeout_seconds, accept=accept))

    async def patch(self, path: str, change: Mapping[str, Any], *, content_type: str) -> Object:
        """Change; such a patch may be applied twice without harm."""
        body = orjson.dumps(change)
        return await self._retried(transport.Request("PATCH", path, body, content_type, timeout_seconds=10.0))

    async def patch_briefly(self, path: str, change: Mapping[str, Any], *, content_type: str) -> Object:
        """As `patch`, but only the object's metadata come back."""
        body, kind = orjson.dumps(change), transport.METADATA_ONLY
        request = transport.Request("PATCH", path, body, content_type, timeout_seconds=10.0, accept=kind)
        metadata = (await self._retried(request)).get("metadata")
        if not isinstance(metadata, dict):
            raise transport.UnansweredError("an object without metadata")
        return metadata

    async def post(self, path: str, value: Mapping[str, Any]) -> Object:
        """Create, retried: only where doing it twice is harmless."""
        return await self._retried(transport.Request("POST", path, orjson.dumps(value), timeout_seconds=10.0))

    async def delete(self, path: str, options: Mapping[str, Any]) -> Object:
        """Delete, with preconditions in `options`."""
        return await self._retried(transport.Request("DELETE", path, orjson.dumps(options), timeout_seconds=10.0))

    async def post_once(self, path: str, value: Mapping[str, Any], *, timeout_seconds: float) -> Object:
        """Create, sent once.

        Raises:
            UnansweredError: no answer, or 5xx: it may have been carried out, or be carried out at any later time.
        """
        return await self._once(transport.Request("POST", path, orjson.dumps(value), timeout_seconds=timeout_seconds))

    async def patch_once(
        self, path: str, change: Mapping[str, Any], *, content_type: str, timeout_seconds: float
    ) -> Object:
        """Change, sent once.

        Raises:
            UnansweredError: as `post_once`.
        """
        body = orjson.dumps(change)
        return await self._once(transport.Request("PATCH", path, body, content_type, timeout_seconds=timeout_seconds))

    async def _once(self, request: transport.Request) -> Object:
        answer = await self.carrier.request(request)
        if answer.status >= 500 and MANY_BUDGETS in message_of(answer):
            # No reply was lost: the API server evicts no such pod, and says so by 500.
            raise BudgetError(f"{answer.status}: {message_of(answer)}", delay_seconds=FIRST_DELAY_SECONDS, budget="")
        if answer.status >= 500:
            raise transport.UnansweredError(f"{answer.status}: {message_of(answer)}")
        return await _result(answer)

    async def _retried(self, request: transport.Request) -> Object:
        delay = FIRST_DELAY_SECONDS
        for attempt in range(1, ATTEMPTS + 1):
            try:
                answer = await self.carrier.request(request)
            except transport.UnansweredError:
                if attempt == ATTEMPTS:
                    raise
                await self.sleep(delay)
            else:
                if (answer.status != 429 and answer.status < 500) or _refusing_budget(answer) is not None:
                    return await _result(answer)
                if attempt == ATTEMPTS:
                    raise BusyError(f"{answer.status}: {message_of(answer)}", delay_seconds=MAX_DELAY_SECONDS)
                await self.sleep(_retry_after(answer) or delay)
            delay = min(2 * delay, MAX_DELAY_SECONDS)
        raise errors.PermanentError("no attempt was made")


async def _result(answer: transport.Answer) -> Object:
    """As `result`; what is nested too deep to be decoded is left out of it."""
    try:
        return result(answer)
    except transport.UndecodedError:
        return result(answer._replace(body=await shallow(answer.body)))


async def shallow(body: bytes) -> bytes:
    """Return JSON without what is nested too deep: anybody may write 10,000 levels into an object's managed fields."""
    return nesting.bounded(body) if len(body) <= AT_ONCE_BYTES else await asyncio.to_thread(nesting.bounded, body)


def result(answer: transport.Answer) -> Object:
    """Return the JSON of a good answer, or the error of another."""
    if answer.status < 300:
        return decoded(answer.body)
    message = message_of(answer)
    kinds = {404: NotFoundError, 409: ConflictError, 410: GoneError}
    if answer.status == 429:
        seconds, budget = _retry_after(answer) or FIRST_DELAY_SECONDS, _refusing_budget(answer)
        if budget is not None:
            raise BudgetError(f"429: {message}", delay_seconds=seconds, budget=budget)
        raise BusyError(f"429: {message}", delay_seconds=seconds)
    raise kinds.get(answer.status, APIError)(answer.status, message)


def decoded(body: bytes) -> Object:
    """Return a JSON object.

    Raises:
        UndecodedError: it was cut, or is none, or is nested too deep.
    """
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise transport.UndecodedError(f"no JSON: {error}") from error
    if not isinstance(value, dict):
        raise transport.UnansweredError("no JSON object")
    return value


def message_of(answer: transport.Answer) -> str:
    """Return the message of a Status, or the start of the text; bounded."""
    try:
        value = orjson.loads(answer.body)
    except orjson.JSONDecodeError:
        value = None
    text = value.get("message") if isinstance(value, dict) else None
    if not isinstance(text, str):
        text = answer.body[: errors.MAX_FOREIGN_TEXT].decode("utf-8", "replace")
    return text[: errors.MAX_FOREIGN_TEXT]


def _refusing_budget(answer: transport.Answer) -> str | None:
    """Return the budget that refuses an eviction, from `The disruption budget NAME ..`; empty: it is not named so."""
    if answer.status != 429:
        return None
    try:
        value = orjson.loads(answer.body)
    except orjson.JSONDecodeError:
        return None
    details = value.get("details") if isinstance(value, dict) else None
    causes = details.get("causes") if isinstance(details, dict) else None
    for cause in causes if isinstance(causes, list) else ():
        if isinstance(cause, dict) and cause.get("reason") == DISRUPTION_BUDGET:
            named = re.match(r"The disruption budget (\S+)", str(cause.get("message", "")))
            return named[1] if named else ""
    return None


def _retry_after(answer: transport.Answer) -> float | None:
    text = answer.headers.get("Retry-After", "")
    return min(float(text), MAX_DELAY_SECONDS) if text.isascii() and text.isdigit() else None
