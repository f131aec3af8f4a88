"""Kubeconfigs that carry their credentials, so that they can be copied. Pure, but for `write`."""

import json
from base64 import b64encode
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cotenant_e2e import files

NAME = "cotenant-e2e"


@dataclass(frozen=True)
class Server:
    """Where the API server answers. `authority`: the certificate of its authority, PEM."""

    url: str
    authority: bytes


def with_certificate(server: Server, *, user: str, certificate: bytes, key: bytes) -> dict[str, Any]:
    """For a client certificate and its key, both PEM."""
    credentials = {"client-certificate-data": _base64(certificate), "client-key-data": _base64(key)}
    return _kubeconfig(server, user, credentials, namespace="default")


def with_token(server: Server, *, user: str, token: str, namespace: str) -> dict[str, Any]:
    """For a bearer token. `namespace`: where kubectl looks when it is told none."""
    return _kubeconfig(server, user, {"token": token}, namespace=namespace)


def write(path: Path, kubeconfig: dict[str, Any]) -> None:
    """As JSON, which is YAML; readable by its owner only."""
    files.write_private(path, json.dumps(kubeconfig, indent=1).encode())


def _kubeconfig(server: Server, user: str, credentials: dict[str, str], *, namespace: str) -> dict[str, Any]:
    cluster = {"server": server.url, "certificate-authority-data": _base64(server.authority)}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": NAME,
        "clusters": [{"name": NAME, "cluster": cluster}],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": user, "namespace": namespace}}],
    }


def _base64(data: bytes) -> str:
    return b64encode(data).decode()
