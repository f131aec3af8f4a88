"""Sends blobs and manifests to a container registry, by the OCI distribution specification. Decides nothing."""

import re
import ssl
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import httpx

from cotenant_api import errors
from cotenant_e2e.releasing import oci
from cotenant_e2e.releasing.credentials import Credentials
from cotenant_e2e.releasing.oci import Blob

SECONDS: Final = 120
"""For one answer, the upload of a layer included."""
MANIFESTS: Final = f"{oci.INDEX}, {oci.MANIFEST}"


@dataclass(frozen=True)
class Access:
    """How to reach a registry.

    Args:
        host: with its port.
        ca: certificates of the authority that signed the registry's; None: those of the system.
        user: None for a registry that asks for none.
    """

    host: str
    ca: Path | None = None
    user: Credentials | None = None


class Login(httpx.Auth):
    """Answers a registry's challenge: with the password (Basic), or with a token that it fetches (Bearer)."""

    requires_response_body = True

    def __init__(self, user: Credentials | None) -> None:
        self._basic = httpx.BasicAuth(user.user, user.password) if user else None
        self._tokens: dict[str, str] = {}

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Send the request as before, and once more where the registry asks who that is."""
        name = repository_of(request.url.path)
        if name in self._tokens:
            request.headers["Authorization"] = self._tokens[name]
        response = yield request
        if response.status_code != httpx.codes.UNAUTHORIZED:
            return
        challenge = response.headers.get("WWW-Authenticate", "")
        if challenge.lower().startswith("bearer "):
            answer = yield self._asking(parameters(challenge), name)
            if not answer.is_success:
                return
            document = answer.json()
            self._tokens[name] = f"Bearer {document.get('token') or document['access_token']}"
        elif self._basic:
            self._tokens[name] = next(self._basic.auth_flow(request)).headers["Authorization"]
        else:
            return
        request.headers["Authorization"] = self._tokens[name]
        yield request

    def _asking(self, challenge: Mapping[str, str], name: str) -> httpx.Request:
        """Return the request for a token that lets push to one repository."""
        query = {"scope": f"repository:{name}:pull,push"}
        if "service" in challenge:
            query["service"] = challenge["service"]
        request = httpx.Request("GET", challenge["realm"], params=query)
        return next(self._basic.auth_flow(request)) if self._basic else request


def parameters(challenge: str) -> dict[str, str]:
    """Return what a WWW-Authenticate header says: `Bearer realm="..",service=".."`."""
    return dict(re.findall(r'(\w+)="([^"]*)"', challenge))


def repository_of(path: str) -> str:
    """Return the repository that a URL's path is about; empty for the registry itself."""
    found = re.fullmatch(r"/v2/(.+)/(?:blobs|manifests|tags|referrers)/.*", path)
    return found.group(1) if found else ""


class Registry:
    """A registry to push to. Use it as a context manager."""

    def __init__(self, access: Access, *, transport: httpx.BaseTransport | None = None) -> None:
        self.access = access
        context = ssl.create_default_context(cafile=str(access.ca) if access.ca else None)
        self._client = httpx.Client(
            base_url=f"https://{access.host}",
            auth=Login(access.user),
            timeout=SECONDS,
            verify=context,
            transport=transport,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def push_blob(self, repository: str, blob: Blob) -> bool:
        """Have a blob in a repository; whether it had to be sent.

        Raises:
            PermanentError: the registry cannot be reached, or refuses.
        """
        if self._ask("HEAD", f"/v2/{repository}/blobs/{blob.digest}", (200, 404)).status_code == httpx.codes.OK:
            return False
        begun = self._ask("POST", f"/v2/{repository}/blobs/uploads/", (202,))
        place = httpx.URL(begun.headers["Location"]).copy_merge_params({"digest": blob.digest})
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(blob.size)}
        with blob.open() as content:
            self._ask("PUT", place, (201,), headers=headers, content=content)
        return True

    def push_manifest(self, repository: str, content: bytes, *, media_type: str, tag: str = "") -> str:
        """Store a manifest under its digest, and under a tag where one is named; the digest.

        Raises:
            PermanentError: the registry cannot be reached, or refuses.
        """
        digest = oci.digest_of(content)
        path = f"/v2/{repository}/manifests/{tag or digest}"
        self._ask("PUT", path, (201,), headers={"Content-Type": media_type}, content=content)
        return digest

    def manifest(self, repository: str, reference: str) -> bytes | None:
        """Return a manifest by tag or digest; None where the registry has none.

        Raises:
            PermanentError: the registry cannot be reached, or refuses.
        """
        path = f"/v2/{repository}/manifests/{reference}"
        answer = self._ask("GET", path, (200, 404), headers={"Accept": MANIFESTS})
        return answer.content if answer.status_code == httpx.codes.OK else None

    def _ask(self, method: str, url: str | httpx.URL, expected: Sequence[int], **request: object) -> httpx.Response:
        try:
            answer = self._client.request(method, url, **request)  # type: ignore[arg-type]  # as httpx takes them
        except httpx.HTTPError as error:
            raise errors.PermanentError(
                f"{self.access.host} cannot be reached: {errors.shortened(str(error))}"
            ) from error
        if answer.status_code not in expected:
            raise errors.PermanentError(refusal(self.access.host, answer))
        return answer


def refusal(host: str, answer: httpx.Response) -> str:
    """Return one line that says what a registry refused and what to do."""
    said = errors.shortened(answer.text.strip() or answer.reason_phrase)
    text = f"{host} refused {answer.request.method} {answer.request.url.path}: {answer.status_code} {said}"
    if answer.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
        return f"{text}; log in with a user that may push: docker login {host}"
    return text
