"""How to reach the API server and who the agent is there: a kubeconfig, or the ServiceAccount of its pod.

Reads files and nothing else. What would need another program, or another protocol than HTTPS with a token or a
certificate, is refused with the remedy.
"""

import base64
import binascii
import ssl
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field

from cotenant_api import documents, errors

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where kubelet mounts a pod's token (`token`, renewed in place) and the cluster's CA (`ca.crt`)."""

T = TypeVar("T", bound="_Named")


@dataclass(frozen=True, kw_only=True)
class Access:
    """One API server, seen by one account.

    Attributes:
        server: its URL, without a slash at the end.
        tls: how its certificate is checked, and which is shown to it; None: plain HTTP.
        server_name: the name in its certificate, where that is not the host of the URL.
        token: gives the bearer token as it stands now; None: there is none. Raises OSError.
    """

    server: str
    tls: ssl.SSLContext | None = None
    server_name: str | None = None
    token: Callable[[], str] | None = None


Source = Callable[[], Access]
"""Reads the files anew; raises InvalidInputError. It blocks for as long as files do."""


def in_cluster(environment: Mapping[str, str], *, folder: Path = SERVICE_ACCOUNT) -> Access:
    """Return the access of a pod; its token is read again for each request, because kubelet renews the file.

    Args:
        environment: of the process; kubelet sets `KUBERNETES_SERVICE_HOST` and `_PORT` in each container.
        folder: where the ServiceAccount is mounted.
    """
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host or not (folder / "token").is_file():
        remedy = "must name a kubeconfig where the agent does not run in a pod with a ServiceAccount"
        raise errors.InvalidInputError("--kubeconfig", None, remedy)
    name = f"[{host}]" if ":" in host else host
    trusted = _trust(_text(folder / "ca.crt", field="ServiceAccount"), field="ServiceAccount.ca.crt")
    return Access(server=f"https://{name}:{port}", tls=trusted, token=_from_file(folder / "token"))


def from_kubeconfig(path: Path) -> Access:
    """Return the access that a kubeconfig's current context names; paths in it are relative to its folder."""
    try:
        value: Any = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        remedy = f"must be a kubeconfig that can be read: {errors.shortened(str(error))}"
        raise errors.InvalidInputError("kubeconfig", str(path), remedy) from error
    try:
        read = documents.validated(_Kubeconfig, value, source="kubeconfig")
    except errors.InvalidInputError as error:
        raise errors.InvalidInputError("kubeconfig", str(path), f"must be a kubeconfig: {error}") from error
    context = _find(read.contexts, read.current_context, field="contexts").context
    cluster = _find(read.clusters, context.cluster, field="clusters").cluster
    user = _find(read.users, context.user, field="users").user if context.user else _User()
    _refuse_unknown_ways(user, cluster)
    return Access(
        server=cluster.server.rstrip("/"),
        tls=_tls(cluster, user, path.parent) if cluster.server.startswith("https:") else None,
        server_name=cluster.tls_server_name,
        token=_token(user, path.parent),
    )


class _Part(BaseModel):
    """A part of a kubeconfig: its keys are written with hyphens."""

    model_config = ConfigDict(alias_generator=lambda name: name.replace("_", "-"), frozen=True, extra="ignore")


class _Cluster(_Part):
    server: Annotated[str, Field(pattern=r"^https?://[^\s/]+")]
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    insecure_skip_tls_verify: bool = False
    tls_server_name: str | None = None
    proxy_url: str | None = None


class _User(_Part):
    token: str | None = None
    token_file: str | None = Field(default=None, alias="tokenFile")
    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    exec_plugin: Any = Field(default=None, alias="exec")
    auth_provider: Any = None
    username: str | None = None
    impersonated: str | None = Field(default=None, alias="as")


class _Context(_Part):
    cluster: str
    user: str = ""


class _Named(_Part):
    name: str


class _NamedCluster(_Named):
    cluster: _Cluster


class _NamedUser(_Named):
    user: _User = _User()


class _NamedContext(_Named):
    context: _Context


class _Kubeconfig(_Part):
    current_context: Annotated[str, Field(min_length=1)]
    contexts: tuple[_NamedContext, ...]
    clusters: tuple[_NamedCluster, ...]
    users: tuple[_NamedUser, ...] = ()


def _find(items: tuple[T, ...], name: str, *, field: str) -> T:
    for item in items:
        if item.name == name:
            return item
    raise errors.InvalidInputError(f"kubeconfig.{field}", name, "must be an entry of that name")


def _refuse_unknown_ways(user: _User, cluster: _Cluster) -> None:
    """Refuse what would make the agent somebody else, or have it go another way, than the file says."""
    remedy = "must be absent: use a token, a tokenFile or a client certificate"
    ways = {"exec": user.exec_plugin, "auth-provider": user.auth_provider, "username": user.username}
    for key, value in {**ways, "as": user.impersonated}.items():
        if value is not None:
            # Its value may be a secret.
            raise errors.InvalidInputError(f"kubeconfig.users[].user.{key}", "...", remedy)
    if cluster.proxy_url is not None:
        raise errors.InvalidInputError("kubeconfig.clusters[].cluster.proxy-url", "...", "must be absent")


def _token(user: _User, folder: Path) -> Callable[[], str] | None:
    """Return what reads the token; an inline one wins, as it does with kubectl."""
    if user.token is not None:
        token = user.token
        return lambda: token
    return _from_file(folder / user.token_file) if user.token_file else None


def _from_file(path: Path) -> Callable[[], str]:
    return lambda: path.read_text().strip()


def _tls(cluster: _Cluster, user: _User, folder: Path) -> ssl.SSLContext:
    field = "kubeconfig.clusters[].cluster.certificate-authority"
    ca = _pem(cluster.certificate_authority_data, cluster.certificate_authority, folder, field=field)
    made = _trust(ca, field=field)
    if cluster.insecure_skip_tls_verify:
        made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    field = "kubeconfig.users[].user.client-certificate"
    certificate = _pem(user.client_certificate_data, user.client_certificate, folder, field=field)
    key = _pem(user.client_key_data, user.client_key, folder, field="kubeconfig.users[].user.client-key")
    if (certificate is None) != (key is None):
        raise errors.InvalidInputError(field, "...", "must come with its client-key, and a key with its certificate")
    if certificate is not None and key is not None:
        _show(made, f"{certificate}\n{key}", field=field)
    return made


def _trust(ca: str | None, *, field: str) -> ssl.SSLContext:
    """Trust in one CA, or in the machine's where none is named."""
    try:
        return ssl.create_default_context(cadata=ca)
    except (ssl.SSLError, ValueError) as error:
        raise errors.InvalidInputError(field, "...", f"must be certificates in PEM: {error}") from error


def _show(context: ssl.SSLContext, pem: str, *, field: str) -> None:
    """OpenSSL reads certificates from files alone; this one is gone when it has been read, and ours alone."""
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(pem)
        file.flush()
        try:
            context.load_cert_chain(file.name)
        except (ssl.SSLError, ValueError) as error:
            raise errors.InvalidInputError(field, "...", f"must be a certificate and its key: {error}") from error


def _pem(data: str | None, file: str | None, folder: Path, *, field: str) -> str | None:
    """Inline data wins over a file, as it does with kubectl."""
    if data is None:
        return None if file is None else _text(folder / file, field=field)
    try:
        return base64.b64decode(data, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise errors.InvalidInputError(f"{field}-data", "...", "must be PEM in base64") from error


def _text(path: Path, *, field: str) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise errors.InvalidInputError(field, str(path), f"must be a file that can be read: {error}") from error
