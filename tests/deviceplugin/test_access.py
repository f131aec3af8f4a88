"""Who the agent is at the API server: kubeconfigs and ServiceAccounts, with real certificates."""

import base64
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from cotenant_api import errors
from cotenant_deviceplugin.kube import access, client

POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "6443"}


def certificate(name: str) -> tuple[str, str]:
    """A self-signed certificate for a host name, and its key; both in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return made.public_bytes(serialization.Encoding.PEM).decode(), private.decode()


SERVER, SERVER_KEY = certificate("kubernetes")
AGENT, AGENT_KEY = certificate("agent")


def encoded(pem: str) -> str:
    return base64.b64encode(pem.encode()).decode()


def kubeconfig(
    folder: Path,
    *,
    server: str = "https://api.example:6443",
    cluster: Mapping[str, Any] | None = None,
    user: Mapping[str, Any] | None = None,
) -> Path:
    path = folder / "agent.conf"
    value = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": server, **(cluster or {})}}],
        "users": [{"name": "u", "user": dict(user or {})}],
    }
    path.write_text(json.dumps(value))
    return path


def test_a_token_stands_in_the_file(tmp_path: Path) -> None:
    read = access.from_kubeconfig(kubeconfig(tmp_path, server="http://api.example/", user={"token": "t"}))
    assert (read.server, read.tls, read.token and read.token()) == ("http://api.example", None, "t")


def test_a_token_in_the_file_wins_over_a_token_file(tmp_path: Path) -> None:
    read = access.from_kubeconfig(kubeconfig(tmp_path, user={"token": "t", "tokenFile": "absent"}))
    assert read.token is not None
    assert read.token() == "t"


def test_an_account_may_have_no_token(tmp_path: Path) -> None:
    assert access.from_kubeconfig(kubeconfig(tmp_path)).token is None


@pytest.mark.parametrize("inline", [True, False])
async def test_both_sides_show_their_certificates(tmp_path: Path, *, inline: bool) -> None:
    (tmp_path / "ca.crt").write_text(SERVER)
    (tmp_path / "agent.crt").write_text(AGENT)
    (tmp_path / "agent.key").write_text(AGENT_KEY)
    trust = {"certificate-authority-data": encoded(SERVER)} if inline else {"certificate-authority": "ca.crt"}
    shown = {"client-certificate-data": encoded(AGENT), "client-key-data": encoded(AGENT_KEY)}
    files = {"client-certificate": "agent.crt", "client-key": "agent.key"}

    async def answer(request: web.Request) -> web.StreamResponse:
        peer = request.get_extra_info("peercert")
        return web.json_response({"subject": peer["subject"][0][0][1]})

    app = web.Application()
    app.router.add_get("/x", answer)
    async with serving(app, tmp_path) as server:
        path = kubeconfig(
            tmp_path,
            server=f"https://127.0.0.1:{server.port}",
            cluster={**trust, "tls-server-name": "kubernetes"},
            user=shown if inline else files,
        )
        api = client.KubernetesCluster(lambda: access.from_kubeconfig(path))
        assert await api.get("/x") == {"subject": "agent"}
        await api.close()


@asynccontextmanager
async def serving(app: web.Application, folder: Path) -> AsyncIterator[TestServer]:
    """A server that shows its certificate and asks for the agent's."""
    server = TestServer(app, scheme="https")
    await server.start_server(ssl=_shown(folder))
    try:
        yield server
    finally:
        await server.close()


def _shown(folder: Path) -> ssl.SSLContext:
    (folder / "server.pem").write_text(f"{SERVER}\n{SERVER_KEY}")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=AGENT)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(folder / "server.pem")
    return context


async def test_an_authority_that_is_renewed_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text(AGENT)
    async with serving(web.Application(), tmp_path) as server:
        path = kubeconfig(
            tmp_path,
            server=f"https://127.0.0.1:{server.port}",
            cluster={"certificate-authority": "ca.crt", "tls-server-name": "kubernetes"},
            user={"client-certificate-data": encoded(AGENT), "client-key-data": encoded(AGENT_KEY)},
        )
        api = client.KubernetesCluster(lambda: access.from_kubeconfig(path))
        with pytest.raises(errors.TemporaryError, match="CERTIFICATE_VERIFY_FAILED"):
            await api.get("/x")
        (tmp_path / "ca.crt").write_text(SERVER)
        with pytest.raises(errors.PermanentError, match="404"):
            await api.get("/x")
        await api.close()


async def test_a_server_that_nobody_vouches_for_is_not_talked_to(tmp_path: Path) -> None:
    async with serving(web.Application(), tmp_path) as server:
        path = kubeconfig(
            tmp_path, server=f"https://127.0.0.1:{server.port}", cluster={"certificate-authority-data": encoded(AGENT)}
        )
        api = client.KubernetesCluster(lambda: access.from_kubeconfig(path))
        with pytest.raises(errors.TemporaryError, match="CERTIFICATE_VERIFY_FAILED"):
            await api.get("/x")
        await api.close()


def test_verification_is_left_out_only_where_the_file_says_so(tmp_path: Path) -> None:
    checked = access.from_kubeconfig(kubeconfig(tmp_path)).tls
    unchecked = access.from_kubeconfig(kubeconfig(tmp_path, cluster={"insecure-skip-tls-verify": True})).tls
    assert checked is not None
    assert unchecked is not None
    assert (checked.verify_mode, unchecked.verify_mode) == (ssl.CERT_REQUIRED, ssl.CERT_NONE)


@pytest.mark.parametrize(
    ("user", "named"),
    [
        ({"exec": {"command": "aws"}}, "exec"),
        ({"auth-provider": {"name": "gcp"}}, "auth-provider"),
        ({"username": "u", "password": "p"}, "username"),
        ({"as": "root"}, "as"),
    ],
)
def test_other_ways_to_log_in_are_refused_with_the_remedy(tmp_path: Path, user: Mapping[str, Any], named: str) -> None:
    with pytest.raises(errors.InvalidInputError, match=rf"user\.{named}: .*use a token, a tokenFile or a client cert"):
        access.from_kubeconfig(kubeconfig(tmp_path, user=user))


@pytest.mark.parametrize(
    ("cluster", "user", "words"),
    [
        ({"proxy-url": "http://p"}, {}, "proxy-url"),
        ({"server": "api:6443"}, {}, r"clusters\[0\]\.cluster\.server"),
        ({"certificate-authority-data": "%"}, {}, "certificate-authority-data: .*base64"),
        ({"certificate-authority-data": encoded("no certificate")}, {}, "must be certificates in PEM"),
        ({"certificate-authority": "absent.crt"}, {}, "absent.crt.*must be a file"),
        ({}, {"client-certificate-data": encoded(AGENT)}, "must come with its client-key"),
        ({}, {"client-certificate-data": encoded("x"), "client-key-data": encoded("y")}, "a certificate and its key"),
    ],
)
def test_what_cannot_be_used_is_named(
    tmp_path: Path, cluster: Mapping[str, Any], user: Mapping[str, Any], words: str
) -> None:
    with pytest.raises(errors.InvalidInputError, match=words):
        access.from_kubeconfig(kubeconfig(tmp_path, cluster=cluster, user=user))


def test_no_secret_is_named_in_an_error(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, user={"username": "u", "password": "hunter2"})
    with pytest.raises(errors.InvalidInputError) as caught:
        access.from_kubeconfig(path)
    assert "hunter2" not in str(caught.value)


def test_a_context_that_names_nothing_is_refused(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path)
    path.write_text(path.read_text().replace('"cluster": "k"', '"cluster": "absent"'))
    with pytest.raises(errors.InvalidInputError, match=r"kubeconfig.clusters: 'absent'"):
        access.from_kubeconfig(path)


@pytest.mark.parametrize("text", ["", "a: [", "{}"])
def test_a_file_that_is_no_kubeconfig_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "agent.conf"
    path.write_text(text)
    with pytest.raises(errors.InvalidInputError, match=r"kubeconfig: .*agent\.conf.*must be a kubeconfig"):
        access.from_kubeconfig(path)


def mounted(folder: Path) -> Path:
    (folder / "token").write_text("one\n")
    (folder / "ca.crt").write_text(SERVER)
    return folder


def test_a_pod_has_its_service_account_and_reads_its_token_anew(tmp_path: Path) -> None:
    read = access.in_cluster(POD, folder=mounted(tmp_path))
    assert read.token is not None
    before = read.token()
    (tmp_path / "token").write_text("two\n")
    assert (read.server, before, read.token()) == ("https://10.0.0.1:6443", "one", "two")


def test_an_ipv6_address_is_written_as_urls_want_it(tmp_path: Path) -> None:
    read = access.in_cluster({"KUBERNETES_SERVICE_HOST": "fd00::1"}, folder=mounted(tmp_path))
    assert read.server == "https://[fd00::1]:443"


def test_outside_of_a_pod_a_kubeconfig_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidInputError, match="--kubeconfig: None: must name a kubeconfig"):
        access.in_cluster(POD, folder=tmp_path)
