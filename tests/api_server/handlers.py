"""Requests by method and path, as a Kubernetes API server answers them, at once and without I/O."""

import functools
import itertools
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import orjson

from api_server import answers, patches, pods, store
from cotenant_extender.kube import transport

Object = dict[str, Any]

PATH = re.compile(
    r"(?P<prefix>/api/v1|/apis/[^/]+/[^/]+)(?:/namespaces/(?P<namespace>[^/]+))?"
    r"/(?P<plural>[a-z]+)(?:/(?P<name>[^/]+))?(?:/(?P<subresource>[a-z]+))?$"
)


class Target:
    """What a path names.

    Attributes:
        collection: the path of all objects of the kind, whatever their namespace.
        name: empty where all of them are meant.
    """

    def __init__(self, path: str) -> None:
        url = urlsplit(path)
        found = PATH.fullmatch(url.path)
        if found is None:
            raise answers.RefusedError(404, f"the server could not find the requested resource {url.path}")
        self.collection = f"{found['prefix']}/{found['plural']}"
        self.namespace = unquote(found["namespace"] or "")
        self.name = unquote(found["name"] or "")
        self.subresource = found["subresource"] or ""
        self.query = {key: values[0] for key, values in parse_qs(url.query).items()}

    @property
    def key(self) -> store.Key:
        """Of the one object."""
        return self.namespace, self.name


@functools.lru_cache(maxsize=4096)
def named(path: str) -> Target:
    """What a path names; most are asked for again and again."""
    return Target(path)


class Handlers:
    """Answers requests over a store.

    Args:
        clock: seconds since the epoch.
    """

    def __init__(self, objects: store.Store, clock: Callable[[], float]) -> None:
        self._store, self.clock = objects, clock
        self.pods = pods.Pods(objects, clock)
        self._numbers = itertools.count(1)

    def answer(self, request: transport.Request) -> transport.Answer:
        """Carry out a request."""
        try:
            target = named(request.path)
            body: Object = orjson.loads(request.body) if request.body else {}
            return self._routed(request, target, body)
        except answers.RefusedError as refused:
            return refused.answer

    def _routed(self, request: transport.Request, target: Target, body: Object) -> transport.Answer:
        match request.method:
            case "GET":
                return self._get(target)
            case "POST":
                return self._post(target, body)
            case "PUT":
                return self._put(target, body)
            case "PATCH":
                return self._patch(target, body, request.content_type)
            case "DELETE":
                return self._delete(target, body)
        raise answers.RefusedError(405, "the server does not allow this method on the requested resource")

    def _get(self, target: Target) -> transport.Answer:
        if target.name:
            return answers.ok(self._shown(target, self._store.find(target.collection, target.key)))
        if target.query.get("resourceVersionMatch") == "Exact":
            return answers.ok(self._as_of(target))
        limit, token = int(target.query.get("limit", 0)), target.query.get("continue", "")
        found = self._store.page(target.collection, target.namespace, limit=limit, token=token)
        return answers.ok({**found, "items": [self._shown(target, item) for item in found["items"]]})

    def _shown(self, target: Target, value: Object) -> Object:
        return self.pods.shown(value) if target.collection == pods.BUDGETS else value

    def _as_of(self, target: Target) -> Object:
        """The list of one object, by its name, as of a version."""
        version, selector = target.query["resourceVersion"], target.query["fieldSelector"]
        key = target.namespace, selector.removeprefix("metadata.name=")
        found = self._store.as_of(target.collection, key, int(version))
        items = [] if found is None else [found]
        return {"kind": "List", "metadata": {"resourceVersion": version}, "items": items}

    def _post(self, target: Target, body: Object) -> transport.Answer:
        match target.collection, target.subresource:
            case pods.PODS, "binding":
                self.pods.bind(target.key, body)
                return answers.success()
            case pods.PODS, "eviction":
                self.pods.evict(target.key, body)
                return answers.success()
            case _, "":
                return answers.ok(self._store.create(target.collection, self._born(target, body)), 201)
        raise answers.RefusedError(405, "the server does not allow this method on the requested resource")

    def _born(self, target: Target, body: Object) -> Object:
        metadata = dict(body["metadata"])
        number = next(self._numbers)
        if target.namespace:
            metadata.setdefault("namespace", target.namespace)
        if "name" not in metadata:
            metadata["name"] = f"{metadata['generateName']}{number:05x}"
        metadata.setdefault("uid", f"uid-{number}-{metadata['name']}")
        metadata.setdefault("creationTimestamp", pods.timestamp(self.clock()))
        return {**body, "metadata": metadata}

    def _put(self, target: Target, body: Object) -> transport.Answer:
        old = self._store.find(target.collection, target.key)
        pods.check_preconditions(old, body["metadata"])
        return answers.ok(self._updated(target, old, body))

    def _patch(self, target: Target, body: Object, content_type: str) -> transport.Answer:
        old = self._store.find(target.collection, target.key)
        pods.check_preconditions(old, body.get("metadata") or {})
        apply = patches.strategic if content_type == transport.STRATEGIC_MERGE_PATCH else patches.merged
        kept = {key: value for key, value in (body.get("metadata") or {}).items() if key != "resourceVersion"}
        change = {**body, "metadata": kept} if kept else {k: v for k, v in body.items() if k != "metadata"}
        return answers.ok(self._updated(target, old, apply(old, change)))

    def _updated(self, target: Target, old: Object, new: Object) -> Object:
        if target.subresource == "status":
            return self._store.update(target.collection, {**old, "status": new.get("status") or {}})
        if target.collection == pods.PODS:
            return self.pods.update(old, new)
        return self._store.update(target.collection, new)

    def _delete(self, target: Target, body: Object) -> transport.Answer:
        if target.collection == pods.PODS:
            self.pods.delete(target.key, body)
        else:
            pods.check_preconditions(self._store.find(target.collection, target.key), body.get("preconditions") or {})
            self._store.delete(target.collection, target.key)
        return answers.success()
