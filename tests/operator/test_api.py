"""Requests and refusals at the boundary to the API server."""

import weakref
from collections.abc import Sequence
from typing import Any

import pytest

from cotenant_api import errors
from cotenant_operator.kube import api
from cotenant_operator.loop import executor
from cotenant_operator.plans import actions
from cotenant_operator.state.kinds import Kind
from cotenant_operator.state.views import Key
from operator_kit import objects
from operator_kit.cluster import Cluster
from operator_kit.server import START

Json = dict[str, Any]

TRAIN = Key("team", "train")


class Answers:
    """Answers in order, and the requests that they were given to."""

    def __init__(self, answers: Sequence[tuple[int, Any]]) -> None:
        self.answers = list(answers)
        self.requests: list[api.Request] = []

    async def __call__(self, request: api.Request) -> tuple[int, Any]:
        """The next answer."""
        self.requests.append(request)
        return self.answers.pop(0)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, api.InvalidError),
        (403, api.ForbiddenError),
        (404, api.NotFoundError),
        (409, api.ConflictError),
        (422, api.InvalidError),
        (401, errors.TemporaryError),
        (410, errors.TemporaryError),
        (429, errors.TemporaryError),
        (500, errors.TemporaryError),
        (504, errors.TemporaryError),
    ],
)
async def test_each_refusal_has_its_error(status: int, error: type[errors.CotenantError]) -> None:
    with pytest.raises(error, match="why"):
        await api.API(Answers([(status, {"message": "why"})])).get(Kind.DLJOB, TRAIN)


@pytest.mark.parametrize("body", ["x" * 9000, {"message": "x" * 9000}])
async def test_foreign_text_is_cut(body: Any) -> None:
    with pytest.raises(api.InvalidError) as raised:
        await api.API(Answers([(422, body)])).get(Kind.DLJOB, TRAIN)
    assert len(str(raised.value)) == api.MAX_MESSAGE


async def test_lists_are_read_page_by_page() -> None:
    first = {"items": [{"n": 1}], "metadata": {"continue": "token"}}
    answers = Answers([(200, first), (200, {"items": [{"n": 2}], "metadata": {}})])
    pages = [page async for page in api.API(answers).pages(Kind.POD)]
    assert pages == [[{"n": 1}], [{"n": 2}]]
    assert "continue" not in answers.requests[0].query
    assert answers.requests[1].query["continue"] == "token"
    assert {request.query["labelSelector"] for request in answers.requests} == {"cotenant.dev/dljob"}


@pytest.mark.parametrize(
    ("kind", "key", "path"),
    [
        (Kind.DLJOB, TRAIN, "/apis/cotenant.dev/v1alpha1/namespaces/team/dljobs/train"),
        (Kind.GPU_NODE, Key("", "n1"), "/apis/cotenant.dev/v1alpha1/gpunodes/n1"),
        (Kind.POD, Key("", ""), "/api/v1/pods"),
        (Kind.JOB, Key("team", ""), "/apis/batch/v1/namespaces/team/jobs"),
    ],
)
def test_paths_are_those_of_the_api_server(kind: Kind, key: Key, path: str) -> None:
    assert api.path_of(kind, key) == path


async def test_apply_names_uid_and_version_and_changes_no_manifest() -> None:
    answers = Answers([(200, {})])
    manifest = {"metadata": {"namespace": "team", "name": "serve"}}
    await api.API(answers).apply(Kind.DEPLOYMENT, manifest, uid="u1", version=7)
    (request,) = answers.requests
    expected = {"fieldManager": "cotenant-operator", "fieldValidation": "Strict", "force": "true"}
    assert request.query == expected
    assert (request.body or {})["metadata"] == {**manifest["metadata"], "uid": "u1", "resourceVersion": "7"}
    assert manifest == {"metadata": {"namespace": "team", "name": "serve"}}


@pytest.mark.parametrize("status", [404, 409])
async def test_deleting_what_is_gone_is_done(status: int) -> None:
    answers = Answers([(status, {})])
    await api.API(answers).delete(Kind.DLJOB, TRAIN, uid="u1")
    assert (answers.requests[0].body or {})["preconditions"] == {"uid": "u1"}


def told(message: str = "m", identity: str = "i") -> actions.EmitEvent:
    return actions.EmitEvent(uid="u1", type="Normal", reason="Created", message=message, identity=identity)


async def test_event_told_twice_is_one_event(cluster: Cluster) -> None:
    work = executor.Executor(cluster.client, cluster.store, now=cluster.time.now, tell=cluster.work.enqueue)
    for message in (told(), told(), told(identity="other")):
        await work.emit(TRAIN, message)
    assert cluster.events() == ["Created", "Created"]


def test_event_is_about_the_dljob_and_bounded() -> None:
    event = executor.event(TRAIN, told("x" * 5000), START)
    assert event["involvedObject"]["uid"] == "u1"
    assert event["metadata"]["namespace"] == "team"
    assert event["firstTimestamp"] == "2026-01-01T00:00:00Z"
    assert len(event["message"]) == 1024


async def test_status_of_a_changed_dljob_is_not_overwritten(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.deliver()
    job = cluster.store.dljob(TRAIN)
    assert job is not None
    cluster.server.change("dljobs", "train", lambda value: value.update(spec={**value["spec"], "suspend": True}))
    work = executor.Executor(cluster.client, cluster.store, now=cluster.time.now, tell=cluster.work.enqueue)
    action = actions.PatchStatus(uid=job.meta.uid, version=job.meta.version, status={"attempts": 9}, urgent=True)
    with pytest.raises(api.ConflictError):
        await work.execute(TRAIN, action)


async def test_conflict_is_tried_again_on_fresh_state(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.deliver()
    cluster.server.change("dljobs", "train", lambda value: value.update(spec={**value["spec"], "gpuMemory": "1Gi"}))
    await cluster.work_without_events()
    await cluster.advance(5)
    assert cluster.dljob()["status"]["observedGeneration"] == 2


async def test_dljob_deleted_meanwhile_ends_the_work(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.deliver()
    cluster.server.delete("dljobs", "train")
    await cluster.step()
    await cluster.settle()
    assert cluster.work.queued == 0


@pytest.mark.parametrize(
    ("metadata", "count"),
    [({}, 1), ({"continue": "x", "remainingItemCount": 9}, 10), ({"continue": "x"}, None)],
)
async def test_objects_are_counted_by_a_listing_of_one(metadata: Json, count: int | None) -> None:
    send = Answers([(200, {"metadata": metadata, "items": [{}]})])
    assert await api.API(send).count(Kind.DLJOB) == count
    assert send.requests[0].query == {"limit": "1"}


async def test_what_is_chosen_by_a_label_is_not_counted() -> None:
    send = Answers([])
    assert await api.API(send).count(Kind.POD) is None
    assert send.requests == []


async def test_page_that_is_too_large_is_asked_for_again_in_parts() -> None:
    asked: list[int] = []

    async def send(request: api.Request) -> tuple[int, Any]:
        limit = int(request.query["limit"])
        asked.append(limit)
        if limit > 100:
            raise api.TooLargeError("more than there is room for")
        return 200, {"items": [{}] * limit, "metadata": {"continue": "" if len(asked) > 3 else "more"}}

    pages = [len(page) async for page in api.API(send).pages(Kind.DLJOB)]
    assert asked == [500, 62, 78, 98]
    assert pages == [62, 78, 98]


async def test_object_that_is_too_large_is_named_and_those_beside_it_are_read(caplog: pytest.LogCaptureFixture) -> None:
    items = [{"metadata": {"namespace": "evil", "name": f"j{number}"}} for number in range(20)]

    async def send(request: api.Request) -> tuple[int, Any]:
        begin = int(request.query.get("continue", 0))
        end = min(begin + int(request.query["limit"]), len(items))
        if begin <= 13 < end and not request.metadata_only:
            raise api.TooLargeError("more than there is room for")
        return 200, {"items": items[begin:end], "metadata": {"continue": str(end) if end < len(items) else ""}}

    found = [item["metadata"]["name"] async for page in api.API(send).pages(Kind.JOB) for item in page]
    assert found == [f"j{number}" for number in range(20) if number != 13]
    assert "evil/j13: has more bytes than are read at once" in caplog.text


async def test_page_is_gone_when_the_next_one_is_asked_for() -> None:
    class Item(dict[str, Any]):
        """An item that can be watched."""

    alive: list[weakref.ref[Item]] = []

    async def send(request: api.Request) -> tuple[int, Any]:
        assert not any(ref() for ref in alive), request
        item = Item(metadata={})
        alive.append(weakref.ref(item))
        return 200, {"items": [item], "metadata": {"continue": "" if len(alive) > 2 else "more"}}

    async for page in api.API(send).pages(Kind.JOB):
        page.clear()
    assert len(alive) == 3


async def test_what_may_be_discarded_is_read_page_by_page_and_of_the_dljob_alone(cluster: Cluster) -> None:
    """A tenant may give as many objects as he likes the labels of an extraction."""
    asked: list[api.Request] = []

    async def send(request: api.Request) -> tuple[int, Any]:
        asked.append(request)
        number = len(asked)
        if request.method == "DELETE":
            return 200, {}
        owners = [{"uid": "u1" if number == 2 else "another", "controller": True}]
        metadata = {"namespace": "team", "name": f"c{number}", "uid": f"c{number}", "ownerReferences": owners}
        item = {"metadata": {**metadata, "creationTimestamp": "2026-01-01T00:00:00Z"}}
        return 200, {"items": [item], "metadata": {"continue": "" if number == 3 else "more"}}

    work = executor.Executor(api.API(send), cluster.store, now=cluster.time.now, tell=cluster.work.enqueue)
    await work.execute(TRAIN, actions.Discard(kind=Kind.CONFIG_MAP, selector="a=b", owner_uid="u1", renew=None))
    *listed, deleted = asked
    assert [(one.query["limit"], one.query["labelSelector"], one.metadata_only) for one in listed] == [
        (str(api.PAGE), "a=b", True)
    ] * 3
    assert (deleted.method, deleted.path) == ("DELETE", "/api/v1/namespaces/team/configmaps/c2")
