"""What carries requests to the API server."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol

from cotenant_api import errors

JSON = "application/json"
METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_ONLY_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"


class UnansweredError(errors.TemporaryError):
    """No whole answer came: whether the request took effect is not known."""

    def __init__(self, message: str) -> None:
        super().__init__(message, delay_seconds=1.0)


class UndecodedError(UnansweredError):
    """An answer is no JSON, or nested deeper than is decoded."""


class TooLargeError(errors.PermanentError):
    """What was read has more bytes than are read at once."""


class Request(NamedTuple):
    """One request; `path` includes the query."""

    method: str
    path: str
    body: bytes | None = None
    content_type: str = JSON
    timeout_seconds: float = 30.0
    accept: str = JSON


class Answer(NamedTuple):
    """One answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Stream(Protocol):
    """An answer that comes line by line."""

    status: int

    def lines(self) -> AsyncIterator[bytes]:
        """Return the lines; raises UnansweredError when the connection breaks."""


class Transport(Protocol):
    """Carries requests."""

    async def request(self, request: Request) -> Answer:
        """Send one.

        Raises:
            UnansweredError: no whole answer came.
            TooLargeError: the answer to a GET is too large; to any other request, that counts as none.
        """

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        """Send one whose answer is read line by line; raises UnansweredError as `request` does."""
