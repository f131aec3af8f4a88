"""For how long the extender's event loop does one thing, so that no request is answered: the longest time.

A whole extender in this process, on uvloop as in its own; the API server is in memory. Time is CPU time of the thread,
so that it does not depend on what else the machine does. A turn of the event loop counts as a whole, with everything
that was ready. Its GPUs are simulated.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import orjson
import uvloop

from cotenant_api import errors, names
from cotenant_e2e.benchmark import memory_server, objects, world
from cotenant_extender import feed, garbage, service

FIRST: Final = 10**6
"""Number of the first pod that waits."""
SETTLE_SECONDS: Final = 3.0
"""For how long it is watched after the work is done: conditions and the ledger's recount follow."""
DEADLINE_SECONDS: Final = 180.0
POLICY: Final = f"/apis/{names.API_VERSION}/packingpolicies"
CHANGES: Final[Sequence[Mapping[str, Any]]] = (
    {"maxUtilizationPercent": 90},
    {"placement": "FGD"},
    {"placement": "DualPrice"},
    {"placement": "Interference"},
    {"queue": {"order": "FIFO"}},
)
CONDITIONS: Final = (
    "Block: the longest CPU time of a turn of the event loop, with a waiting pod for each node, half of which fit; "
    "new policy: the longest of "
    + ", ".join(orjson.dumps(change).decode() for change in CHANGES)
    + ", one after the other."
)


@dataclass(frozen=True)
class Blocks:
    """The longest turn of the event loop, in milliseconds: while lists are read, until all is lifted, by a policy."""

    lists: float
    first_passes: float
    new_policy: float

    def to_object(self) -> dict[str, float]:
        """The JSON object, in milliseconds."""
        return {key: round(value, 1) for key, value in asdict(self).items()}


class Heart:
    """Beats once a turn of the event loop."""

    def __init__(self) -> None:
        self._longest = 0.0

    async def beat(self) -> None:
        """Until cancelled."""
        while True:
            began = time.thread_time()
            await asyncio.sleep(0)
            self._longest = max(self._longest, time.thread_time() - began)

    def longest_milliseconds(self) -> float:
        """The longest turn since this was asked last."""
        found, self._longest = 1e3 * self._longest, 0.0
        return found


def measure(size: world.Size, *, now: str) -> Blocks:
    """Start an extender, let it lift what fits, change the policy."""
    pages = world.pages(size, now=now)
    known = [node["metadata"]["name"] for node in objects.node_list(size.nodes)]
    placed = (world.placed_pod(number, known) for number in range(size.pods))
    impossible = 100 * 2 * objects.GPUS_PER_NODE
    gated = (
        world.gated_pod(FIRST + number, share=objects.SHARE if number % 2 else impossible)
        for number in range(size.nodes)
    )
    pages["/api/v1/pods"] = world.encoded([*placed, *gated])
    feed.shipped()
    garbage.look_in_short_turns()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_measured(memory_server.Server(pages), fitting=size.nodes // 2))


async def _measured(server: memory_server.Server, *, fitting: int) -> Blocks:
    heart = Heart()
    extender = service.Extender(service.Settings(identity="", assume_leader=True), server)
    tasks = [asyncio.create_task(extender.run()), asyncio.create_task(heart.beat())]
    try:
        heart.longest_milliseconds()
        await _until(extender.serving)
        lists = heart.longest_milliseconds()
        await _until(lambda: len(extender.ledger.earmarks) >= fitting)
        await asyncio.sleep(SETTLE_SECONDS)
        first_passes, new_policy = heart.longest_milliseconds(), 0.0
        for generation, change in enumerate(CHANGES, start=2):
            await _change(server, extender, generation, change)
            new_policy = max(new_policy, heart.longest_milliseconds())
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return Blocks(lists, first_passes, new_policy)


async def _change(
    server: memory_server.Server, extender: service.Extender, generation: int, spec: Mapping[str, Any]
) -> None:
    metadata = {"name": "default", "generation": generation, "resourceVersion": str(generation)}
    server.send(POLICY, {"type": "MODIFIED", "object": {"metadata": metadata, "spec": spec}})

    def in_force() -> bool:
        policy = extender.ledger.policy
        return policy is not None and policy.generation == generation and extender.ledger.behind == 0

    await _until(in_force)
    await asyncio.sleep(SETTLE_SECONDS)


async def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not holds():
        if time.monotonic() > deadline:
            raise errors.TemporaryError(f"the extender was not done within {DEADLINE_SECONDS:.0f} s", delay_seconds=0)
        await asyncio.sleep(0.01)
