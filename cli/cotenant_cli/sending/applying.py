"""Server-side apply, as kubectl does it: fields are owned by who applied them, unknown ones are refused."""

from collections.abc import Mapping
from typing import Any, Final, NewType

from cotenant_api import names
from cotenant_cli.reading import kube
from cotenant_cli.sending import kube as sending

Object = Mapping[str, Any]
Manager = NewType("Manager", str)

_COLLECTIONS: Final = {"ConfigMap": "/api/v1", "DLJob": f"/apis/{names.API_VERSION}"}
_PLURALS: Final = {"ConfigMap": "configmaps", "DLJob": "dljobs"}


def apply(
    connection: kube.Connection, wanted: Object, *, manager: Manager, force: bool = False, dry_run: bool = False
) -> dict[str, Any]:
    """Return the object as the server has it now.

    Args:
        connection: to the cluster.
        wanted: a ConfigMap or DLJob with its namespace.
        manager: who owns the fields.
        force: take fields over that others own.
        dry_run: check everything and keep nothing.

    Raises:
        ConflictError: others own a field, and `force` is not given.
        RefusedError, TemporaryError: as `sending.send`.
    """
    query = [("fieldManager", manager), ("fieldValidation", "Strict"), ("force", str(force).lower())]
    if dry_run:
        query.append(("dryRun", "All"))
    kind, metadata = wanted["kind"], wanted["metadata"]
    path = f"{_COLLECTIONS[kind]}/namespaces/{metadata['namespace']}/{_PLURALS[kind]}/{metadata['name']}"
    request = sending.Request(method="PATCH", path=path, body=wanted, content_type=sending.APPLY, query=query)
    return sending.send(connection, request)
