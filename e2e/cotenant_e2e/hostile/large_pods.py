"""Pods that are as large as the API server takes them, with a GPU share and without one. Pure.

Every scheduler of a cluster keeps every pod in memory, also the pods of other schedulers. A pod is stored up to
1.5 MiB, and etcd stores 2 GB of everything by default, then it takes no write of anybody. Each change of a pod is
stored whole, and is kept for five to ten minutes. So the pods that are there at a time are bounded by their size
together, such that etcd has room for their changes: for a new one the oldest is deleted.
"""

import random
from collections import deque
from collections.abc import Iterator
from typing import Final

from cotenant_api import names, rootless
from cotenant_e2e.client import Json
from cotenant_e2e.hostile import requests
from cotenant_e2e.hostile.requests import Attack

SIZES: Final = (1_300_000, 600_000, 20_000)
"""Bytes of a pod; the largest that etcd takes has little more."""
MOST_BYTES: Final = 600_000_000
"""Of all that are there at a time."""
LETTERS: Final = ("a", "<")
"""The second takes six bytes in the answers of the API server."""
SCHEDULERS: Final = ("default-scheduler", names.SCHEDULER_NAME, "nobody")
_NOWHERE: Final = {"example.com/nowhere": "true"}
"""A node selector that no node has."""


class Pods:
    """Large pods of one namespace; remembers which of them are there."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._there: deque[tuple[str, int]] = deque()
        self._bytes = 0

    def without_share(self, source: random.Random, number: int) -> Iterator[Attack]:
        """Yield a pod that asks for no share and is never placed, so that its scheduler keeps trying."""
        spec: Json = {"schedulerName": source.choice(SCHEDULERS), "nodeSelector": _NOWHERE}
        yield from self._made(source, kind="large pod", name=f"o{number}", spec=spec, resources={})

    def with_share(self, source: random.Random, number: int) -> Iterator[Attack]:
        """Yield a pod of our scheduler that asks for a share; half of them fit no node."""
        spec: Json = {"schedulerName": names.SCHEDULER_NAME}
        spec |= {"nodeSelector": _NOWHERE} if source.random() < 0.5 else {}
        limits = {names.GPU_SHARE: str(source.randint(1, 100))}
        resources = {"limits": limits}
        yield from self._made(source, kind="large pod with a share", name=f"s{number}", spec=spec, resources=resources)

    def _made(self, source: random.Random, *, kind: str, name: str, spec: Json, resources: Json) -> Iterator[Attack]:
        size = source.choice(SIZES)
        while self._there and self._bytes + size > MOST_BYTES:
            yield self._deleted()
        self._there.append((name, size))
        self._bytes += size
        container: Json = {"name": "main", "image": "x", "args": [source.choice(LETTERS) * size]}
        container |= {"resources": resources, "securityContext": rootless.PROVEN}
        pod = requests.made("Pod", name, {**spec, "containers": [container]})
        # Our operator watches the pods that have this label.
        pod["metadata"]["labels"] = {names.DLJOB_LABEL: "x"} if source.random() < 0.5 else {}
        yield Attack(kind, "POST", requests.path("pods", self._namespace), pod)

    def _deleted(self) -> Attack:
        name, size = self._there.popleft()
        self._bytes -= size
        return Attack("large pod deleted", "DELETE", requests.path("pods", self._namespace, name=name), None)
