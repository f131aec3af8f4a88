"""Hooks of common servers, on stand-ins with the methods that the hooks rely on."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from cotenant_runtime import servers

Published = list[tuple[float, float | None]]


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> Published:
    found: Published = []

    @contextmanager
    def serving(*, deadline: float, arrived: float | None = None) -> Iterator[None]:
        found.append((deadline, arrived))
        yield

    monkeypatch.setattr(servers, "serving", serving)
    return found


def test_each_http_request_of_an_asgi_application_has_a_deadline(published: Published) -> None:
    seen: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["path"])

    served = servers.Middleware(app, deadline=0.2, path="/predict")
    for scope in (
        {"type": "http", "path": "/predict/one"},
        {"type": "http", "path": "/healthz"},
        {"type": "lifespan", "path": "/predict"},
    ):
        asyncio.run(served(scope, None, None))
    assert seen == ["/predict/one", "/healthz", "/predict"]
    assert published == [(0.2, None)]


def test_a_call_of_tritons_python_model_has_a_deadline(published: Published) -> None:
    @servers.triton_model(deadline=0.3)
    class TritonPythonModel:
        def execute(self, requests: list[int]) -> list[int]:
            """Answer."""
            return [2 * one for one in requests]

    assert TritonPythonModel().execute([1, 2]) == [2, 4]
    assert TritonPythonModel.execute.__doc__ == "Answer."
    assert published == [(0.3, None)]


def test_a_call_of_a_torchserve_handler_has_a_deadline(published: Published) -> None:
    @servers.torchserve_handler(deadline=0.4)
    class Handler:
        def handle(self, data: list[int], _context: object) -> list[int]:
            """Answer."""
            return data

    assert Handler().handle([7], None) == [7]
    assert published == [(0.4, None)]


class Engine:
    """What vLLM's engine has of methods that are used."""

    def __init__(self) -> None:
        self.requests: list[str] = []

    def add_request(self, request_id: str, *, prompt: str) -> str:
        """Take a request."""
        assert prompt
        self.requests.append(request_id)
        return request_id

    def has_unfinished_requests(self) -> bool:
        """Return whether a request waits."""
        return bool(self.requests)

    def step(self) -> list[str]:
        """Answer one request."""
        return [self.requests.pop(0)] if self.requests else []


def test_each_step_of_a_vllm_engine_with_requests_has_a_deadline(published: Published) -> None:
    engine = servers.vllm_engine(Engine(), deadline=0.05)
    assert engine.step() == []
    assert published == []
    assert engine.add_request("a", prompt="x") == "a"
    engine.add_request("b", prompt="y")
    assert (engine.step(), engine.step()) == (["a"], ["b"])
    (first, arrived), (second, later) = published
    assert (first, second) == (0.05, 0.05)
    assert arrived is not None
    assert later is None
