"""One certificate authority and the certificates of a cluster, made anew for each. Writes into one folder only."""

import datetime as dt
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from cotenant_e2e import files

KUBELET = "kubelet"
API_SERVER_AT_KUBELET = "apiserver-kubelet"
KUBELET_SERVER = "kubelet-server"
VALID_DAYS = 3650
CLOCK_SKEW = dt.timedelta(minutes=5)
SERVICE = "kubernetes.default.svc"
DNS_NAMES = ("localhost", "kubernetes", "kubernetes.default", SERVICE, f"{SERVICE}.cluster.local")


@dataclass(frozen=True)
class Identity:
    """What the API server takes a client for."""

    user: str
    groups: tuple[str, ...] = ()


USERS = {
    "admin": Identity("admin", ("system:masters",)),
    "controller-manager": Identity("system:kube-controller-manager"),
    "scheduler": Identity("system:kube-scheduler"),
}


@dataclass(frozen=True)
class Node:
    """A real node: its kubelet is a client of the API server, which is a client of its kubelet at this address."""

    name: str
    address: str

    @property
    def users(self) -> dict[str, Identity]:
        """Whom the API server must know for it: `system:masters` may read logs of its own nodes' kubelets."""
        return {
            KUBELET: Identity(f"system:node:{self.name}", ("system:nodes",)),
            API_SERVER_AT_KUBELET: Identity("kube-apiserver-kubelet-client", ("system:masters",)),
        }


class Authority:
    """Signs certificates. `now`: the time from which they are valid."""

    def __init__(self, now: dt.datetime) -> None:
        self._now = now - CLOCK_SKEW
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(Identity("cotenant-e2e-ca"))
        usage = _key_usage(signs_certificates=True)
        self.certificate = (
            self._builder(self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .sign(self._key, hashes.SHA256())
        )

    @property
    def pem(self) -> bytes:
        """Return the authority's own certificate."""
        return _pem(self.certificate)

    def client(self, identity: Identity) -> tuple[bytes, bytes]:
        """Certificate and key (PEM) of a client."""
        return self._signed(identity, ExtendedKeyUsageOID.CLIENT_AUTH, ())

    def server(self, user: str, addresses: Sequence[str]) -> tuple[bytes, bytes]:
        """Certificate and key (PEM) of a server that answers on these IP addresses and as `kubernetes`."""
        names: list[x509.GeneralName] = [x509.DNSName(name) for name in DNS_NAMES]
        names += [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
        return self._signed(Identity(user), ExtendedKeyUsageOID.SERVER_AUTH, names)

    def _signed(
        self, identity: Identity, usage: x509.ObjectIdentifier, names: Sequence[x509.GeneralName]
    ) -> tuple[bytes, bytes]:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            self._builder(_name(identity), key.public_key())
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return _pem(builder.sign(self._key, hashes.SHA256())), _private_pem(key)

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now)
            .not_valid_after(self._now + dt.timedelta(days=VALID_DAYS))
        )


def write(directory: Path, *, addresses: Sequence[str], now: dt.datetime, node: Node | None = None) -> None:
    """Every certificate and key that the components read; keys are readable by their owner only."""
    authority = Authority(now)
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    (directory / "ca.crt").write_bytes(authority.pem)
    pairs = {"server": authority.server("kube-apiserver", addresses)}
    pairs |= {name: authority.client(identity) for name, identity in USERS.items()}
    if node:
        pairs |= {name: authority.client(identity) for name, identity in node.users.items()}
        pairs[KUBELET_SERVER] = authority.server(f"system:node:{node.name}", [node.address])
    for name, (certificate, key) in pairs.items():
        (directory / f"{name}.crt").write_bytes(certificate)
        files.write_private(directory / f"{name}.key", key)
    tokens = ec.generate_private_key(ec.SECP256R1())
    files.write_private(directory / "service-account.key", _private_pem(tokens))
    public = tokens.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    (directory / "service-account.pub").write_bytes(public)


def _name(identity: Identity) -> x509.Name:
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in identity.groups]
    return x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, identity.user)])


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
