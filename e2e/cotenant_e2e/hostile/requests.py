"""What an attack is made of: one request. Pure."""

from typing import NamedTuple

from cotenant_e2e import client as clients
from cotenant_e2e.client import Json


class Attack(NamedTuple):
    """One request. `kind`: what it is counted as."""

    kind: str
    method: str
    path: str
    body: Json | None


def path(plural: str, namespace: str, *, group: str = "", name: str = "") -> str:
    """Return the path of a collection of a namespace, or of one object in it."""
    return clients.path_of(plural, group=group, namespace=namespace, name=name)


def made(kind: str, name: str, spec: Json, *, api: str = "v1") -> Json:
    """Return an object."""
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": spec}
