"""What the API server's answers become, against a server on loopback."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from cotenant_api import errors, lines
from cotenant_deviceplugin.kube import access, client, cluster

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]
Connect = Callable[[Answer], Awaitable[client.KubernetesCluster]]
PODS = cluster.Selection("/api/v1/pods", "spec.nodeName=n1")


def write_kubeconfig(path: Path, *, url: str, token: str) -> None:
    path.write_text(
        json.dumps(
            {
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": {"server": url}}],
                "users": [{"name": "u", "user": {"token": token}}],
            }
        )
    )


def client_of(path: Path) -> client.KubernetesCluster:
    return client.KubernetesCluster(lambda: access.from_kubeconfig(path))


@pytest.fixture
async def connect(tmp_path: Path) -> AsyncIterator[Connect]:
    """A client of a server that answers everything with one function."""
    servers: list[TestServer] = []
    clients: list[client.KubernetesCluster] = []

    async def make(answer: Answer) -> client.KubernetesCluster:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", answer)
        servers.append(TestServer(app))
        await servers[-1].start_server()
        write_kubeconfig(tmp_path / "n1.conf", url=str(servers[-1].make_url("/")), token="old")
        clients.append(client_of(tmp_path / "n1.conf"))
        return clients[-1]

    yield make
    for each in clients:
        await each.close()
    for server in servers:
        await server.close()


def answering(status: int, body: object, **headers: str) -> Answer:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.json_response(body, status=status, headers=headers)

    return answer


def streaming(*events: object) -> Answer:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for event in events:
            await response.write(event if isinstance(event, bytes) else json.dumps(event).encode() + b"\n")
        return response

    return answer


def listing(count: int, *, size: int) -> Answer:
    """So many objects of so many bytes, by the page; of the metadata alone where that is asked for."""

    async def answer(request: web.Request) -> web.StreamResponse:
        begin = int(request.query.get("continue") or 0)
        end = min(begin + int(request.query["limit"]), count)
        brief = "PartialObjectMetadataList" in request.headers["Accept"]
        items = [{"metadata": {"name": str(at)}} | ({} if brief else {"a": "x" * size}) for at in range(begin, end)]
        more = {"continue": str(end)} if end < count else {}
        return web.json_response({"metadata": {"resourceVersion": "7"} | more, "items": items})

    return answer


@pytest.mark.parametrize(
    ("count", "size"),
    [(0, 0), (3, 10), (2 * client.PAGE + 1, 10), (3, 2 * client.PAGE_BYTES), (20, client.PAGE_BYTES // 3)],
)
async def test_all_objects_are_listed_however_large_they_are_together(connect: Connect, count: int, size: int) -> None:
    listed = await (await connect(listing(count, size=size))).list(PODS)
    assert [item["metadata"]["name"] for item in listed["items"]] == [str(at) for at in range(count)]
    assert listed["metadata"]["resourceVersion"] == "7"


async def test_an_object_that_is_too_large_hides_no_other(connect: Connect, caplog: pytest.LogCaptureFixture) -> None:
    api = await connect(listing(2, size=client.ANSWER_BYTES))
    assert (await api.list(PODS))["items"] == []
    assert "/0 has more bytes than are read at once" in caplog.text


async def test_of_a_list_only_what_is_of_use_is_kept(connect: Connect) -> None:
    wanted = cluster.Selection(PODS.path, PODS.field_selector, is_of_use=lambda item: item["metadata"]["name"] != "1")
    listed = await (await connect(listing(3, size=1))).list(wanted)
    assert [item["metadata"]["name"] for item in listed["items"]] == ["0", "2"]


async def test_a_list_that_ends_between_two_pages_is_read_again(connect: Connect) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        if "continue" in request.query:
            return web.json_response({"message": "too old"}, status=410)
        return web.json_response({"metadata": {"resourceVersion": "7", "continue": "x"}, "items": []})

    with pytest.raises(errors.TemporaryError, match="too old"):
        await (await connect(answer)).list(PODS)


async def watched(api: client.KubernetesCluster) -> list[cluster.Event]:
    return [event async for event in api.watch(PODS, resource_version="7")]


async def test_apply_names_its_field_manager_and_forces(connect: Connect) -> None:
    seen: list[tuple[str, str, str]] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        seen.append((request.method, request.path_qs, request.headers["Content-Type"]))
        return web.json_response(await request.json())

    api = await connect(answer)
    assert await api.apply("/apis/g/v1/things/a", {"kind": "Thing"}) == {"kind": "Thing"}
    assert seen == [
        ("PATCH", "/apis/g/v1/things/a?fieldManager=cotenant-node-agent&force=true", "application/apply-patch+yaml")
    ]


@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [
        (403, "Forbidden", cluster.RefusedError),
        (404, "NotFound", cluster.NotFoundError),
        (409, "AlreadyExists", cluster.AlreadyExistsError),
        (409, "Conflict", errors.TemporaryError),
        (410, "Expired", cluster.ExpiredError),
        (422, "Invalid", cluster.RefusedError),
        (429, "TooManyRequests", errors.TemporaryError),
        (500, "InternalError", errors.TemporaryError),
    ],
)
async def test_every_refusal_becomes_its_error(
    connect: Connect, status: int, reason: str, expected: type[errors.CotenantError]
) -> None:
    api = await connect(answering(status, {"reason": reason, "message": "the words"}))
    with pytest.raises(expected, match=rf"GET /api/v1/nodes/n1: {status} 'the words'"):
        await api.get("/api/v1/nodes/n1")


async def test_the_delay_that_the_api_server_asks_for_is_kept(connect: Connect) -> None:
    api = await connect(answering(429, {}, **{"Retry-After": "7"}))
    with pytest.raises(errors.TemporaryError) as caught:
        await api.get("/x")
    assert caught.value.delay_seconds == 7


async def test_a_renewed_kubeconfig_is_read_after_a_refused_token(connect: Connect, tmp_path: Path) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        known = request.headers["Authorization"] == "Bearer new"
        return web.json_response({"known": known}, status=200 if known else 401)

    api = await connect(answer)
    with pytest.raises(errors.TemporaryError, match="401"):
        await api.get("/x")
    path = tmp_path / "n1.conf"
    path.write_text(path.read_text().replace('"old"', '"new"'))
    assert await api.get("/x") == {"known": True}


async def test_a_server_that_is_not_there_is_temporary(tmp_path: Path) -> None:
    write_kubeconfig(tmp_path / "n1.conf", url="http://127.0.0.1:1", token="t")
    api = client_of(tmp_path / "n1.conf")
    with pytest.raises(errors.TemporaryError, match="cannot be reached"):
        await api.get("/x")
    await api.close()


async def test_an_answer_that_is_no_json_is_temporary(connect: Connect) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(text="<html>")

    api = await connect(answer)
    with pytest.raises(errors.TemporaryError, match="no JSON"):
        await api.get("/x")


async def test_a_kubeconfig_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "n1.conf"
    path.write_text("{}")
    with pytest.raises(errors.InvalidInputError, match=r"kubeconfig: .*n1.conf.*must be a kubeconfig"):
        await client_of(path).get("/x")


async def test_a_watch_opens_and_gives_events(connect: Connect) -> None:
    pod = {"metadata": {"name": "p", "resourceVersion": "8"}}
    api = await connect(streaming({"type": "ADDED", "object": pod}))
    assert await watched(api) == [(cluster.OPENED, {}), ("ADDED", pod)]


async def test_a_watch_that_is_too_old_says_so(connect: Connect) -> None:
    api = await connect(streaming({"type": "ERROR", "object": {"code": 410, "message": "too old"}}))
    with pytest.raises(cluster.ExpiredError, match="too old"):
        await watched(api)


async def test_any_other_end_of_a_watch_is_temporary(connect: Connect) -> None:
    api = await connect(streaming({"type": "ERROR", "object": {"code": 500, "message": "storage"}}))
    with pytest.raises(errors.TemporaryError, match="storage"):
        await watched(api)


async def test_a_watch_that_breaks_in_a_line_is_temporary(connect: Connect) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"type":"ADD')
        return response

    api = await connect(answer)
    with pytest.raises(errors.TemporaryError, match="no JSON"):
        await watched(api)


async def test_a_redirect_is_not_followed(connect: Connect) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        raise web.HTTPFound("/elsewhere")

    api = await connect(answer)
    with pytest.raises(errors.TemporaryError, match="302 'Found'"):
        await api.get("/x")


async def test_an_event_of_a_large_object_is_read(connect: Connect) -> None:
    """As large as etcd takes it, of characters that the API server writes as six bytes each."""
    text = json.dumps({"metadata": {"name": "p", "resourceVersion": "8"}, "spec": {"a": "<" * 1_500_000}})
    written = '{"type": "ADDED", "object": ' + text.replace("<", "\\u003c") + "}\n"
    api = await connect(streaming(written.encode()))
    assert (await watched(api))[1:] == [("ADDED", json.loads(text))]


async def test_an_event_that_is_too_long_hides_none_behind_it(connect: Connect) -> None:
    pod = {"metadata": {"name": "p", "resourceVersion": "8"}}
    long = {"type": "ADDED", "object": {"a": "x" * (lines.LONGEST + 1)}}
    api = await connect(streaming(long, {"type": "ADDED", "object": pod}))
    assert (await watched(api))[1:] == [("ADDED", pod)]


DEEP = '{"f:a":' * 5000 + "1" + "}" * 5000
"""Anybody may write 10,000 levels into an object's managed fields."""


async def test_an_object_that_is_nested_too_deep_is_read_without_that(connect: Connect) -> None:
    deep = f'{{"metadata": {{"name": "p", "resourceVersion": "8", "managedFields": [{{"fieldsV1": {DEEP}}}]}}}}'
    api = await connect(streaming(f'{{"type": "ADDED", "object": {deep}}}\n'.encode()))
    ((_, _), (kind, found)) = await watched(api)
    assert (kind, found["metadata"]["name"]) == ("ADDED", "p")

    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.Response(text=f'{{"metadata": {{"resourceVersion": "7"}}, "items": [{deep}]}}')

    listed = await (await connect(answer)).list(PODS)
    assert [item["metadata"]["name"] for item in listed["items"]] == ["p"]


async def test_a_token_file_is_read_for_each_request(connect: Connect, tmp_path: Path) -> None:
    seen: list[str] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        seen.append(request.headers["Authorization"])
        return web.json_response({})

    await connect(answer)
    path = tmp_path / "n1.conf"
    path.write_text(path.read_text().replace('"token": "old"', '"tokenFile": "token"'))
    api = client_of(path)
    for token in ("first\n", "second\n"):
        (tmp_path / "token").write_text(token)
        await api.get("/x")
    (tmp_path / "token").unlink()
    with pytest.raises(errors.TemporaryError, match="token"):
        await api.get("/x")
    await api.close()
    assert seen == ["Bearer first", "Bearer second"]
