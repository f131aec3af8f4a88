"""The operator as a process: connection, observed state, watches and workers put together."""

import asyncio
import contextlib
import functools
import logging
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import kopf

from cotenant_operator import probes
from cotenant_operator.kube import api, connection, streams
from cotenant_operator.loop import controller, leading, model_names
from cotenant_operator.loop.clock import Clock
from cotenant_operator.parsing import confinement, process
from cotenant_operator.state import needs
from cotenant_operator.state.store import Store
from cotenant_operator.watches import handlers, resync, settings

_LOGGER = logging.getLogger(__name__)

FINISH_SECONDS: Final = 5.0
"""How long actions that are being done may take after a signal."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """How to run.

    Attributes:
        kubeconfig: None: the pod's ServiceAccount.
        liveness_port: None: no endpoint.
        namespace: of the release, where measurements are kept, and the Lease.
        identity: by which it holds the Lease; empty: one of its own.
        model: None: what ships.
        devices: a file with rows of further GPU models; None: none.
        label_keys: keys of the DLJobs' labels that their pods get, too.
    """

    kubeconfig: Path | None
    liveness_port: int | None
    namespace: str
    identity: str = ""
    model: Path | None = None
    devices: Path | None = None
    label_keys: frozenset[str] = frozenset()


def utc_now() -> datetime:
    """Return the time of day."""
    return datetime.now(UTC)


def _awake() -> float:
    """Seconds that only grow, also while the machine is suspended where its kernel counts that."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


async def serve(options: Options) -> None:
    """Run until a signal. Actions that are being done are finished first. Beside another operator, wait for its end.

    Raises:
        PermanentError: no credentials, the port is taken, or graphs cannot be read with this model or on this machine.
        LostError: another operator may lead.
    """
    confinement.forbid_tracing()
    parser = process.Process(model=options.model, devices=options.devices)
    # Before credentials are read: nothing of them is in its memory.
    await parser.start()
    try:
        await _serve(options, parser)
    finally:
        await parser.close()


async def _serve(options: Options, parser: process.Process) -> None:
    load = functools.partial(connection.load, options.kubeconfig)
    # Before anything starts: what is wrong here is told in one line.
    await load()
    send = connection.Connection(load)
    leader = leading.Leader(
        api.API(send), namespace=options.namespace, now=utc_now, monotonic=_awake, identity=options.identity
    )
    client, store = api.API(leading.guarded(send, leader)), Store(copied=options.label_keys)
    work = controller.Controller(
        store=store,
        client=client,
        parser=parser,
        clock=Clock(now=utc_now, monotonic=time.monotonic),
        options=controller.Options(release=options.namespace, leads=leader.leads),
    )
    names = model_names.Names(client, active=parser.ready.model, folder=options.model)
    sweeper = resync.Sweeper(client, store, enqueue=work.enqueue)

    async def log_in() -> kopf.AiohttpSession:
        return streams.session(await connection.kopf_credentials(await load()), clean=needs.fitting)

    try:
        whole = asyncio.Event()
        answers = probes.Answers(metrics=work.metrics.text, ready=whole.is_set)
        async with probes.serving(options.liveness_port, answers), asyncio.TaskGroup() as group:
            sweeping = group.create_task(sweeper.run())
            acting = _Acting(group, leader, work, names)

            async def wait() -> None:
                """Read what there is, and begin when it may act; what comes meanwhile is taken in by the watches."""
                await resync.read_all(client, store)
                whole.set()
                _LOGGER.info("watching %d DLJobs", len(store.keys()))
                await acting.begin()

            waiting = group.create_task(wait())

            async def finish() -> None:
                """End our own tasks first: kopf would take them for its own that hang."""
                sweeping.cancel()
                waiting.cancel()
                await asyncio.wait([waiting])
                await acting.end()

            await kopf.operator(
                registry=handlers.registry(work, sweeper, login=log_in, finish=finish),
                settings=settings.settings(),
                standalone=True,
                clusterwide=True,
            )
    except* leading.LostError as lost:
        raise lost.exceptions[0] from None
    finally:
        await send.close()


class _Acting:
    """What only the operator that leads does.

    Args:
        group: its tasks are of it.
        leader: says who leads.
        work: on DLJobs.
        names: of models, for the PackingPolicies.
    """

    def __init__(
        self, group: asyncio.TaskGroup, leader: leading.Leader, work: controller.Controller, names: model_names.Names
    ) -> None:
        self._group, self._leader, self._work, self._names = group, leader, work, names
        self._working: asyncio.Task[None] | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._beside: list[asyncio.Task[None]] = []

    async def begin(self) -> None:
        """Wait until it may act, then begin."""
        await self._leader.lead()
        self._renewing = self._group.create_task(self._leader.keep())
        self._working = self._group.create_task(self._work.run())
        self._beside = [self._group.create_task(one) for one in (self._work.keeper.run(), self._names.run())]

    async def end(self) -> None:
        """Finish what is being done, then let another lead."""
        if self._working is not None and self._renewing is not None:
            self._work.stop()
            for task in self._beside:
                task.cancel()
            await asyncio.wait([self._working], timeout=FINISH_SECONDS)
            self._working.cancel()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._work.keeper.write_due(all_of_it=True), timeout=FINISH_SECONDS)
            self._renewing.cancel()
            await asyncio.wait([self._renewing])
        # Also where the request that takes the Lease was broken off.
        await self._leader.release()
