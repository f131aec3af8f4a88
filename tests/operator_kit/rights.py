"""What RBAC lets the operator's account do, as `manifests/` grants it: no test may pass by a right that it has not."""

import functools
from typing import Final

from cotenant_api import names
from cotenant_e2e import charts, rights
from cotenant_operator.kube import api

_VERBS: Final = {"GET": "get", "POST": "create", "PATCH": "patch", "DELETE": "delete"}


@functools.cache
def _granted() -> frozenset[rights.Right]:
    return frozenset(rights.granted(charts.access()))


def lacking(request: api.Request, *, plural: str, name: str, subresource: str) -> rights.Right | None:
    """Return the right that the operator's account lacks for a request; None: it has all that it needs."""
    words = request.path.strip("/").split("/")
    group = "" if words[0] == "api" else words[1]
    resource = f"{plural}.{group}".rstrip(".") + (f"/{subresource}" if subresource else "")
    verb = "list" if request.method == "GET" and not name else _VERBS[request.method]
    right = rights.Right(names.OPERATOR_ACCOUNT, verb, resource)
    return None if right in _granted() else right
