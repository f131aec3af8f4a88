"""What a doctor asks of a cluster beside lists: its version, and what the caller may do.

The latter is a POST by which nothing changes: a SelfSubjectAccessReview is answered and not kept.
"""

import http.client
from typing import Any

from cotenant_cli.reading import answers, installation, kube
from cotenant_cli.sending import kube as sending

_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class Asked:
    """Asks over one connection; see `installation.Asked`."""

    def __init__(self, connection: kube.Connection) -> None:
        self._connection = connection

    def version(self) -> dict[str, Any]:
        """Return what `GET /version` answers.

        Raises:
            PermanentError: the server refuses.
            TemporaryError: it does not answer, or cannot do so now.
        """
        status, answer = self._connection.get("/version", ())
        if status != http.client.OK:
            raise answers.refusal("/version", status, answer)
        return answer

    def may(self, right: installation.Right) -> bool:
        """Return whether the caller may.

        Raises:
            RefusedError, TemporaryError: as `sending.send`.
        """
        wanted = {"verb": right.verb, "group": right.group, "resource": right.resource}
        more = {"subresource": right.subresource, "namespace": right.namespace}
        attributes = wanted | {key: value for key, value in more.items() if value}
        kind = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
        body = kind | {"spec": {"resourceAttributes": attributes}}
        answer = sending.send(self._connection, sending.Request(method="POST", path=_REVIEWS, body=body))
        return bool((answer.get("status") or {}).get("allowed"))
