"""One question about each of several GPUs, for whoever must not wait for one that is late: its last answer serves."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class Latest(Generic[K, T]):
    """The newest answer of each GPU.

    Args:
        ask: the question about one GPU; must end within a bound, also where the driver hangs.
        seconds: how long a GPU is waited for that has answered before. One that never has is waited for to the end.
    """

    def __init__(self, ask: Callable[[K], Awaitable[T]], *, seconds: float) -> None:
        self._ask, self._seconds = ask, seconds
        self._answers: dict[K, T] = {}
        self._late: dict[K, asyncio.Task[T]] = {}
        """Questions that are under way longer than that: none is added to them."""

    async def of(self, gpus: Iterable[K]) -> dict[K, T]:
        """Ask about GPUs side by side. Raises what `ask` raises about one that is not late."""
        asked = {gpu: self._late.get(gpu) or self._begun(gpu) for gpu in gpus}
        if not asked:
            return {}
        first = {task for gpu, task in asked.items() if gpu not in self._answers}
        await asyncio.wait(asked.values(), timeout=self._seconds)
        if first:
            await asyncio.wait(first)
        self._late |= {gpu: task for gpu, task in asked.items() if not task.done()}
        return {gpu: task.result() if task.done() else self._answers[gpu] for gpu, task in asked.items()}

    def _begun(self, gpu: K) -> asyncio.Task[T]:
        async def asked() -> T:
            try:
                answer = await self._ask(gpu)
            finally:
                self._late.pop(gpu, None)
            self._answers[gpu] = answer
            return answer

        task = asyncio.create_task(asked())
        # A late one that raises has nobody who waits for it; whoever asks next hears it.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task
