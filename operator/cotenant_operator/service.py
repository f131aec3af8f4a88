"""The operator as a process: connection, observed state, watches and workers put together."""

import asyncio
import contextlib
import functools
import logging
import socket
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import kopf

from cotenant_api import errors
from cotenant_operator.graphs import predictions
from cotenant_operator.kube import api, connection
from cotenant_operator.loop import controller, model_names
from cotenant_operator.state.store import Store
from cotenant_operator.watches import handlers, resync, settings
from cotenant_predictor import devices
from cotenant_predictor.models import store as models

_LOGGER = logging.getLogger(__name__)

_HOST: Final = "0.0.0.0"  # noqa: S104 - kubelet probes the pod's address
FINISH_SECONDS: Final = 5.0
"""How long actions that are being done may take after a signal."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """`kubeconfig`: None: the pod's ServiceAccount. `liveness_port`: None: no endpoint. `model`: None: what ships."""

    kubeconfig: Path | None
    liveness_port: int | None
    model: Path | None = None


def utc_now() -> datetime:
    """The time of day."""
    return datetime.now(UTC)


def check_port(port: int | None) -> None:
    """Raises PermanentError where the port is taken."""
    if port is None:
        return
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except OSError as error:
            text = f"port {port} cannot be used: {error.strerror}: choose another with --liveness-port"
            raise errors.PermanentError(text) from error


async def serve(options: Options) -> None:
    """Run until a signal. Actions that are being done are finished first.

    Raises:
        InvalidInputError: the model cannot be used.
        PermanentError: no credentials, or the port is taken.
    """
    model = models.load(options.model)
    load = functools.partial(connection.load, options.kubeconfig)
    # Before anything starts: what is wrong here is told in one line.
    await load()
    check_port(options.liveness_port)
    send = connection.Connection(load)
    client, store = api.API(send), Store()
    work = controller.Controller(
        store=store,
        client=client,
        predictor=predictions.Predictor(client.config_map, devices=devices.load(), knowledge=model.knowledge()),
        clock=controller.Clock(now=utc_now, monotonic=time.monotonic),
    )
    sweeper = resync.Sweeper(client, store, enqueue=work.enqueue)

    async def log_in() -> kopf.ConnectionInfo:
        return await connection.kopf_credentials(await load())

    try:
        async with asyncio.TaskGroup() as group:
            working = group.create_task(_work(client, work))
            sweeping = group.create_task(sweeper.run())
            keeping = group.create_task(work.keeper.run())
            naming = group.create_task(model_names.Names(client, active=model.reference, folder=options.model).run())

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
                liveness_endpoint=_endpoint(options.liveness_port),
            )
    finally:
        await send.close()


async def _work(client: api.API, work: controller.Controller) -> None:
    await resync.read_all(client, work.store)
    _LOGGER.info("watching %d DLJobs", len(work.store.keys()))
    await work.run()


def _endpoint(port: int | None) -> str | None:
    return None if port is None else f"http://{_HOST}:{port}/healthz"
