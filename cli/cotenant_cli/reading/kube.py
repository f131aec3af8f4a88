"""Lists objects of the API server as kubectl would reach it: a context of a kubeconfig. GET alone, page by page.

The only module of the command line, and of the simulator, that may import a Kubernetes library.
"""

import http.client
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import urllib3.exceptions

from cotenant_api import errors
from kubernetes import client, config

Object = Mapping[str, Any]
Read = TypeVar("Read")

PAGE: Final = 500
TIMEOUT_SECONDS: Final = 60.0
_TRIES: Final = 3
_JSON: Final = {"Accept": "application/json"}


class Lists:
    """Lists of one cluster, as the user of a context.

    Attributes:
        namespace: of the context, for names without one.

    Args:
        kubeconfig: None: as kubectl chooses it.
        context: None: the current one.

    Raises:
        InvalidInputError: there is no such kubeconfig or context.
    """

    def __init__(self, kubeconfig: Path | None, context: str | None, *, page: int = PAGE) -> None:
        configuration = client.Configuration()
        try:
            config.load_kube_config(  # type: ignore[no-untyped-call]
                config_file=None if kubeconfig is None else str(kubeconfig),
                context=context,
                client_configuration=configuration,
                persist_config=False,
            )
        except (config.ConfigException, OSError, ValueError) as error:
            file = str(kubeconfig or config.KUBE_CONFIG_DEFAULT_LOCATION)
            field, value = ("--kubeconfig", file) if context is None else ("--context", context)
            remedy = f"name a readable kubeconfig and one of its contexts (kubectl config get-contexts): {error}"
            raise errors.InvalidInputError(field, value, remedy) from error
        self._client, self._page = client.ApiClient(configuration), page
        self.namespace = _namespace(kubeconfig, context)

    def __call__(self, path: str, read: Callable[[Object], Read | None], /, *, name: str = "") -> Sequence[Read]:
        """What was read of each object of a path, where that is something; nothing of a kind that is not known.

        A list may be long: its objects are let go as soon as they are read, and may be read again.

        Args:
            path: of the collection.
            read: makes something of an object, or nothing.
            name: the only object that is wanted.

        Raises:
            PermanentError: it refuses, or the list changes faster than it is read.
            TemporaryError: it gives no answer.
        """
        for _ in range(_TRIES):
            found = self._whole(path, read, name)
            if found is not None:
                return found
        raise errors.PermanentError(f"GET {path}: its pages expired {_TRIES} times: try again at a quieter time")

    def _whole(self, path: str, read: Callable[[Object], Read | None], name: str) -> list[Read] | None:
        """All pages of one version; None: it expired meanwhile."""
        found: list[Read] = []
        query: list[tuple[str, str]] = [("limit", str(self._page))]
        if name:
            query.append(("fieldSelector", f"metadata.name={name}"))
        following = ""
        while True:
            status, answer = self._get(path, [*query, ("continue", following)] if following else query)
            if status == http.client.NOT_FOUND:
                return []
            if status == http.client.GONE:
                return None
            if status != http.client.OK:
                raise errors.PermanentError(_refusal(path, status, answer))
            found += [one for raw in answer.get("items") or () if (one := read(raw)) is not None]
            following = (answer.get("metadata") or {}).get("continue") or ""
            if not following:
                return found

    def _get(self, path: str, query: list[tuple[str, str]]) -> tuple[int, dict[str, Any]]:
        asked = self._client.param_serialize(
            "GET", path, query_params=query, header_params=dict(_JSON), auth_settings=["BearerToken"]
        )
        try:
            answer = self._client.call_api(*asked, _request_timeout=TIMEOUT_SECONDS)
            status, data = answer.status, answer.response.data
        except (client.ApiException, urllib3.exceptions.HTTPError, OSError) as error:
            raise errors.TemporaryError(f"GET {path}: no answer: {error}", delay_seconds=1) from error
        try:
            decoded = json.loads(data)
        except ValueError:
            decoded = {"message": errors.shortened(data)}
        return status, decoded if isinstance(decoded, dict) else {}


def _namespace(kubeconfig: Path | None, context: str | None) -> str:
    """Of a context that is there."""
    file = None if kubeconfig is None else str(kubeconfig)
    listed, current = config.list_kube_config_contexts(file)  # type: ignore[no-untyped-call]
    found = current if context is None else next(one for one in listed if one["name"] == context)
    return str(found["context"].get("namespace") or "default")


def _refusal(path: str, status: int, answer: dict[str, Any]) -> str:
    said = errors.shortened(str(answer.get("message", "")))
    if status in (http.client.FORBIDDEN, http.client.UNAUTHORIZED):
        return f"GET {path}: {status}: {said}: manifests/rbac/snapshot-reader.yaml has the role that a reader needs"
    return f"GET {path}: {status}: {said}"
