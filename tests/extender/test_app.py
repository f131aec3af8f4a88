"""The HTTP service: what each verb answers to what it should and should not get."""

import json

import pytest

from cotenant_api.names import PodUID
from cotenant_extender import app, metrics, wire
from extender import asgi, builders


class _Service:
    """A service that serves or not, and answers by what it was asked."""

    def __init__(self, *, serves: bool = True, missing: tuple[str, ...] = ()) -> None:
        self._serves, self._missing = serves, list(missing)

    def missing(self) -> list[str]:
        return self._missing

    def serving(self) -> bool:
        return self._serves

    def standing(self) -> str:
        return "pods are not listed yet"

    def known(self, _uid: PodUID) -> None:
        return None

    async def filter(self, args: wire.Args) -> bytes:
        return wire.filter_result(args, args.names[:1], {})

    async def prioritize(self, args: wire.Args) -> bytes:
        return wire.priorities([(name, 1) for name in args.names])

    async def bind(self, args: wire.BindingArgs) -> bytes:
        return wire.binding_result("" if args.node else "no node")

    async def explain(self, pod: str | None) -> bytes | None:
        return b'{"jobs":[]}' if pod is None else None


async def call(
    service: _Service, method: str, path: str, *parts: bytes, length: str | None = None
) -> tuple[int, bytes]:
    """Status and body of one request over ASGI."""
    return await asgi.call(app.create(service, metrics.Metrics()), method, path, *parts, length=length)


ARGS = json.dumps({"Pod": builders.pod("a"), "NodeNames": ["n0", "n1"]}).encode()
BINDING = b'{"PodName":"a","PodNamespace":"team","PodUID":"u","Node":"n0"}'


async def test_the_verbs_answer() -> None:
    status, body = await call(_Service(), "POST", "/scheduler/filter", ARGS)
    assert (status, json.loads(body)["NodeNames"]) == (200, ["n0"])
    assert await call(_Service(), "POST", "/scheduler/prioritize", ARGS) == (
        200,
        b'[{"Host":"n0","Score":1},{"Host":"n1","Score":1}]',
    )
    assert await call(_Service(), "POST", "/scheduler/bind", BINDING) == (200, b'{"Error":""}')


async def test_a_body_in_parts_is_put_together() -> None:
    status, _ = await call(_Service(), "POST", "/scheduler/filter", ARGS[:10], ARGS[10:])
    assert status == 200


@pytest.mark.parametrize("verb", ["filter", "bind"])
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"Pod":5}', b"\xff"])
async def test_a_malformed_body_is_an_error_of_the_protocol(verb: str, body: bytes) -> None:
    status, answer = await call(_Service(), "POST", f"/scheduler/{verb}", body)
    assert status == 200
    assert json.loads(answer)["Error"]


async def test_a_malformed_body_of_prioritize_is_400() -> None:
    status, answer = await call(_Service(), "POST", "/scheduler/prioritize", b"{")
    assert status == 400
    assert "must be JSON" in json.loads(answer)["error"]


@pytest.mark.parametrize("length", [str(wire.MAX_BODY_BYTES + 1), "9" * 30])
async def test_a_body_that_is_declared_too_large_is_not_read(length: str) -> None:
    status, answer = await call(_Service(), "POST", "/scheduler/filter", length=length)
    assert status == 200
    assert "nodeCacheCapable" in json.loads(answer)["Error"]


async def test_a_body_that_turns_out_too_large_is_cut_off() -> None:
    part = b" " * (wire.MAX_BODY_BYTES // 2 + 1)
    status, answer = await call(_Service(), "POST", "/scheduler/prioritize", part, part)
    assert status == 413
    assert "at most" in json.loads(answer)["error"]


@pytest.mark.parametrize("verb", ["filter", "prioritize", "bind"])
async def test_it_answers_503_while_it_does_not_serve(verb: str) -> None:
    status, answer = await call(_Service(serves=False), "POST", f"/scheduler/{verb}", ARGS)
    assert (status, json.loads(answer)["error"]) == (503, "pods are not listed yet")


async def test_readyz_says_what_is_missing() -> None:
    status, answer = await call(_Service(serves=False, missing=("no PackingPolicy named default",)), "GET", "/readyz")
    assert (status, json.loads(answer)["missing"]) == (503, ["no PackingPolicy named default"])
    status, answer = await call(_Service(serves=False), "GET", "/readyz")
    assert (status, json.loads(answer)) == (200, {"ready": True, "missing": [], "serving": False})


async def test_healthz_and_metrics_answer_always() -> None:
    dark = _Service(serves=False, missing=("pods",))
    assert await call(dark, "GET", "/healthz") == (200, b"ok")
    status, text = await call(dark, "GET", "/metrics")
    assert status == 200
    assert b"cotenant_extender_ledger_drift 0.0" in text


async def test_explain_answers_while_it_serves() -> None:
    assert await call(_Service(), "GET", "/explain") == (200, b'{"jobs":[]}')
    status, answer = await call(_Service(serves=False), "GET", "/explain")
    assert (status, json.loads(answer)["error"]) == (503, "pods are not listed yet")


async def test_an_unknown_path_is_404() -> None:
    status, _ = await call(_Service(), "POST", "/scheduler/preempt", ARGS)
    assert status == 404


async def test_who_only_watches_is_answered_and_reaches_no_verb() -> None:
    watched = app.create_for_monitoring(_Service(), metrics.Metrics())
    for path in ("/healthz", "/readyz", "/metrics"):
        assert (await asgi.call(watched, "GET", path))[0] == 200
    for path in ("/scheduler/filter", "/scheduler/prioritize", "/scheduler/bind"):
        assert (await asgi.call(watched, "POST", path, ARGS))[0] == 404
    for path in ("/explain", "/openapi.json"):
        assert (await asgi.call(watched, "GET", path))[0] == 404
