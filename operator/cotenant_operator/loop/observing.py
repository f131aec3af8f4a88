"""What a decision about one DLJob rests on: what the watches told, and what has to be asked for besides.

It decides nothing. Refusals are kept here only to save requests: a restart misses none of them.
"""

import contextlib
from dataclasses import replace
from typing import NamedTuple

from cotenant_api import dljob, errors
from cotenant_operator.graphs import extraction, predictions
from cotenant_operator.kube import api
from cotenant_operator.life import causes, extracting, holding, reconcile
from cotenant_operator.loop import creations, executor, idling, keeper, limit_ranges, overuses, reads, refusals
from cotenant_operator.loop.clock import Clock
from cotenant_operator.parsing import process, tasks
from cotenant_operator.state import outcomes, views
from cotenant_operator.state.defaults import NONE as NO_DEFAULTS
from cotenant_operator.state.observed import Observed
from cotenant_operator.state.store import Store
from cotenant_operator.state.views import Key


class Context(NamedTuple):
    """What a look needs of the loop and of the release.

    Attributes:
        executor: writes fences.
        aside: lets another worker work while one of this namespace waits.
        release: the namespace of the release, where measurements are kept.
    """

    executor: executor.Executor
    aside: predictions.Aside
    release: str


class Gathered(NamedTuple):
    """What a decision rests on.

    Attributes:
        observed: what there is.
        unfenced: why the API server refuses a fence: an earlier patch of a workload may still take effect.
    """

    observed: Observed
    unfenced: api.APIError | None = None


class Observer:
    """Looks at DLJobs.

    Args:
        store: what the watches told.
        client: asks the API server.
        parser: reads graphs and predicts.
        clock: tells the time.
        context: what a look needs besides.

    Attributes:
        keeper: what is learned of what has run.
    """

    def __init__(
        self,
        *,
        store: Store,
        client: api.API,
        parser: process.Parser,
        clock: Clock,
        context: Context,
    ) -> None:
        self._store, self._client, self._clock, self._executor = store, client, clock, context.executor
        self._predictor = predictions.Predictor(client.config_map, parser=parser, aside=context.aside)
        self._overuses, self._reads = overuses.Overuses(client), reads.Reads(client, store)
        self._limit_ranges = limit_ranges.LimitRanges(client, monotonic=clock.monotonic)
        self._creations = creations.Creations(client, monotonic=clock.monotonic)
        self._idling = idling.Idling(monotonic=clock.monotonic)
        self._refusals = refusals.Refusals(monotonic=clock.monotonic)
        self.keeper = keeper.Keeper(
            client,
            release=context.release,
            parser=parser,
            dljobs=keeper.DLJobs(document=self._document, observe=self._observe),
            monotonic=clock.monotonic,
        )

    async def gathered(self, key: Key) -> Gathered | None:
        """Return what there is; None where there is no such DLJob.

        Raises:
            APIError: the API server does not answer, or refuses.
            TemporaryError: something changed meanwhile.
        """
        for found in self._store.left_out(key):
            with contextlib.suppress(api.NotFoundError):
                self._store.put(found.kind, await self._client.one(found.kind, found.key))
        await self._reads.unwatched(key)
        observed = self._observe(key)
        if observed is None:
            self._refusals.forget(key)
            self._executor.fences.forget(key)
            return None
        if await self._reads.late_pod(observed, now=self._clock.now()):
            observed = self._observe(key) or observed
        observed, unfenced = await self._fenced(key, observed)
        asked = holding.wants_events(observed, self._clock.now())
        failure = None if asked is None else await self._creations.of_job(key.namespace, asked)
        refused = holding.wants_replica_sets(observed)
        if refused is not None:
            failure = await self._creations.of_deployment(refused, dljob_uid=observed.job.meta.uid)
        evicted, limited = causes.unproven(observed), holding.wants_defaults(observed)
        defaults = await self._limit_ranges.of(key.namespace) if limited else NO_DEFAULTS
        overused = await self._overuses.of(evicted) if evicted else {}
        if asked is not None or refused is not None or evicted or limited:
            # The answer took a while: decide on what is there now.
            observed = self._observe(key) or observed
        observed = replace(observed, overused=overused)
        if reconcile.wants_prediction(observed, self._clock.now()):
            observed = await self._with_pull_secrets(key, await self._predicted(key, observed))
        observed = replace(observed, failed_creation=failure, overused=overused)
        observed = holding.with_defaults(observed, defaults)
        if causes.unproven(observed):
            raise errors.TemporaryError(f"{key}: a pod was evicted meanwhile", delay_seconds=0.0)
        return Gathered(observed, unfenced)

    def refuse(self, observed: Observed, error: executor.Refused) -> None:
        """Keep that the API server refuses what was to be done, for the next look."""
        self._refusals.note(observed, error, now=self._clock.now())

    async def _fenced(self, key: Key, observed: Observed) -> Gathered:
        """Return what there is, after the writing of the fences that are due. What is over needs none."""
        fences = self._executor.fences
        if observed.job.meta.deleting or observed.job.finished is not None:
            fences.forget(key)
            return Gathered(observed)
        fences.keep(key, observed)
        due, unfenced = list(fences.due(key, observed)), None
        for fence in due:
            try:
                await self._executor.execute(key, fence)
            except (api.ConflictError, api.NotFoundError):
                raise
            except api.APIError as error:
                unfenced = error
        return Gathered((self._observe(key) or observed) if due else observed, unfenced)

    def _observe(self, key: Key) -> Observed | None:
        found, now = self._store.observe(key, outcome=None), self._clock.now()
        idle = self._idling.of(key, () if found is None else found.pods, now=now)
        refused = self._refusals.of(self._store.dljob(key), now=now)
        return None if found is None else replace(found, idle=idle, refusals=refused)

    async def _predicted(self, key: Key, observed: Observed) -> Observed:
        spec = observed.job.spec
        if spec is None:
            return observed
        result, present = _result(observed.job), self._store.gpu_models()
        refused = observed.job.status.refused_graph
        outcome = await self._predictor.outcome(key, spec, present=present, result=result, refused=refused)
        # The prediction took a while: decide on what is there now, if it is still the same spec. A result that was
        # not there yet may be there if its extraction has ended meanwhile.
        fresh = self._observe(key)
        before = (observed.job.meta.uid, spec, observed.extractions)
        if fresh is None or (fresh.job.meta.uid, fresh.job.spec, fresh.extractions) != before:
            message = f"{key} changed while it was predicted"
            raise errors.TemporaryError(message, delay_seconds=0.0)
        learned = self.keeper.learned(key.namespace, outcomes.graph_of(outcome))
        return replace(fresh, outcome=outcome, learned=learned)

    async def _document(self, key: Key, spec: dljob.Spec) -> tasks.Answer | outcomes.Missing:
        job = self._store.dljob(key)
        result = None if job is None or job.spec != spec else _result(job)
        return await self._predictor.document(key, spec, result=result)

    async def _with_pull_secrets(self, key: Key, observed: Observed) -> Observed:
        account = extracting.borrowed_account(observed)
        if account is None:
            return observed
        return replace(observed, pull_secrets=await self._client.pull_secrets(Key(key.namespace, account)))


def _result(job: views.DLJob) -> dljob.ConfigMapRef | None:
    """Where the graph is put that has to be extracted; None: it comes from elsewhere."""
    asked = extraction.wanted(job)
    return None if asked is None else asked.result
