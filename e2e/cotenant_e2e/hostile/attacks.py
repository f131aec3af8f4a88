"""What a tenant with the role `edit` sends who wants to end our programs, or to keep them busy. Pure.

Each attack is one request: method, path and body. They are endless and the same for the same seed; what is refused
is part of it. Sizes are below what the API server itself takes: 3 MiB a request, 256 KiB of annotations, 1 MiB a
ConfigMap.
"""

import base64
import gzip
import itertools
import json
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from cotenant_api import names, rootless
from cotenant_e2e import client as clients
from cotenant_e2e.client import Json
from cotenant_e2e.hostile import large_pods, requests
from cotenant_e2e.hostile.requests import Attack

DLJOBS: Final = 10_000
DEPTH: Final = 2_000
"""Of the deepest document."""
_CONTAINER: Final = {"name": "main", "image": "x", "securityContext": rootless.PROVEN}
_OPERATOR: Final = {"class": "conv", "name": "a", "phase": "Forward"}
_HEAD: Final = {"v": 1, "name": "x", "mode": "Training", "batchSize": 2, "parameters": 5, "parameterBytes": 20}


Maker = Callable[[random.Random, int], Iterator[Attack]]


def endless(namespace: str, *, seed: int) -> Iterator[Attack]:
    """Return attacks without end: graphs first, then one of every kind after the other, in an order of its own."""
    source = random.Random(seed)  # noqa: S311 - not for secrets
    makers = _makers(namespace)
    for name, content in GRAPHS.items():
        data = {"graph.json.gz": base64.b64encode(content).decode()}
        yield Attack(
            "ConfigMap",
            "POST",
            requests.path("configmaps", namespace),
            {"metadata": {"name": name}, "binaryData": data},
        )
    numbers = {kind: itertools.count() for kind in makers}
    while True:
        (kind,) = source.choices(list(makers), weights=_WEIGHTS)
        yield from makers[kind](source, next(numbers[kind]))


def packed(content: bytes) -> bytes:
    """Gzipped."""
    return gzip.compress(content, mtime=0)


def document(operators: list[Json], **more: Any) -> bytes:
    """Return a graph document, gzipped."""
    return packed(json.dumps({**_HEAD, "operators": operators, **more}).encode())


GRAPHS: Final[Mapping[str, bytes]] = {
    "blanks": packed(b" " * (64 << 20)),
    "lists": packed(b"[" + b"[]," * (1 << 20) + b"[]]"),
    "deep": packed(b'{"a":' * 200_000 + b"1" + b"}" * 200_000),
    "wrong": document([{"class": "q"}] * 9_000),
    "heavy": document([{**_OPERATOR, "flops": index, "dims": {"m": index}} for index in range(10_000)]),
    "plain": document([{**_OPERATOR, "flops": 1_000_000_000}]),
}


def _makers(namespace: str) -> Mapping[str, Maker]:
    def dljob(source: random.Random, number: int) -> Iterator[Attack]:
        """One of 10,000, with a graph that is a bomb or heavy; then another takes its place."""
        name = f"j{number % DLJOBS}"
        if number >= DLJOBS:
            yield Attack("DLJob deleted", "DELETE", _dljob(namespace, name), None)
        spec = {"template": {"spec": {"containers": [_CONTAINER]}}, "suspend": source.random() < 0.3}
        spec |= {"model": {"configMapRef": {"name": source.choice(list(GRAPHS))}}}
        yield Attack("DLJob", "POST", _dljob(namespace), requests.made("DLJob", name, spec, api=names.API_VERSION))

    def large(source: random.Random, number: int) -> Iterator[Attack]:
        container = {**_CONTAINER, "args": ["a" * source.choice((100_000, 120_000, 900_000))]}
        spec = {"template": {"spec": {"containers": [container]}}}
        yield Attack(
            "large DLJob", "POST", _dljob(namespace), requests.made("DLJob", f"l{number}", spec, api=names.API_VERSION)
        )

    def deep(source: random.Random, number: int) -> Iterator[Attack]:
        features: Any = 1
        for _ in range(source.choice((50, 985, DEPTH))):
            features = {"a": features}
        spec = {"template": {"spec": {"containers": [_CONTAINER]}}, "model": {"features": features}}
        yield Attack(
            "deep DLJob", "POST", _dljob(namespace), requests.made("DLJob", f"d{number}", spec, api=names.API_VERSION)
        )

    def annotated(source: random.Random, number: int) -> Iterator[Attack]:
        # The last is what admission lets in.
        count, size = source.choice(((20_000, 0), (1_000, 0), (10, 20_000), (8, 6_000)))
        notes = {f"a{index}": "b" * size for index in range(count)}
        limits = {names.GPU_SHARE: str(source.randint(1, 100))}
        pod = requests.made("Pod", f"p{number}", {"containers": [{**_CONTAINER, "resources": {"limits": limits}}]})
        pod["metadata"]["annotations"] = notes
        yield Attack("annotated pod", "POST", requests.path("pods", namespace), pod)

    def job(source: random.Random, number: int) -> Iterator[Attack]:
        """Yield what looks like a DLJob's, and is large."""
        terms = [{"topologyKey": "t" * 60, "labelSelector": {"matchLabels": {f"k{i}": "v" * 60}}} for i in range(3_000)]
        affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        template = {"spec": {"containers": [_CONTAINER], "restartPolicy": "Never", "affinity": affinity}}
        spec = {"template": template, "suspend": True, "completions": 2, "parallelism": 2}
        made = requests.made("Job", f"b{number}", spec, api="batch/v1")
        made["metadata"]["labels"] = {names.DLJOB_LABEL: f"j{source.randrange(DLJOBS)}"}
        odd = source.choice(('{"v":1,"count":1e999}', "[" * 2_000, "9" * 5_000))
        made["metadata"]["annotations"] = {"cotenant.dev/quota-setback": odd, "cotenant.dev/graph": odd}
        yield Attack("forged Job", "POST", requests.path("jobs", namespace, group="batch"), made)

    def event(source: random.Random, number: int) -> Iterator[Attack]:
        about = {"kind": "DLJob", "namespace": namespace, "name": f"j{source.randrange(DLJOBS)}"}
        made = {"metadata": {"name": f"e{number}"}, "involvedObject": about, "reason": "Placed", "message": "x" * 1_000}
        yield Attack("event", "POST", requests.path("events", namespace), made)

    pods = large_pods.Pods(namespace)
    return {
        "dljob": dljob,
        "large": large,
        "deep": deep,
        "annotated": annotated,
        "job": job,
        "event": event,
        "pod": pods.without_share,
        "share": pods.with_share,
    }


_WEIGHTS: Final = (69, 4, 1, 4, 2, 9, 8, 3)


def _dljob(namespace: str, name: str = "") -> str:
    return clients.path_of("dljobs", group=names.GROUP, version=names.VERSION, namespace=namespace, name=name)
