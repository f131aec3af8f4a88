"""Evictions through the API server: of the victims of a job, all or none as far as that can be known beforehand.

Whether a PodDisruptionBudget allows an eviction, only the API server knows. So before the first of several victims is
evicted it is asked about each in a dry run, which changes nothing. Victims of one budget are counted beside that: in a
dry run each of them is judged as if it went alone.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, Protocol

from cotenant_api import errors
from cotenant_api.names import Namespace
from cotenant_extender import context, fencing, records
from cotenant_extender.kube import client, pods, transport
from cotenant_extender.queue import budgets, planning, preempting

LOG = logging.getLogger(__name__)

SECONDS = 10.0
"""How long an answer to an Eviction is waited for."""
DELAY_SECONDS = 1.0
"""Between two tries to fence a victim, or to ask about it."""
FENCE_TRIES = 3
"""How often a victim that can be read is tried to be marked, before its Eviction counts as failed."""
ATTEMPTS = 3
"""How often a pod that changes meanwhile is asked to leave, before it is left alone for a while.

As often the API server is asked whether a victim may leave, while there is no answer.
"""
BUDGETS = 64
"""PodDisruptionBudgets of a namespace that are read: an author may make any number, each of up to 1.5 MB."""
NO_DRY_RUN: Final = 400
"""Status of the answer to a dry run where a webhook would be asked that cannot take part in one."""

Object = dict[str, Any]


class Say(Protocol):
    """Tells something of a pod by an event that nothing depends on."""

    async def __call__(self, record: records.Pod, *, reason: str, message: str) -> None:
        """Tell it."""


class Evictions:
    """Evicts pods."""

    def __init__(self, shared: context.Context, fences: fencing.Fences, *, say: Say) -> None:
        self._ledger, self._api, self._metrics = shared.ledger, shared.api, shared.metrics
        self._leading, self._latest, self._clock = shared.leadership, shared.latest, shared.clock
        self._fences, self._say = fences, say

    async def evict(self, eviction: preempting.Eviction, queue: planning.Queue) -> None:
        """Evict victims one after the other, while their job waits for them; none where it is known that one stays.

        Where one is not evicted no more are asked, and the queue decides anew.
        """
        if len(eviction.victims) > 1 and not await self._may_all_leave(eviction, queue):
            return
        preemptor = f"{eviction.preemptor.namespace}/{eviction.preemptor.name}"
        gone: list[str] = []
        for victim in _first_those_of_one_namespace(eviction.victims):
            if not self._stands(eviction, victim, queue):
                break
            try:
                result = await self.leave(victim)
            except client.BudgetError as error:
                await self._stays(victim, queue, error)
                break
            self._metrics.evictions.labels(result).inc()
            if result == "failed":
                queue.refused(self._ledger, victim, now=self._clock())
                break
            if result == "changed":
                queue.overtaken(self._ledger, victim.uid)
                break
            if result == "ok":
                gone.append(f"{victim.namespace}/{victim.name}")
                message = f"evicted for {preemptor} of priority {eviction.preemptor.priority}"
                await self._say(victim, reason="Preempted", message=message)
        if gone:
            await self._say(eviction.preemptor, reason="Preempting", message=f"evicts {', '.join(gone)}")

    async def leave(self, victim: records.Pod) -> str:
        """Ask a pod that lives to leave, as it is now; what came of it.

        Raises:
            BudgetError: a PodDisruptionBudget is against it now.
        """
        try:
            for _ in range(ATTEMPTS):
                known = self._ledger.pods.get(victim.uid)
                if known is None or known.finished or known.deleting:
                    return "changed"
                if await self._asked(known):
                    return "ok"
        except client.NotFoundError:
            return "gone"
        except client.BudgetError:
            raise
        except (client.APIError, errors.TemporaryError) as error:
            LOG.warning("evicting %s/%s: %s", victim.namespace, victim.name, error)
            return "failed"
        LOG.warning("evicting %s/%s: it changed each time", victim.namespace, victim.name)
        return "failed"

    def _stands(self, eviction: preempting.Eviction, victim: records.Pod, queue: planning.Queue) -> bool:
        """Return whether a victim is still to be evicted, by this leader."""
        policy = self._ledger.policy
        if policy is None or not policy.places or not self._leading.serves(now=self._latest()):
            return False
        return queue.preemptions.stands(eviction, victim)

    async def _may_all_leave(self, eviction: preempting.Eviction, queue: planning.Queue) -> bool:
        """Return whether nothing is known against evicting all victims; else the queue has decided anew."""
        for victim in eviction.victims:
            if not self._stands(eviction, victim, queue):
                return False
            error = await self._against(victim)
            if error is not None:
                await self._stays(victim, queue, error)
                return False
        found = await self._too_many(eviction.victims)
        if found is not None:
            budget, victim = found
            LOG.info("PodDisruptionBudget %s/%s allows not all of the victims", budget.namespace, budget.name)
            self._metrics.evictions.labels("refused").inc()
            queue.refused(self._ledger, victim, budget, now=self._clock())
        return found is None

    async def _against(self, victim: records.Pod) -> errors.CotenantError | None:
        """Return why the API server would not evict a pod now; None: it would, or does not tell."""
        known = self._ledger.pods.get(victim.uid, victim)
        path = f"{pods.pod_path(known.namespace, known.name)}/eviction"
        for _ in range(ATTEMPTS):
            try:
                await self._api.post_once(path, pods.eviction(known, dry_run=True), timeout_seconds=SECONDS)
            except client.BudgetError as error:
                return error
            except errors.TemporaryError as error:
                LOG.info("asking about %s/%s: %s", victim.namespace, victim.name, error)
                await self._api.sleep(DELAY_SECONDS)
            except (client.NotFoundError, client.ConflictError):
                # It has changed since: by how much is found out when it is evicted.
                return None
            except client.APIError as error:
                return None if error.status == NO_DRY_RUN else error
            else:
                return None
        return None

    async def _stays(self, victim: records.Pod, queue: planning.Queue, error: errors.CotenantError) -> None:
        """Let the queue decide anew on a victim that may not be evicted now, and know of the budget, if one refused."""
        LOG.info("%s/%s may not be evicted now: %s", victim.namespace, victim.name, error)
        name = error.budget if isinstance(error, client.BudgetError) else ""
        self._metrics.evictions.labels("refused" if isinstance(error, client.BudgetError) else "failed").inc()
        budget = await self._budget(victim.namespace, name) if name else None
        queue.refused(self._ledger, victim, budget, now=self._clock())

    async def _too_many(self, victims: Sequence[records.Pod]) -> tuple[budgets.Budget, records.Pod] | None:
        """Return a budget that allows fewer disruptions than it has victims, and one of these; None: none is known."""
        for namespace in dict.fromkeys(victim.namespace for victim in victims):
            mine = [victim for victim in victims if victim.namespace == namespace]
            if len(mine) == 1:
                continue
            for raw in await self._budgets(namespace):
                budget = budgets.read(raw)
                # Beside those that are ready others may go, by the budget's `unhealthyPodEvictionPolicy`.
                covered = [victim for victim in mine if self._is_ready(victim) and budget.covers(victim)]
                if len(covered) > budgets.allowed(raw):
                    return budget, covered[0]
                # Each may have many expressions: others get their turn between two.
                await asyncio.sleep(0)
        return None

    def _is_ready(self, victim: records.Pod) -> bool:
        return self._ledger.pods.get(victim.uid, victim).ready

    async def _budgets(self, namespace: Namespace) -> list[Object]:
        """Read the first `BUDGETS` of a namespace; none where they cannot be read."""
        try:
            listed: list[Object] = (await self._api.get(pods.budgets_path(namespace, limit=BUDGETS)))["items"]
        except (client.APIError, errors.TemporaryError) as error:
            LOG.warning("reading the PodDisruptionBudgets of %s: %s", namespace, error)
            return []
        return listed

    async def _budget(self, namespace: Namespace, name: str) -> budgets.Budget | None:
        """Read a PodDisruptionBudget; None where it cannot be read: then nothing is concluded of other pods."""
        try:
            return budgets.read(await self._api.get(pods.budget_path(namespace, name)))
        except (client.APIError, errors.TemporaryError) as error:
            LOG.warning("reading PodDisruptionBudget %s/%s: %s", namespace, name, error)
            return None

    async def _asked(self, record: records.Pod) -> bool:
        """Ask for an eviction of a pod as it was last seen. Where it has changed since, it is read, and not evicted."""
        path = pods.pod_path(record.namespace, record.name)
        try:
            await self._api.post_once(f"{path}/eviction", pods.eviction(record), timeout_seconds=SECONDS)
        except transport.UnansweredError as error:
            LOG.warning("evicting %s/%s: the reply was lost: %s", record.namespace, record.name, error)
            return await self._withdrawn(record)
        except client.ConflictError as conflict:
            raw = await self._api.get(path)
            found = records.pod_record(raw)
            if found.uid != record.uid:
                raise client.NotFoundError(conflict.status, conflict.message) from conflict
            self._ledger.pod(found, now=self._clock())
            # The reply to an earlier try may have been lost.
            return pods.evicted(raw)
        return True

    async def _withdrawn(self, record: records.Pod) -> bool:
        """Wait until an Eviction without reply has taken effect or never can; whether it has.

        Raises:
            NotFoundError: the pod is gone.
            UnansweredError: the Eviction may still take effect: this extender leads no longer, or the pod can be read,
                and not marked.
        """
        tries = 0
        while self._leading.serves(now=self._latest()):
            try:
                found = await self._fences.settled(record, version=record.version)
            except fencing.UNREADABLE as error:
                LOG.warning("fencing %s/%s: %s", record.namespace, record.name, error)
                tries += await self._fences.readable(record)
                if tries == FENCE_TRIES:
                    raise transport.UnansweredError("the pod cannot be marked") from error
                await self._api.sleep(DELAY_SECONDS)
                continue
            if found is None:
                raise client.NotFoundError(404, "the pod is gone")
            return found.deleting
        raise transport.UnansweredError("this extender leads no longer")


def _first_those_of_one_namespace(victims: Sequence[records.Pod]) -> list[records.Pod]:
    """Sort victims: those alone in their namespace last, as a budget that was not read keeps none of them."""
    spaces = Counter(victim.namespace for victim in victims)
    return sorted(victims, key=lambda victim: spaces[victim.namespace] == 1)
