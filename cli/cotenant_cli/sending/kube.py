"""Sends what is no GET over a connection of `reading`. Decides nothing; refusals are translated once.

RefusedError(PermanentError)
+-- ConflictError    409: others own a field, or it is another object than was thought
+-- GoneError        404
TooManyError(NotNowError)    429: a PodDisruptionBudget is against it, or the server is busy
"""

import http.client
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import urllib3.exceptions

from cotenant_api import errors
from cotenant_cli.reading import answers, kube
from kubernetes import client

Object = Mapping[str, Any]

JSON: Final = "application/json"
MERGE: Final = "application/merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"
MAX_MESSAGE: Final = 1024


class RefusedError(errors.PermanentError):
    """The API server refuses; `said` is its own sentence."""

    def __init__(self, message: str, *, said: str) -> None:
        self.said = said
        super().__init__(message)


class ConflictError(RefusedError):
    """Others own a field, or it is another object than was thought."""


class GoneError(RefusedError):
    """There is no such object, or no such kind."""


class TooManyError(answers.NotNowError):
    """Not now: a PodDisruptionBudget is against it, or the server is busy; `said` is the server's own sentence."""

    def __init__(self, message: str, *, said: str) -> None:
        self.said = said
        super().__init__(message, delay_seconds=answers.BUSY_SECONDS)


_LACKS_A_RIGHT: Final = re.compile(r'User ".*" cannot ')
"""As RBAC says it; quotas and admission answer 403, too."""
_RIGHTS: Final = ": `cotenant doctor` names the rights that each command needs"

_ERRORS: Final[Mapping[int, type[RefusedError]]] = {
    http.client.CONFLICT: ConflictError,
    http.client.NOT_FOUND: GoneError,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request."""

    method: str
    path: str
    body: Object
    content_type: str = JSON
    query: Sequence[tuple[str, str]] = ()


def send(connection: kube.Connection, request: Request) -> dict[str, Any]:
    """Return the decoded answer.

    Raises:
        RefusedError: the server refuses, and would do so again.
        TooManyError: it refuses for now.
        TemporaryError: it gives no answer.
        PermanentError: the answer is none of an API server.
    """
    # The library would write this type's body out by itself only where its text says JSON.
    body = json.dumps(request.body) if request.content_type == APPLY else dict(request.body)
    headers = {"Accept": JSON, "Content-Type": request.content_type}
    asked = connection.client.param_serialize(
        request.method,
        request.path,
        query_params=list(request.query),
        header_params=headers,
        body=body,
        auth_settings=["BearerToken"],
    )
    what = f"{request.method} {request.path}"
    seconds = connection.patience()
    try:
        answer = connection.client.call_api(*asked, _request_timeout=seconds)
        status, data = answer.status, answer.response.data
    except (client.ApiException, urllib3.exceptions.HTTPError, OSError) as error:
        raise kube.no_answer(what, error, seconds=seconds) from error
    decoded = answers.decoded(what, status, data)
    if answers.is_success(status):
        return decoded
    said = str(decoded.get("message", ""))[:MAX_MESSAGE]
    message = f"{what}: {status}: {said}{_RIGHTS if _LACKS_A_RIGHT.search(said) else ''}"
    if status == http.client.TOO_MANY_REQUESTS:
        raise TooManyError(message, said=said)
    if answers.passes(status):
        raise answers.NotNowError(message, delay_seconds=answers.BUSY_SECONDS)
    raise _ERRORS.get(status, RefusedError)(message, said=said)
