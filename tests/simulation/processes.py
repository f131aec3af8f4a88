"""Processes on one event loop in virtual time: groups of tasks that are paused, resumed and killed as one.

Which process a callback belongs to is in its context. A paused process's callbacks wait, timers too, as those of a
stopped process do; a killed one's tasks are cancelled, after the world has stopped listening to it.
"""

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, TypeVarTuple

from extender import virtual

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_CURRENT: contextvars.ContextVar["Process | None"] = contextvars.ContextVar("process", default=None)


class _Call:
    """A callback of a process, and the handle by which it may be cancelled."""

    __slots__ = ("arguments", "callback", "context", "handle")

    def __init__(self, callback: Callable[..., Any], arguments: tuple[Any, ...], context: contextvars.Context) -> None:
        self.callback, self.arguments, self.context = callback, arguments, context
        self.handle: asyncio.Handle | None = None


class Loop(virtual.Loop):
    """Virtual time; callbacks of processes go through them."""

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """As always."""
        process = _CURRENT.get() if context is None else context.get(_CURRENT)
        if process is None:
            return super().call_soon(callback, *args, context=context)
        call = _Call(callback, args, context or contextvars.copy_context())
        call.handle = super().call_soon(process.run, call, context=call.context)
        return call.handle

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """As always."""
        process = _CURRENT.get() if context is None else context.get(_CURRENT)
        if process is None:
            return super().call_at(when, callback, *args, context=context)
        call = _Call(callback, args, context or contextvars.copy_context())
        call.handle = handle = super().call_at(when, process.run, call, context=call.context)
        return handle

    def create_task(self, coro: Any, **named: Any) -> Any:
        """As always; the task belongs to the process of its context."""
        task = super().create_task(coro, **named)
        context = named.get("context")
        process = _CURRENT.get() if context is None else context.get(_CURRENT)
        if process is not None:
            process.tasks[task] = None
            task.add_done_callback(process.ended)
            if not process.alive:
                self.call_soon(task.cancel)
        return task


class Process:
    """A group of tasks.

    Attributes:
        alive: until it is killed.
        tasks: those that have not ended, in the order of their start.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        self.name, self.alive, self.paused = name, True, False
        self.tasks: dict[asyncio.Task[Any], None] = {}
        self._loop = loop
        self._waiting: list[_Call] = []
        self.context = contextvars.Context()
        self.context.run(_CURRENT.set, self)

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Begin something in this process."""
        return self._loop.create_task(work, context=self.context.copy())

    def pause(self) -> None:
        """Nothing of it runs until it is resumed."""
        self.paused = True

    def resume(self) -> None:
        """What waited runs, in order."""
        self.paused = False
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            # Not through the process: it may be paused again before these run.
            asyncio.SelectorEventLoop.call_soon(self._loop, self.run, call, context=call.context)  # type: ignore[arg-type]

    def kill(self) -> None:
        """It ends where it is; whoever talked to it finds out."""
        self.alive = False
        if self.paused:
            self.resume()
        # In the next round: what was about to begin has begun by then, and is cancelled as everything else.
        self._loop.call_soon(self._cancel, context=contextvars.Context())

    def _cancel(self) -> None:
        for task in list(self.tasks):
            task.cancel()

    def run(self, call: _Call) -> None:
        """Run a callback, or keep it while paused."""
        if call.handle is not None and call.handle.cancelled():
            return
        if self.paused:
            self._waiting.append(call)
        else:
            call.callback(*call.arguments)

    def ended(self, task: asyncio.Task[Any]) -> None:
        """A task of it ended."""
        self.tasks.pop(task, None)
