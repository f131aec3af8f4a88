"""A small client of the API server: JSON over HTTPS, one connection for each request.

A GET that is turned away with 429 is sent again when the answer says, as Kubernetes' own clients do: the API server
does so while it begins to serve the objects of a new CustomResourceDefinition.
"""

import http.client
import json
import ssl
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from cotenant_api import errors, nesting

from .waiting import Clock

Json = dict[str, Any]

MERGE_PATCH = "application/merge-patch+json"
_ATTEMPTS: Final = 10


class APIError(errors.CotenantError):
    """The API server refused. `code`: HTTP status; `reason`: its word for it (`NotFound`); `message`: its sentence."""

    def __init__(self, method: str, path: str, code: int, status: Json) -> None:
        self.code, self.status = code, status
        self.reason, self.message = str(status.get("reason", "")), str(status.get("message", ""))
        super().__init__(f"{method} {path}: {code} {self.reason}: {self.message}")


@dataclass(frozen=True)
class Client:
    """Talks to one API server as one user. Threads may share it.

    Args:
        server: URL of the API server.
        tls: trusts its authority; holds the client certificate where that is how the user is known.
        token: bearer token, where that is how the user is known.
    """

    server: str
    tls: ssl.SSLContext
    token: str = ""
    timeout_seconds: float = 30
    clock: Clock = field(default_factory=Clock)

    def request(self, method: str, path: str, body: Any = None, *, content_type: str = "application/json") -> Json:
        """Return the decoded answer.

        Raises:
            APIError: the answer is none of 200 to 299.
            TemporaryError: there is no answer.
        """
        code, text, _ = self._asked_again(path) if method == "GET" else self._exchange(method, path, body, content_type)
        decoded = _decoded(text)
        if not 200 <= code < 300:
            raise APIError(method, path, code, decoded)
        return decoded

    def is_taken(self, method: str, path: str, body: Any = None) -> bool:
        """Return whether the answer is one of 200 to 299; it is not decoded, which takes long where it is large.

        Raises:
            TemporaryError: there is no answer.
        """
        code, _, _ = self._exchange(method, path, body, "application/json")
        return 200 <= code < 300

    def _asked_again(self, path: str) -> tuple[int, bytes, str]:
        for _ in range(_ATTEMPTS - 1):
            code, text, retry_after = self._exchange("GET", path, None, "application/json")
            if code != http.client.TOO_MANY_REQUESTS or not retry_after.isdigit():
                return code, text, retry_after
            self.clock.pause(int(retry_after))
        return self._exchange("GET", path, None, "application/json")

    def _exchange(self, method: str, path: str, body: Any, content_type: str) -> tuple[int, bytes, str]:
        """Return the code, the body and the header Retry-After ("" where there is none)."""
        headers = {"Content-Type": content_type, "Accept": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        content = None if body is None else json.dumps(body)
        connection = http.client.HTTPSConnection(
            urlsplit(self.server).netloc, context=self.tls, timeout=self.timeout_seconds
        )
        try:
            connection.request(method, path, content, headers)
            answer = connection.getresponse()
            return answer.status, answer.read(), answer.headers.get("Retry-After", "")
        except (OSError, http.client.HTTPException) as error:
            raise errors.TemporaryError(f"{method} {path}: {error!r}", delay_seconds=1) from error
        finally:
            connection.close()

    def get(self, path: str, **query: str) -> Json:
        """One object, or a list. `query`: `labelSelector="a=b"` and the like."""
        return self.request("GET", f"{path}?{urlencode(query)}" if query else path)

    def items(self, path: str, **query: str) -> list[Json]:
        """Return the objects of a list."""
        return list(self.get(path, **query)["items"])

    def find(self, path: str) -> Json | None:
        """One object, or None where there is none."""
        try:
            return self.get(path)
        except APIError as error:
            if error.code == http.client.NOT_FOUND:
                return None
            raise

    def create(self, path: str, body: Json) -> Json:
        """POST: the path of the collection, or of a subresource."""
        return self.request("POST", path, body)

    def replace(self, path: str, body: Json) -> Json:
        """PUT: the path of the object."""
        return self.request("PUT", path, body)

    def patch(self, path: str, patch: Json | list[Json], *, content_type: str = MERGE_PATCH) -> Json:
        """PATCH: a merge patch, unless `content_type` says otherwise."""
        return self.request("PATCH", path, patch, content_type=content_type)

    def delete(self, path: str, **query: str) -> Json:
        """DELETE one object, or a whole collection."""
        return self.request("DELETE", f"{path}?{urlencode(query)}" if query else path)


def path_of(plural: str, *, group: str = "", version: str = "v1", namespace: str = "", name: str = "") -> str:
    """Return the path of a collection or an object: `path_of("pods", namespace="default", name="a")`."""
    parts = [f"apis/{group}/{version}" if group else f"api/{version}"]
    if namespace:
        parts.append(f"namespaces/{quote(namespace)}")
    parts.append(plural)
    if name:
        parts.append(quote(name))
    return "/" + "/".join(parts)


def is_true(item: Json, condition_type: str) -> bool:
    """Return whether an object's condition holds."""
    conditions = item.get("status", {}).get("conditions") or []
    return any(one["type"] == condition_type and one["status"] == "True" for one in conditions)


def is_false(item: Json, condition_type: str) -> bool:
    """Return whether an object says that a condition does not hold."""
    conditions = item.get("status", {}).get("conditions") or []
    return any(one["type"] == condition_type and one["status"] == "False" for one in conditions)


def answers(url: str, tls: ssl.SSLContext | None = None) -> bool:
    """Return whether a GET of this URL is answered with 200, within five seconds. Proxies are not asked."""
    parts = urlsplit(url)
    connection = (
        http.client.HTTPSConnection(parts.netloc, context=tls, timeout=5)
        if parts.scheme == "https"
        else http.client.HTTPConnection(parts.netloc, timeout=5)
    )
    try:
        connection.request("GET", f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/")
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _decoded(text: bytes) -> Json:
    """Return the JSON object, or one that holds what was answered instead (`/readyz` answers plain text)."""
    try:
        decoded = json.loads(nesting.bounded(text))
    except ValueError:
        return {"message": errors.shortened(text.decode(errors="replace"))}
    return decoded if isinstance(decoded, dict) else {"value": decoded}
