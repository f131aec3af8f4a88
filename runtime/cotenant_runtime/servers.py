"""Thin hooks for common servers. None of them is imported: each hook relies on the methods that it names.

| server | hook |
|---|---|
| FastAPI, Starlette, any ASGI | `app.add_middleware(Middleware, deadline=0.1)` |
| Triton's Python backend | `@triton_model(deadline=0.1)` above `class TritonPythonModel` |
| TorchServe | `@torchserve_handler(deadline=0.1)` above the handler's class |
| vLLM | `vllm_engine(engine, deadline=0.05)`; the deadline is of one engine step |
"""

from __future__ import annotations

import functools
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeVar

from cotenant_runtime.serving import serving

Scope = MutableMapping[str, Any]
Application = Callable[[Scope, Any, Any], Awaitable[None]]
Class = TypeVar("Class", bound=type)


class Middleware:
    """ASGI middleware: each HTTP request is open until its answer is sent."""

    def __init__(self, app: Application, *, deadline: float, path: str = "/") -> None:
        """Serve requests whose path begins with `path` under a deadline in seconds; others pass unseen."""
        self._app = app
        self._deadline = deadline
        self._path = path

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Serve one connection."""
        if scope.get("type") != "http" or not str(scope.get("path", "")).startswith(self._path):
            await self._app(scope, receive, send)
            return
        with serving(deadline=self._deadline):
            await self._app(scope, receive, send)


def triton_model(*, deadline: float) -> Callable[[Class], Class]:
    """Return a decorator for `TritonPythonModel`: each call of `execute(requests)` has a deadline in seconds."""
    return functools.partial(_decorated, method="execute", deadline=deadline)


def torchserve_handler(*, deadline: float) -> Callable[[Class], Class]:
    """Return a decorator for a TorchServe handler: each call of `handle(data, context)` has a deadline in seconds."""
    return functools.partial(_decorated, method="handle", deadline=deadline)


def vllm_engine(engine: Any, *, deadline: float) -> Any:
    """Give each step of a vLLM engine a deadline, in seconds, and return the engine.

    A step counts from the first `add_request` since the step before, or from its own begin. Steps of an engine
    without requests are not published.
    """
    add, step = engine.add_request, engine.step
    arrivals: list[float] = []

    @functools.wraps(add)
    def add_request(*arguments: Any, **named: Any) -> Any:
        arrivals.append(time.monotonic())
        return add(*arguments, **named)

    @functools.wraps(step)
    def published_step(*arguments: Any, **named: Any) -> Any:
        if not engine.has_unfinished_requests():
            return step(*arguments, **named)
        arrived = arrivals[0] if arrivals else None
        arrivals.clear()
        with serving(deadline=deadline, arrived=arrived):
            return step(*arguments, **named)

    engine.add_request, engine.step = add_request, published_step
    return engine


def _decorated(kind: Class, *, method: str, deadline: float) -> Class:
    served = getattr(kind, method)

    @functools.wraps(served)
    def published(*arguments: Any, **named: Any) -> Any:
        with serving(deadline=deadline):
            return served(*arguments, **named)

    setattr(kind, method, published)
    return kind
