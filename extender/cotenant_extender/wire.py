"""The scheduler-extender protocol, version 1, decoded from bytes and encoded to bytes. Pure.

kube-scheduler's types have no JSON tags: keys are PascalCase, in both directions. Nested Kubernetes objects are as
always. Whatever is not of this shape becomes a `MalformedError` that says what and where; nothing else is raised.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import orjson

from cotenant_api import errors
from cotenant_api.names import Namespace, NodeName, PodUID
from cotenant_extender import records

MAX_BODY_BYTES = 8 * 1024 * 1024
_MAX_NAME = 253


class MalformedError(errors.InvalidInputError):
    """A request body that is not of the protocol's shape."""


class OversizedError(errors.InvalidInputError):
    """A request body that is larger than any that kube-scheduler sends with `nodeCacheCapable: true`."""

    def __init__(self) -> None:
        remedy = f"must be at most {MAX_BODY_BYTES} bytes: set nodeCacheCapable: true in the extender's configuration"
        super().__init__("body", "larger than the limit", remedy)


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    """ExtenderArgs: the pod and the candidate nodes.

    Attributes:
        names: names of the candidates, as they were given.
        nodes: the whole Nodes, where they were sent instead of names.
    """

    pod: records.Pod
    names: tuple[NodeName, ...]
    nodes: tuple[Mapping[str, Any], ...] | None


Known = Callable[[PodUID], records.Pod | None]
"""What is known of a pod; None: nothing."""


def _nobody(_: PodUID) -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingArgs:
    """ExtenderBindingArgs: which pod goes to which node."""

    name: str
    namespace: Namespace
    uid: PodUID
    node: NodeName


def decode_args(body: bytes, known: Known = _nobody) -> Args:
    """Read the body of filter and prioritize. Of a pod that is known nothing but its UID is read.

    Raises:
        MalformedError: it is of another shape.
    """
    value = _object(_decoded(body), "body")
    raw = _object(value.get("Pod"), "Pod")
    record = known(PodUID(_uid(raw))) or _pod(raw)
    names, nodes = value.get("NodeNames"), value.get("Nodes")
    if names is not None:
        return Args(pod=record, names=_node_names(names), nodes=None)
    if nodes is None:
        return Args(pod=record, names=(), nodes=None)
    items = tuple(_object(item, "Nodes.items[]") for item in _list(_object(nodes, "Nodes").get("items"), "Nodes.items"))
    given = tuple(
        NodeName(_name(_object(item.get("metadata"), "Nodes.items[].metadata").get("name"), "Nodes.items[].name"))
        for item in items
    )
    return Args(pod=record, names=given, nodes=items)


def decode_binding(body: bytes) -> BindingArgs:
    """Read the body of bind.

    Raises:
        MalformedError: it is of another shape.
    """
    value = _object(_decoded(body), "body")
    return BindingArgs(
        name=_name(value.get("PodName"), "PodName"),
        namespace=Namespace(_name(value.get("PodNamespace"), "PodNamespace")),
        uid=PodUID(_name(value.get("PodUID"), "PodUID")),
        node=NodeName(_name(value.get("Node"), "Node")),
    )


def filter_result(args: Args, kept: Iterable[NodeName], failed: Mapping[NodeName, str]) -> bytes:
    """ExtenderFilterResult in the form in which the nodes came."""
    keep = list(kept)
    nodes = None
    if args.nodes is not None:
        chosen = set(keep)
        nodes = {"items": [node for node, name in zip(args.nodes, args.names, strict=True) if name in chosen]}
    return orjson.dumps(
        {
            "Nodes": nodes,
            "NodeNames": keep if args.nodes is None else None,
            "FailedNodes": {},
            # kube-scheduler tells these only of a pod for which no node is left.
            "FailedAndUnresolvableNodes": {} if keep else failed,
            "Error": "",
        }
    )


def filter_error(message: str) -> bytes:
    """ExtenderFilterResult of a request that could not be answered."""
    return orjson.dumps(
        {
            "Nodes": None,
            "NodeNames": None,
            "FailedNodes": {},
            "FailedAndUnresolvableNodes": {},
            "Error": _printable(message),
        }
    )


def priorities(scores: Iterable[tuple[NodeName, int]]) -> bytes:
    """HostPriorityList: a bare array; kube-scheduler drops the whole list unless scores are JSON integers."""
    return orjson.dumps([{"Host": name, "Score": int(score)} for name, score in scores])


def binding_result(message: str) -> bytes:
    """ExtenderBindingResult; an empty message is success."""
    return orjson.dumps({"Error": _printable(message)})


def error(message: str) -> bytes:
    """Return what a refused request of another verb gets."""
    return orjson.dumps({"error": _printable(message)})


def _printable(message: str) -> str:
    """Without lone surrogates, which no UTF-8 body may hold."""
    return message.encode("utf-8", "replace").decode()


def _decoded(body: bytes) -> object:
    if len(body) > MAX_BODY_BYTES:
        raise OversizedError
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as failure:
        start = body[:64].decode("utf-8", "replace")
        raise MalformedError("body", start, f"must be JSON: {failure}") from failure


def _uid(raw: Mapping[str, Any]) -> str:
    return _name(_object(raw.get("metadata"), "Pod.metadata").get("uid"), "Pod.metadata.uid")


def _node_names(value: object) -> tuple[NodeName, ...]:
    """Thousands of them: looked at one by one only where one of them is wrong."""
    found = _list(value, "NodeNames")
    if not found:
        return ()
    if set(map(type, found)) == {str}:
        texts = cast("list[NodeName]", found)
        if all(texts) and max(map(len, texts)) <= _MAX_NAME:
            return tuple(texts)
    return tuple(NodeName(_name(name, "NodeNames[]")) for name in found)


def _pod(raw: Mapping[str, Any]) -> records.Pod:
    metadata = _object(raw.get("metadata"), "Pod.metadata")
    for field in ("name", "namespace"):
        _text(metadata.get(field, ""), f"Pod.metadata.{field}")
    for field in ("labels", "annotations"):
        for key, text in _object(metadata.get(field) or {}, f"Pod.metadata.{field}").items():
            _text(text, f"Pod.metadata.{field}[{key}]")
    try:
        return records.pod_record(raw)
    except errors.InvalidInputError as failure:
        raise MalformedError(f"Pod.{failure.field}", failure.value, failure.remedy) from failure
    except (AttributeError, KeyError, IndexError, TypeError, ValueError, ArithmeticError, RecursionError) as failure:
        # The API server has validated every pod that kube-scheduler knows: this one did not come from there.
        remedy = f"must be a Pod as the API server gives it ({type(failure).__name__}: {failure})"
        raise MalformedError("Pod", metadata.get("uid"), remedy) from failure


def _object(value: object, field: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise MalformedError(field, value, "must be a JSON object")
    return value


def _list(value: object, field: str) -> list[object]:
    if not isinstance(value, list):
        raise MalformedError(field, value, "must be a JSON array")
    return value


def _text(value: object, field: str) -> str:
    if not isinstance(value, str):
        raise MalformedError(field, value, "must be a string")
    return value


def _name(value: object, field: str) -> str:
    if not isinstance(value, str) or not value or len(value) > _MAX_NAME:
        raise MalformedError(field, value, f"must be a string of 1 to {_MAX_NAME} characters")
    return value
