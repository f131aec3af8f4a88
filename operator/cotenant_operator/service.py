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
from cotenant_operator.loop import controller, model_names
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
        namespace: of the release, where measurements are kept.
        model: None: what ships.
        devices: a file with rows of further GPU models; None: none.
    """

    kubeconfig: Path | None
    liveness_port: int | None
    namespace: str
    model: Path | None = None
    devices: Path | None = None


def utc_now() -> datetime:
    """The time of day."""
    return datetime.now(UTC)


async def serve(options: Options) -> None:
    """Run until a signal. Actions that are being done are finished first.

    Raises:
        PermanentError: no credentials, the port is taken, or graphs cannot be read with this model or on this machine.
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
    client, store = api.API(send), Store()
    work = controller.Controller(
        store=store,
        client=client,
        parser=parser,
        clock=controller.Clock(now=utc_now, monotonic=time.monotonic),
        options=controller.Options(release=options.namespace),
    )
    sweeper = resync.Sweeper(client, store, enqueue=work.enqueue)

    async def log_in() -> kopf.AiohttpSession:
        return streams.session(await connection.kopf_credentials(await load()), clean=needs.fitting)

    try:
        whole = asyncio.Event()
        answers = probes.Answers(metrics=work.metrics.text, ready=whole.is_set)
        async with probes.serving(options.liveness_port, answers), asyncio.TaskGroup() as group:
            working = group.create_task(_work(client, work, whole))
            sweeping = group.create_task(sweeper.run())
            keeping = group.create_task(work.keeper.run())
            naming = group.create_task(model_names.Names(client, active=parser.ready.model, folder=options.model).run())

            async def finish() -> None:
                """End our own tasks first: kopf would take them for its own that hang."""
                work.stop()
                sweeping.cancel()
                keeping.cancel()
                naming.cancel()
                await asyncio.wait([working], timeout=FINISH_SECONDS)
                working.cancel()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(work.keeper.write_due(all_of_it=True), timeout=FINISH_SECONDS)

            await kopf.operator(
                registry=handlers.registry(work, sweeper, login=log_in, finish=finish),
                settings=settings.settings(),
                standalone=True,
                clusterwide=True,
            )
    finally:
        await send.close()


async def _work(client: api.API, work: controller.Controller, whole: asyncio.Event) -> None:
    await resync.read_all(client, work.store)
    whole.set()
    _LOGGER.info("watching %d DLJobs", len(work.store.keys()))
    await work.run()
