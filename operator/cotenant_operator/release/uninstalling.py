"""The steps before an installation is taken away: admission first, then the nodes. Ends no user's pod.

With mode Observe every pod that asks for a share is refused, with the reason, so from then on none is gated. The gate's
own policy goes last: without it such a pod would be refused for lacking the gate, which says nothing to its author.

Each step can be done again, so that an uninstallation that broke off is simply started once more. What takes too long
is told and not waited for: Helm goes on.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from cotenant_api import errors
from cotenant_operator.kube import api
from cotenant_operator.release import objects, plan
from cotenant_operator.release.objects import Objects

ATTEMPTS: Final = 5
LOOK_SECONDS: Final = 1.0
OPERATOR_SECONDS: Final = 45.0
AGENT_SECONDS: Final = 45.0
"""kubelet kills a pod 30 s after it was told to end."""

Result = TypeVar("Result")


@dataclass(frozen=True)
class Clock:
    """`monotonic`: seconds that never go back. `sleep`: waits."""

    monotonic: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]


class Uninstalling:
    """One release's end.

    Args:
        cluster: its objects.
        clock: the time.
        wait_seconds: how long all nodes together may take to be given back.
    """

    def __init__(self, cluster: Objects, clock: Clock, *, wait_seconds: float) -> None:
        self._cluster, self._clock, self._wait_seconds = cluster, clock, wait_seconds

    async def run(self, selector: Mapping[str, str]) -> plan.Outcome:
        """Do it all. `selector`: labels by which nodes are Cotenant's.

        Raises:
            PermanentError: the API server refuses to stop admission or sharing: then nothing may be taken away.
        """
        # In mode Observe the operator would make whole-GPU workloads of what waits.
        await self._surely(self._cluster.stop_operator)
        stopped = await self._until(self._operator_ended, OPERATOR_SECONDS)
        await self._surely(self._cluster.stop_sharing)
        deadline = self._clock.monotonic() + self._wait_seconds
        await self._until(self._settled, self._wait_seconds)
        unfinished = await self._surely(self._unsettled)
        changed: set[str] = set()
        await self._surely(lambda: self._change_nodes(selector, changed))
        if changed and all(plan.is_ours(key) for key in selector):
            # Without the label no agent stays, and each clears up as it ends.
            await self._until(self._agents_ended, max(deadline - self._clock.monotonic(), AGENT_SECONDS))
            left = await self._surely(lambda: self._cluster.nodes_of(objects.AGENT))
            unfinished |= dict.fromkeys(left, "its agent has not ended")
        await self._surely(self._cluster.stop_gating)
        return plan.Outcome(
            stopped=stopped,
            changed=tuple(sorted(changed)),
            unfinished=unfinished,
            running=plan.running(await self._surely(lambda: self._cluster.pods(plan.RUNNING))),
            waiting=plan.waiting(await self._surely(lambda: self._cluster.pods(plan.SELECTOR))),
        )

    async def _operator_ended(self) -> bool:
        return not await self._cluster.nodes_of(objects.OPERATOR)

    async def _agents_ended(self) -> bool:
        return not await self._cluster.nodes_of(objects.AGENT)

    async def _settled(self) -> bool:
        return not await self._unsettled()

    async def _unsettled(self) -> dict[str, str]:
        served = frozenset(await self._cluster.nodes_of(objects.AGENT))
        found: dict[str, str] = {}
        async for node in self._cluster.gpu_nodes():
            found |= plan.unsettled(node, served=served)
        return found

    async def _change_nodes(self, selector: Mapping[str, str], changed: set[str]) -> None:
        """Change all Nodes that are as they were listed. Raises ConflictError where some were not."""
        overtaken: api.ConflictError | None = None
        async for node in self._cluster.nodes():
            patch = plan.change(node, selector)
            if patch is not None:
                name = str(node["metadata"]["name"])
                try:
                    await self._cluster.change_node(name, patch)
                    changed.add(name)
                except api.ConflictError as error:
                    overtaken = error
        if overtaken is not None:
            raise overtaken

    async def _until(self, done: Callable[[], Awaitable[bool]], seconds: float) -> bool:
        """Return whether it came true in time."""
        end = self._clock.monotonic() + seconds
        while not await self._surely(done):
            if self._clock.monotonic() >= end:
                return False
            await self._clock.sleep(LOOK_SECONDS)
        return True

    async def _surely(self, action: Callable[[], Awaitable[Result]]) -> Result:
        """Do it, again where that may help. Raises PermanentError."""
        for left in reversed(range(ATTEMPTS)):
            try:
                return await action()
            except (api.ConflictError, errors.TemporaryError) as error:
                if not left:
                    raise errors.PermanentError(f"the API server does not take it: {error}") from error
                await self._clock.sleep(LOOK_SECONDS)
            except api.APIError as error:
                raise errors.PermanentError(f"the API server refuses: {error}") from error
        raise errors.PermanentError("nothing was tried")
