"""`GET /explain`: put together step by step, so that verbs are answered meanwhile."""

import asyncio
from collections.abc import Callable
from typing import Any

import orjson

from cotenant_extender.ledger import ledger
from cotenant_extender.queue import explaining, telling

AT_ONCE = 8
"""Tallies over all GPUs that are made before others get their turn."""


async def of_all(source: ledger.Ledger, teller: telling.Teller, clock: Callable[[], float]) -> bytes:
    """Every pod that waits, in order."""
    found: list[dict[str, Any]] = []
    rested = teller.asked
    for number, pod in enumerate(teller.waiting(source)):
        if source.policy is None:
            break
        found.append(explaining.waiting(source, source.policy, teller, pod, now=clock()))
        if teller.asked >= rested + AT_ONCE or number % 256 == 255:
            rested = teller.asked
            await asyncio.sleep(0)
    return orjson.dumps({"jobs": found})


def of_one(source: ledger.Ledger, teller: telling.Teller, wanted: tuple[str, str], *, now: float) -> bytes | None:
    """One pod, by namespace and name; None: there is none that asks for a share, or it is not considered yet."""
    for record in source.pods.values():
        if (record.namespace, record.name) != wanted or not record.asks:
            continue
        found = explaining.placed(source, record)
        pod = None if found is not None else teller.find(source, record)
        if pod is not None and source.policy is not None:
            found = explaining.waiting(source, source.policy, teller, pod, now=now)
        return None if found is None else orjson.dumps({"jobs": [found]})
    return None
