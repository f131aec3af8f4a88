"""Certificates and kubeconfigs, checked by the ssl module."""

import base64
import datetime as dt
import json
import socket
import ssl
import threading
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from cotenant_e2e import certificates, kubeconfigs

NOW = dt.datetime.now(dt.UTC)


@pytest.fixture
def pki(tmp_path: Path) -> Path:
    certificates.write(tmp_path, addresses=["127.0.0.1", "10.96.0.1"], now=NOW)
    return tmp_path


def handshake(pki: Path, *, trusts: Path, host: str = "127.0.0.1") -> str:
    """The common name of the client that the server has seen."""
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(pki / "ca.crt"))
    server.load_cert_chain(pki / "server.crt", pki / "server.key")
    server.verify_mode = ssl.CERT_REQUIRED
    client = ssl.create_default_context(cafile=str(trusts / "ca.crt"))
    client.load_cert_chain(pki / "admin.crt", pki / "admin.key")
    seen: list[str] = []
    ours, theirs = socket.socketpair()

    def serve() -> None:
        try:
            with server.wrap_socket(theirs, server_side=True) as connection:
                certificate = x509.load_der_x509_certificate(connection.getpeercert(binary_form=True) or b"")
                (name,) = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
                seen.append(str(name.value))
                connection.sendall(b"x")
        except OSError:
            theirs.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with client.wrap_socket(ours, server_hostname=host) as connection:
            connection.recv(1)
    finally:
        ours.close()
        thread.join()
    return seen[0]


def test_server_and_client_prove_themselves_to_each_other(pki: Path) -> None:
    assert handshake(pki, trusts=pki) == "admin"


def test_the_server_answers_for_its_service_too(pki: Path) -> None:
    assert handshake(pki, trusts=pki, host="kubernetes.default.svc") == "admin"


def test_another_clusters_authority_is_not_trusted(pki: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    certificates.write(other, addresses=["127.0.0.1"], now=NOW)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(pki, trusts=other)


def test_another_address_is_not_answered_for(pki: Path) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="IP address mismatch"):
        handshake(pki, trusts=pki, host="127.0.0.2")


def test_the_administrator_is_in_the_group_of_masters(pki: Path) -> None:
    subject = x509.load_pem_x509_certificate((pki / "admin.crt").read_bytes()).subject
    assert [name.value for name in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)] == ["system:masters"]


def test_keys_are_readable_by_their_owner_only(pki: Path) -> None:
    keys = list(pki.glob("*.key"))
    assert len(keys) == 2 + len(certificates.USERS)
    assert all(key.stat().st_mode & 0o077 == 0 for key in keys)


def test_a_kubeconfig_carries_its_token_and_authority(tmp_path: Path) -> None:
    server = kubeconfigs.Server("https://127.0.0.1:1", b"authority")
    path = tmp_path / "operator.conf"
    kubeconfigs.write(path, kubeconfigs.with_token(server, user="operator", token="secret", namespace="ns"))
    document = json.loads(path.read_text())
    assert document["users"] == [{"name": "operator", "user": {"token": "secret"}}]
    assert document["contexts"][0]["context"]["namespace"] == "ns"
    cluster = document["clusters"][0]["cluster"]
    assert base64.b64decode(cluster["certificate-authority-data"]) == b"authority"
    assert path.stat().st_mode & 0o077 == 0


def test_a_kubeconfig_is_replaced_whole(tmp_path: Path) -> None:
    server = kubeconfigs.Server("https://127.0.0.1:1", b"authority")
    path = tmp_path / "a.conf"
    for token in ("first", "second"):
        kubeconfigs.write(path, kubeconfigs.with_token(server, user="a", token=token, namespace="default"))
    assert json.loads(path.read_text())["users"][0]["user"] == {"token": "second"}
    assert list(tmp_path.iterdir()) == [path]
