"""Requests to the API server, and its refusals translated once. The connection is what `send` is.

    APIError
    +-- NotFoundError    404
    +-- ConflictError    409: there is one already, or it is another than was thought
    +-- InvalidError     422, 400: the object is refused for what it is
    +-- ForbiddenError   403: quota, admission, RBAC
    +-- TooLargeError    the answer has more bytes than are read at once

Anything else that may pass is a TemporaryError; 429, which did nothing, is a BusyError.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from cotenant_api import errors, names, paging
from cotenant_operator import labels
from cotenant_operator.state.kinds import LABELLED, Kind
from cotenant_operator.state.views import Key

_LOGGER = logging.getLogger(__name__)

Json = dict[str, Any]

MERGE: Final = "application/merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"
JSON: Final = "application/json"
MAX_MESSAGE: Final = 1024
PAGE: Final = 500
EVENTS: Final = 50
_OURS: Final = {"fieldManager": labels.FIELD_MANAGER}
"""With every request that writes: `managedFields` tell who wrote what."""
_STRICTLY: Final = {**_OURS, "fieldValidation": "Strict"}
"""With what may hold a user's template: an unknown field is refused, where the API server would leave it out."""
_RETRY_SECONDS: Final = 1.0
_BUSY: Final = 429

_PATHS: Final = {
    Kind.DLJOB: (f"/apis/{names.API_VERSION}", "dljobs"),
    Kind.POLICY: (f"/apis/{names.API_VERSION}", "packingpolicies"),
    Kind.GPU_NODE: (f"/apis/{names.API_VERSION}", "gpunodes"),
    Kind.JOB: ("/apis/batch/v1", "jobs"),
    Kind.DEPLOYMENT: ("/apis/apps/v1", "deployments"),
    Kind.REPLICA_SET: ("/apis/apps/v1", "replicasets"),
    Kind.POD: ("/api/v1", "pods"),
    Kind.RESOURCE_QUOTA: ("/api/v1", "resourcequotas"),
    Kind.CONFIG_MAP: ("/api/v1", "configmaps"),
    Kind.SERVICE: ("/api/v1", "services"),
    Kind.SERVICE_ACCOUNT: ("/api/v1", "serviceaccounts"),
    Kind.ROLE: ("/apis/rbac.authorization.k8s.io/v1", "roles"),
    Kind.ROLE_BINDING: ("/apis/rbac.authorization.k8s.io/v1", "rolebindings"),
    Kind.LEASE: ("/apis/coordination.k8s.io/v1", "leases"),
}


@dataclass(frozen=True, kw_only=True)
class Request:
    """One request. `body` is JSON; `metadata_only`: of a list, the metadata is enough."""

    method: str
    path: str
    query: Mapping[str, str]
    body: Mapping[str, Any] | None = None
    content_type: str = JSON
    metadata_only: bool = False


class Send(Protocol):
    """Sends a request: status code and decoded body. Raises TemporaryError where no answer came."""

    def __call__(self, request: Request) -> Awaitable[tuple[int, Any]]:
        """Send it."""


class APIError(errors.CotenantError):
    """The API server refused a request; the message is its own, cut."""


class TooLargeError(APIError):
    """The answer has more bytes than are read at once."""


class NotFoundError(APIError):
    """There is no such object, or no such kind."""


class ConflictError(APIError):
    """There is one already, or it has changed meanwhile."""


class InvalidError(APIError):
    """The object is refused for what it is."""


class ForbiddenError(APIError):
    """Quota, admission or RBAC is against it."""


class BusyError(errors.TemporaryError):
    """429: the request was turned away before it did anything."""


_ERRORS: Final[Mapping[int, type[APIError]]] = {
    400: InvalidError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    422: InvalidError,
}


class API:
    """What the operator asks of the API server. `sent` counts the requests by method and kind."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.sent = 0

    async def pages(
        self, kind: Kind, *, metadata_only: bool = False, namespace: str = "", selector: str = ""
    ) -> AsyncIterator[list[Json]]:
        """Every object of a kind, as of now or later, page by page: all at once would be large.

        A page of large objects is asked for again in parts; an object that is too large by itself is left out.

        Args:
            kind: whose.
            metadata_only: the metadata is enough.
            namespace: those of one namespace; empty: of all.
            selector: those with these labels; empty: those with our label, where others have some, too.
        """
        query, limit = {"limit": str(PAGE)}, PAGE
        if selector or kind in LABELLED:
            query["labelSelector"] = selector or names.DLJOB_LABEL
        path = path_of(kind, Key(namespace, ""))
        while True:
            query["limit"] = str(limit)
            try:
                page = await self.ask(Request(method="GET", path=path, query=dict(query), metadata_only=metadata_only))
            except TooLargeError:
                if limit == 1 and metadata_only:
                    raise
                if limit > 1:
                    limit = paging.smaller(limit)
                    continue
                page = await self._without(Request(method="GET", path=path, query=dict(query), metadata_only=True))
            # Not kept here while the next one is decoded.
            yield page.pop("items", None) or []
            following = (page.get("metadata") or {}).get("continue")
            if not following:
                return
            query["continue"] = following
            limit = paging.larger(limit, PAGE)

    async def _without(self, request: Request) -> Json:
        """Return a page of one object that is too large to be read: nothing but where the next one begins."""
        page = await self.ask(request)
        for item in page.pop("items", None) or ():
            found = f"{request.path}: {item['metadata'].get('namespace', '')}/{item['metadata']['name']}"
            _LOGGER.warning("%s: has more bytes than are read at once and is left out: make it smaller", found)
        return page

    async def count(self, kind: Kind) -> int | None:
        """Return how many objects of a kind there are, by a listing of one; None: the API server does not say."""
        if kind in LABELLED:
            return None
        page = await self._first(kind)
        more = (page.get("metadata") or {}).get("remainingItemCount", None if page["metadata"].get("continue") else 0)
        return None if more is None else len(page.get("items") or []) + int(more)

    async def version(self, kind: Kind) -> int:
        """Return the version of the objects of a kind as a whole, by a listing of one."""
        return int((await self._first(kind))["metadata"]["resourceVersion"])

    async def _first(self, kind: Kind) -> Json:
        request = Request(method="GET", path=path_of(kind, Key("", "")), query={"limit": "1"}, metadata_only=True)
        return await self.ask(request)

    async def get(self, kind: Kind, key: Key) -> Json:
        """One object. Raises NotFoundError."""
        return await self.ask(Request(method="GET", path=path_of(kind, key), query={}))

    async def one(self, kind: Kind, key: Key) -> Json:
        """One object, by a list of one: not all that may be listed may be got. Raises NotFoundError."""
        path, query = path_of(kind, Key(key.namespace, "")), {"fieldSelector": f"metadata.name={key.name}"}
        found = await self.ask(Request(method="GET", path=path, query=query))
        items = found.get("items") or []
        if not items:
            raise NotFoundError(f"{kind.value} {key.namespace}/{key.name}: there is none")
        # Items of a list do not say what they are.
        return {"apiVersion": found.get("apiVersion"), "kind": kind.value, **items[0]}

    async def config_map(self, key: Key) -> Json | None:
        """Return a ConfigMap, or None where there is none."""
        try:
            return await self.get(Kind.CONFIG_MAP, key)
        except NotFoundError:
            return None

    async def pull_secrets(self, account: Key) -> tuple[Json, ...]:
        """Return what a ServiceAccount names as Secrets to pull images with; nothing where there is no such account."""
        try:
            found = await self.get(Kind.SERVICE_ACCOUNT, account)
        except NotFoundError:
            return ()
        return tuple(found.get("imagePullSecrets") or ())

    async def create(self, kind: Kind, manifest: Mapping[str, Any]) -> Json:
        """Create an object. Raises ConflictError where its name is taken, InvalidError where a field is unknown."""
        path = path_of(kind, Key(manifest["metadata"]["namespace"], ""))
        return await self.ask(Request(method="POST", path=path, query=_STRICTLY, body=manifest))

    async def apply(self, kind: Kind, manifest: Mapping[str, Any], *, uid: str, version: int) -> Json:
        """Apply to the object of this UID and version (ConflictError). Nothing is created: that could come late."""
        metadata = {**manifest["metadata"], "uid": uid, "resourceVersion": str(version)}
        path = path_of(kind, Key(metadata["namespace"], metadata["name"]))
        body, query = {**manifest, "metadata": metadata}, _STRICTLY | {"force": "true"}
        return await self.ask(Request(method="PATCH", path=path, query=query, body=body, content_type=APPLY))

    async def merge(self, kind: Kind, key: Key, patch: Mapping[str, Any], *, subresource: str = "") -> Json:
        """Merge a patch; `metadata.uid` and `metadata.resourceVersion` in it are conditions (ConflictError)."""
        path = path_of(kind, key) + (f"/{subresource}" if subresource else "")
        return await self.ask(Request(method="PATCH", path=path, query=_OURS, body=patch, content_type=MERGE))

    async def delete(self, kind: Kind, key: Key, *, uid: str, version: int | None = None) -> None:
        """Delete the object of this UID in the background; none there is as good, and so is one that has changed."""
        conditions = {"uid": uid} if version is None else {"uid": uid, "resourceVersion": str(version)}
        body = {"propagationPolicy": "Background", "preconditions": conditions}
        try:
            await self.ask(Request(method="DELETE", path=path_of(kind, key), query={}, body=body))
        except (NotFoundError, ConflictError):
            return

    async def events_of(self, namespace: str, *, uid: str, reason: str) -> list[Json]:
        """Return the events of one reason about one object, at most a page of them: core/v1 keeps them for an hour."""
        fields = f"involvedObject.uid={uid},reason={reason}"
        path = f"/api/v1/namespaces/{namespace}/events"
        found = await self.ask(Request(method="GET", path=path, query={"fieldSelector": fields, "limit": str(EVENTS)}))
        return found.get("items") or []

    async def limit_ranges(self, namespace: str) -> list[Json]:
        """Return the LimitRanges of a namespace."""
        found = await self.ask(Request(method="GET", path=f"/api/v1/namespaces/{namespace}/limitranges", query={}))
        return found.get("items") or []

    async def emit(self, event: Mapping[str, Any]) -> None:
        """Create an event; the same name again is the same event told before."""
        path = f"/api/v1/namespaces/{event['metadata']['namespace']}/events"
        try:
            await self.ask(Request(method="POST", path=path, query=_OURS, body=event))
        except ConflictError:
            return

    async def ask(self, request: Request) -> Json:
        """Any request: the answer's body. Raises APIError, and TemporaryError."""
        self.sent += 1
        status, body = await self._send(request)
        if 200 <= status < 300:
            return dict(body)
        message = _message(body)
        if status in _ERRORS:
            raise _ERRORS[status](message)
        kind = BusyError if status == _BUSY else errors.TemporaryError
        raise kind(f"{request.method} {request.path}: {status}: {message}", delay_seconds=_RETRY_SECONDS)


def path_of(kind: Kind, key: Key) -> str:
    """Return the path of an object, or of a collection where the name is empty."""
    prefix, plural = _PATHS[kind]
    namespace = f"/namespaces/{key.namespace}" if key.namespace else ""
    return f"{prefix}{namespace}/{plural}" + (f"/{key.name}" if key.name else "")


def _message(body: Any) -> str:
    text = body.get("message", "") if isinstance(body, dict) else str(body)
    return text if len(text) <= MAX_MESSAGE else f"{text[: MAX_MESSAGE - 3]}..."
