"""Requests to the API server: retried where that is harmless, and what the answers become."""

import asyncio
from contextlib import AbstractAsyncContextManager

import pytest

from cotenant_extender.kube import client, transport
from extender import virtual


class _Scripted:
    """Answers from a list; an exception in it is raised."""

    def __init__(self, *answers: transport.Answer | Exception) -> None:
        self._answers = list(answers)
        self.requests: list[transport.Request] = []

    async def request(self, request: transport.Request) -> transport.Answer:
        await asyncio.sleep(0)
        self.requests.append(request)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def stream(self, request: transport.Request) -> AbstractAsyncContextManager[transport.Stream]:
        raise AssertionError(f"no stream is asked for: {request.path}")


OK = transport.Answer(200, {}, b'{"a":1}')
LOST = transport.UnansweredError("cut")


def status(code: int, **headers: str) -> transport.Answer:
    return transport.Answer(code, {key.replace("_", "-"): value for key, value in headers.items()}, b'{"message":"m"}')


@virtual.time
async def test_what_was_not_answered_is_asked_again() -> None:
    carrier = _Scripted(LOST, status(500), status(503), OK)
    assert await client.Client(carrier).get("/x") == {"a": 1}
    assert len(carrier.requests) == 4


@virtual.time
async def test_retry_after_is_obeyed() -> None:
    carrier = _Scripted(status(429, Retry_After="7"), OK)
    began = asyncio.get_running_loop().time()
    await client.Client(carrier).get("/x")
    assert asyncio.get_running_loop().time() - began == pytest.approx(7)


@virtual.time
async def test_after_the_last_attempt_the_error_is_raised() -> None:
    with pytest.raises(client.BusyError, match="500: m"):
        await client.Client(_Scripted(*[status(500)] * 4)).get("/x")
    with pytest.raises(transport.UnansweredError):
        await client.Client(_Scripted(*[LOST] * 4)).get("/x")


@pytest.mark.parametrize(
    ("code", "error"),
    [(404, client.NotFoundError), (409, client.ConflictError), (410, client.GoneError), (422, client.APIError)],
)
def test_a_refusal_is_raised_at_once_with_its_message(code: int, error: type[client.APIError]) -> None:
    @virtual.time
    async def run() -> None:
        carrier = _Scripted(status(code))
        with pytest.raises(error, match=f"{code}: m"):
            await client.Client(carrier).get("/x")
        assert len(carrier.requests) == 1

    run()


@virtual.time
async def test_what_must_not_be_sent_twice_is_sent_once() -> None:
    carrier = _Scripted(status(503))
    with pytest.raises(transport.UnansweredError):
        await client.Client(carrier).post_once("/bind", {}, timeout_seconds=3.7)
    assert [request.path for request in carrier.requests] == ["/bind"]


@virtual.time
async def test_an_eviction_that_two_budgets_are_against_was_answered_and_not_lost() -> None:
    said = b'{"message":"This pod has more than one PodDisruptionBudget, which the eviction subresource .."}'
    with pytest.raises(client.BudgetError) as refused:
        await client.Client(_Scripted(transport.Answer(500, {}, said))).post_once("/e", {}, timeout_seconds=1)
    assert refused.value.budget == ""


@pytest.mark.parametrize("body", [b"", b"[]", b'{"a":'])
def test_an_answer_that_is_cut_is_none(body: bytes) -> None:
    @virtual.time
    async def run() -> None:
        with pytest.raises(transport.UnansweredError):
            await client.Client(_Scripted(transport.Answer(201, {}, body))).post_once("/x", {}, timeout_seconds=1)

    run()


def test_a_message_that_is_no_json_is_cut() -> None:
    assert client.message_of(transport.Answer(502, {}, b"<html>" * 1000)) == "<html>" * 42 + "<htm"
