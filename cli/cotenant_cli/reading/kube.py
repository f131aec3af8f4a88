"""Reads objects of the API server as kubectl would reach it: by a kubeconfig, else as a pod's account. GET alone.

The only module of the command line, and of the simulator, that may import a Kubernetes library.
"""

import contextlib
import http.client
import os
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import urllib3
import yaml
from urllib3 import exceptions

from cotenant_api import errors, lines, names, paging
from cotenant_cli.reading import answers, impersonation, pages
from kubernetes import client, config
from kubernetes.config import kube_config

Object = Mapping[str, Any]
Read = TypeVar("Read")

PAGE: Final = 500
TIMEOUT_SECONDS: Final = 60.0
_ONE_TRY: Final = urllib3.Retry(total=None, connect=0, read=0, status=0, other=0, redirect=3)
"""Else urllib3 makes four of them, each with all of the timeout, and waits as long as a Retry-After says."""
_CORE: Final = "/api/v1/"
"""Of Kubernetes' own kinds: no API server lacks them."""
_PART_BYTES: Final = 2**16
_TRIES: Final = 3
_QUOTES: Final = "'\""
_JSON: Final = {"Accept": "application/json"}
_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Of a pod: its token, and its namespace."""


class _Client(client.ApiClient):
    """Sends some headers with every request, whoever makes it; a name may have more than one value.

    The library's own default headers are a dict, and values joined by commas would be the name of one group.
    """

    def __init__(self, configuration: client.Configuration, headers: impersonation.Headers) -> None:
        super().__init__(configuration)
        self._headers = headers

    def call_api(
        self, method: str, url: str, header_params: Mapping[str, str] | None = None, *more: Any, **options: Any
    ) -> Any:
        """Send a request; see the base class."""
        headers = urllib3.HTTPHeaderDict(header_params or {})
        for name, value in self._headers:
            headers.add(name, value)
        return super().call_api(method, url, headers, *more, **options)


class Connection:
    """To the API server of one cluster, as the user of a context, or as whom that user impersonates.

    Attributes:
        client: with the address and the credentials.
        namespace: of the context, for names without one.
        patience: see below.

    Args:
        kubeconfig: None: as kubectl chooses it; where there is none, in a pod, its ServiceAccount.
        context: None: the current one.
        patience: for how many seconds a request that is made now may wait for its answer.

    Raises:
        InvalidInputError: there is no such kubeconfig or context.
        PermanentError: none is named, and there is none where kubectl looks.
    """

    def __init__(
        self, kubeconfig: Path | None, context: str | None, *, patience: Callable[[], float] = lambda: TIMEOUT_SECONDS
    ) -> None:
        configuration = client.Configuration()
        configuration.host = ""
        configuration.retries = _ONE_TRY
        self.patience = patience
        if kubeconfig is None and context is None and _in_a_pod():
            config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
            self.namespace = (_ACCOUNT / "namespace").read_text(encoding="utf-8").strip()
            impersonated: impersonation.Headers = ()
        else:
            self.namespace, impersonated = _load(configuration, kubeconfig, context)
        self.client = _Client(configuration, impersonated)

    def get(self, path: str, query: Sequence[tuple[str, str]]) -> tuple[int, dict[str, Any]]:
        """Status and decoded body of an answer; see `answers.decoded`.

        Raises:
            TemporaryError: there is none.
            PermanentError: it is none of an API server.
        """
        seconds = self.patience()
        with _answered(path, seconds):
            answer = self._ask(path, query, seconds)
            try:
                data = _read(path, answer.response)
            finally:
                answer.response.close()
        return answer.status, answers.decoded(f"GET {path}", answer.status, data)

    def require_cotenant(self) -> None:
        """Nothing, if the cluster serves our kinds.

        Raises:
            PermanentError: it does not.
            TemporaryError: it gives no answer.
        """
        status, _ = self.get(f"/apis/{names.API_VERSION}", ())
        if status == http.client.NOT_FOUND:
            raise errors.PermanentError(
                f"{names.API_VERSION} is not served by the cluster at {self.client.configuration.host}: install "
                "Cotenant there (`cotenant doctor` says what lacks), or name another --context"
            )

    @contextlib.contextmanager
    def lines(
        self, path: str, query: Sequence[tuple[str, str]], *, silence_seconds: float
    ) -> Iterator[tuple[int, Iterator[bytes]]]:
        """Status and lines of an answer that goes on and on, as they come.

        Raises:
            TemporaryError: there is no answer, or no byte of it for so long.
        """
        with _answered(path, silence_seconds):
            answer = self._ask(path, query, (self.patience(), silence_seconds))
            try:
                yield answer.status, _lines(answer.response.stream(amt=None, decode_content=True))
            finally:
                answer.response.close()

    def _ask(self, path: str, query: Sequence[tuple[str, str]], timeout: float | tuple[float, float]) -> Any:
        asked = self.client.param_serialize(
            "GET", path, query_params=list(query), header_params=dict(_JSON), auth_settings=["BearerToken"]
        )
        return self.client.call_api(*asked, _request_timeout=timeout)


class Lists:
    """Lists of one cluster, as the user of a context, page by page; see `Connection`.

    Attributes:
        connection: to that cluster.
        namespace: of the context, for names without one.
    """

    def __init__(
        self,
        kubeconfig: Path | None,
        context: str | None,
        *,
        page: int = PAGE,
        patience: Callable[[], float] = lambda: TIMEOUT_SECONDS,
    ) -> None:
        self.connection, self._page = Connection(kubeconfig, context, patience=patience), page
        self.namespace = self.connection.namespace

    def __call__(
        self, path: str, read: Callable[[Object], Read | None], /, *, name: str = "", node: str = ""
    ) -> Sequence[Read]:
        """Return what was read of each object of a path, where that is something; nothing of a kind that is not there.

        A list may be long: its objects are let go as soon as they are read, and may be read again.

        Args:
            path: of the collection.
            read: makes something of an object, or nothing.
            name: the only object that is wanted.
            node: of pods, those on this one alone.

        Raises:
            PermanentError: it refuses, or the list changes faster than it is read.
            TemporaryError: it gives no answer, or cannot do so now.
        """
        selector = f"metadata.name={name}" if name else f"spec.nodeName={node}" if node else ""
        for _ in range(_TRIES):
            found = self._whole(path, read, selector)
            if found is not None:
                return found
        raise errors.PermanentError(f"GET {path}: its pages expired {_TRIES} times: try again at a quieter time")

    def _whole(self, path: str, read: Callable[[Object], Read | None], selector: str) -> list[Read] | None:
        """All pages of one version; None: it expired meanwhile."""
        found: list[Read] = []
        query = [("fieldSelector", selector)] if selector else []
        following, limit = "", self._page
        while True:
            status, answer, limit = pages.page(self.connection, path, query, following=following, limit=limit)
            if status == http.client.NOT_FOUND and not path.startswith(_CORE):
                return []
            if status == http.client.GONE:
                return None
            if status != http.client.OK:
                raise answers.refusal(path, status, answer)
            found += [one for raw in answers.items(path, answer) if (one := read(raw)) is not None]
            limit = paging.larger(limit, self._page)
            following = (answer.get("metadata") or {}).get("continue") or ""
            if not following:
                return found


def _in_a_pod() -> bool:
    """Return whether there is a ServiceAccount and no kubeconfig, as kubectl decides it."""
    files = str(config.KUBE_CONFIG_DEFAULT_LOCATION).split(os.pathsep)
    there = any(Path(file).expanduser().exists() for file in files if file)
    return not there and "KUBERNETES_SERVICE_HOST" in os.environ and (_ACCOUNT / "token").exists()


_UNREADABLE: Final = (
    config.ConfigException,
    yaml.YAMLError,
    OSError,
    # The library looks into the document without asking what it is.
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
)


def _load(
    configuration: client.Configuration, kubeconfig: Path | None, context: str | None
) -> tuple[str, impersonation.Headers]:
    """Read address and credentials from a kubeconfig; return its namespace, and who is impersonated."""
    file = str(kubeconfig or config.KUBE_CONFIG_DEFAULT_LOCATION)
    try:
        merged = kube_config.KubeConfigMerger(file).config  # type: ignore[no-untyped-call]
        if merged is None:
            raise config.ConfigException("there is no such file")
        # No base path: each file that is named is looked for beside the kubeconfig that names it.
        loader = kube_config.KubeConfigLoader(  # type: ignore[no-untyped-call]
            merged, active_context=context, config_base_path=None
        )
        loader.load_and_set(configuration)  # type: ignore[no-untyped-call]
        if not urllib.parse.urlsplit(str(configuration.host)).hostname:
            raise ValueError(f"the context's cluster has no server that is a URL, but {configuration.host!r}")
        _require_token(configuration)
        found = loader.current_context["context"]
        return str(found.get("namespace") or "default"), _impersonated(merged, found.get("user"), source=file)
    except _UNREADABLE as error:
        said = f"{type(error).__name__}: {errors.shortened(str(error)).strip(_QUOTES)}"
        remedy = f"name a readable kubeconfig and one of its contexts (kubectl config get-contexts): {said}"
        if kubeconfig is None and context is None:
            raise errors.PermanentError(f"no cluster is known: {file}: {remedy}") from error
        field, value = ("--kubeconfig", file) if context is None else ("--context", context)
        raise errors.InvalidInputError(field, value, remedy) from error


def _require_token(configuration: client.Configuration) -> None:
    """Nothing, if the token of the context's user, where there is one, can stand in a request."""
    token = configuration.get_api_key_with_prefix("BearerToken", alias="authorization") or ""
    if not (token.isascii() and token.isprintable()):
        raise ValueError("the token of the context's user must be one line of ASCII: get it again, without line ends")


def _impersonated(merged: kube_config.ConfigNode, user: str | None, *, source: str) -> impersonation.Headers:
    """Return the headers for whom a user of a kubeconfig impersonates."""
    found = merged["users"].get_with_name(user, safe=True) if user and "users" in merged else None
    return impersonation.headers(found["user"].value, source=f"{source}: users: {user}") if found else ()


@contextlib.contextmanager
def _answered(path: str, seconds: float) -> Iterator[None]:
    """Take what fails in the block for a server that gave no answer."""
    try:
        yield
    except (client.ApiException, exceptions.HTTPError, OSError) as error:
        raise no_answer(f"GET {path}", error, seconds=seconds) from error


def no_answer(what: str, error: Exception, *, seconds: float) -> errors.TemporaryError:
    """Return the error of a request that got no answer in so long, with the cause alone of what the library says."""
    cause = getattr(error, "reason", None) or error
    # For urllib3 a connection that is refused is a timeout, too.
    if isinstance(cause, exceptions.TimeoutError) and not isinstance(cause, exceptions.NewConnectionError):
        said = f"no answer within {seconds:.3g} s"
    else:
        told = str(cause).rpartition("Failed to establish a new connection: ")[2]
        said = f"no answer: {errors.shortened(told).strip(_QUOTES)}"
    remedy = "look whether the cluster is up, and whether the context is the right one (kubectl config get-contexts)"
    return errors.TemporaryError(f"{what}: {said}: {remedy}", delay_seconds=1)


def _read(path: str, response: Any) -> bytes:
    """Return what an answer holds."""
    parts: list[bytes] = []
    left = lines.LONGEST
    while part := response.read(_PART_BYTES, decode_content=True):
        parts.append(part)
        left -= len(part)
        if left < 0:
            raise pages.TooLargeError(f"GET {path}: the answer has more than {lines.LONGEST} bytes")
    return b"".join(parts)


def _lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield what stands between line ends; the last line may have none. One that is too long is left out."""
    found = lines.Lines()
    for chunk in chunks:
        yield from found.feed(chunk)
    if rest := found.rest():
        yield rest
