"""Processes on one event loop in virtual time: groups of tasks that are paused, resumed and killed as one.

Which process a callback belongs to is in its context. A paused process's callbacks wait, timers too, as those of a
stopped process do; a killed one's tasks are cancelled, after the world has stopped listening to it.

A world is mostly timers, so the loop keeps its own: in the order of their time, and of one time in the order in which
they were set. It has no sockets, signals or threads.
"""

import asyncio
import collections
import contextvars
import heapq
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_CURRENT: contextvars.ContextVar["Process | None"] = contextvars.ContextVar("process", default=None)


class _Call(asyncio.TimerHandle):
    """A callback, of a process or of none, and the handle by which it may be cancelled."""

    __slots__ = ("arguments", "callback", "context", "due", "off", "process")

    def __init__(
        self, due: float, callback: Callable[..., Any], arguments: tuple[Any, ...], context: contextvars.Context | None
    ) -> None:
        # The base class is for the types only: what it would set up is never asked for.
        self.due, self.callback, self.arguments, self.off = due, callback, arguments, False
        self.context = contextvars.copy_context() if context is None else context
        self.process = self.context.get(_CURRENT)

    def cancel(self) -> None:
        """It is not called."""
        self.off = True

    def cancelled(self) -> bool:
        """Whether it was cancelled."""
        return self.off

    def when(self) -> float:
        """Its time."""
        return self.due


class Loop(asyncio.SelectorEventLoop):
    """Virtual time, in seconds from 0; callbacks of processes go through them."""

    def __init__(self) -> None:
        self._now = 0.0
        self._count = 0
        self._soon: collections.deque[_Call] = collections.deque()
        self._timers: list[tuple[float, int, _Call]] = []
        super().__init__()

    def time(self) -> float:
        """Virtual seconds."""
        return self._now

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """As always."""
        call = _Call(self._now, callback, args, context)
        self._soon.append(call)
        return call

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """As always."""
        call = _Call(when, callback, args, context)
        self._count += 1
        heapq.heappush(self._timers, (when, self._count, call))
        return call

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """As always."""
        return self.call_at(self._now + delay, callback, *args, context=context)

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

    def again(self, calls: list[_Call]) -> None:
        """Callbacks that waited run soon."""
        self._soon.extend(calls)

    def _run_once(self) -> None:
        """One round, as the base class has it: what is due by now; where nothing is, the time passes first."""
        soon, timers = self._soon, self._timers
        if not soon:
            while timers and timers[0][2].off:
                heapq.heappop(timers)
            if not timers:
                raise RuntimeError("nothing is left that could ever happen")
            self._now = max(self._now, timers[0][0])
        while timers and timers[0][0] <= self._now:
            soon.append(heapq.heappop(timers)[2])
        for _ in range(len(soon)):
            call = soon.popleft()
            if call.off:
                continue
            if call.process is not None and call.process.paused:
                call.process.keep(call)
            else:
                self._run(call)

    def _run(self, call: _Call) -> None:
        try:
            call.context.run(call.callback, *call.arguments)
        except Exception as error:  # noqa: BLE001 - whatever it is, the world is told
            self.call_exception_handler({"message": f"in {call.callback}", "exception": error})


class Process:
    """A group of tasks.

    Attributes:
        alive: until it is killed.
        tasks: those that have not ended, in the order of their start.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        if not isinstance(loop, Loop):
            raise TypeError("processes run on a loop of theirs")
        self.name, self.alive, self.paused = name, True, False
        self.tasks: dict[asyncio.Task[Any], None] = {}
        self._loop = loop
        self._waiting: list[_Call] = []
        self.context = contextvars.Context()
        self.context.run(_CURRENT.set, self)

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Begin something in this process."""
        task: asyncio.Task[T] = self._loop.create_task(work, context=self.context.copy())
        return task

    def pause(self) -> None:
        """Nothing of it runs until it is resumed."""
        self.paused = True

    def resume(self) -> None:
        """What waited runs, in order, unless it is paused again before."""
        self.paused = False
        waiting, self._waiting = self._waiting, []
        self._loop.again(waiting)

    def kill(self) -> None:
        """It ends where it is; whoever talked to it finds out."""
        self.alive = False
        if self.paused:
            self.resume()
        # In the next round: what was about to begin has begun by then, and is cancelled as everything else.
        self._loop.call_soon(self._cancel, context=contextvars.Context())

    def keep(self, call: _Call) -> None:
        """A callback that waits while this is paused."""
        self._waiting.append(call)

    def ended(self, task: asyncio.Task[Any]) -> None:
        """A task of it ended."""
        self.tasks.pop(task, None)

    def _cancel(self) -> None:
        for task in list(self.tasks):
            task.cancel()
