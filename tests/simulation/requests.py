"""How the models of other programs make requests: JSON over a link, tried again where that is harmless."""

import asyncio
from typing import Any

import orjson

from cotenant_extender.kube import transport
from simulation import network

Object = dict[str, Any]

RETRY_SECONDS = 0.5


async def once(
    link: network.Link, method: str, path: str, body: Object | None = None, *, strategic: bool = False
) -> tuple[int, Object]:
    """One request: status and JSON; raises UnansweredError."""
    kind = transport.STRATEGIC_MERGE_PATCH if strategic else transport.MERGE_PATCH
    content = kind if method == "PATCH" else transport.JSON
    data = None if body is None else orjson.dumps(body)
    answer = await link.request(transport.Request(method, path, data, content, timeout_seconds=5.0))
    return answer.status, orjson.loads(answer.body)


async def stubbornly(
    link: network.Link, method: str, path: str, body: Object | None = None, *, strategic: bool = False
) -> tuple[int, Object]:
    """The same request until it is answered, and not with 429 or 5xx."""
    while True:
        try:
            code, value = await once(link, method, path, body, strategic=strategic)
        except transport.UnansweredError:
            code, value = 0, {}
        if code and code != 429 and code < 500:
            return code, value
        await asyncio.sleep(RETRY_SECONDS)
