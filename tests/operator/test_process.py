"""The process around the decisions: the loop, the watches' handlers, kopf's settings, the command line."""

import argparse
import asyncio
import copy
import itertools
import logging
import socket
from pathlib import Path
from typing import Any

import kopf
import pytest

from cotenant_api import errors, logs
from cotenant_operator import command, probes
from cotenant_operator.kube import api
from cotenant_operator.loop import controller
from cotenant_operator.state.kinds import WATCHED, Kind
from cotenant_operator.watches import handlers, resync, settings
from operator_kit import objects
from operator_kit.cluster import Cluster
from operator_kit.server import Fault

Json = dict[str, Any]


async def test_the_loop_works_on_many_and_ends_when_it_is_stopped(cluster: Cluster) -> None:
    count = 2 * controller.WORKERS
    for number in range(count):
        cluster.apply(objects.dljob(f"train-{number}"))
    await cluster.deliver()
    written: set[str] = set()

    def stop_when_all_are_written(request: api.Request) -> None:
        if request.path.endswith("/status"):
            written.add(request.path)
        if len(written) == count:
            cluster.work.stop()

    cluster.server.fault = stop_when_all_are_written
    await asyncio.wait_for(cluster.work.run(), timeout=30)
    assert {cluster.dljob(f"train-{number}")["status"]["phase"] for number in range(count)} == {"Queued"}


async def test_a_fault_that_nobody_foresaw_stops_no_other_dljob(cluster: Cluster) -> None:
    def fail_for_one(request: api.Request) -> None:
        if "poison" in request.path or (request.body or {}).get("metadata", {}).get("name") == "poison-1":
            raise ZeroDivisionError

    cluster.server.fault = fail_for_one
    cluster.apply(objects.dljob("poison"))
    cluster.apply(objects.dljob("train"))
    await cluster.run("create_pods", "place", "run_pods")
    assert cluster.dljob("train")["status"]["phase"] == "Running"
    assert cluster.work.queued == 1
    cluster.server.fault = lambda _: None
    await cluster.advance(60)
    await cluster.run("create_pods", "place")
    assert cluster.dljob("poison")["status"]["phase"] == "Running"


@pytest.mark.parametrize("phase", ["Unheard", 7])
async def test_dljob_whose_status_cannot_be_read_is_left_alone(cluster: Cluster, phase: Any) -> None:
    cluster.server.put("dljobs", objects.dljob(), phase=phase)
    cluster.restart()
    await cluster.start()
    await cluster.settle()
    assert cluster.server.all("jobs") == []
    assert cluster.dljob()["status"] == {"phase": phase}
    assert cluster.events() == ["StatusUnreadable"]


async def test_events_that_are_refused_keep_no_status_back(cluster: Cluster) -> None:
    cluster.server.fault = lambda r: Fault(effect=False, status=403) if r.path.endswith("/events") else None
    cluster.apply(objects.dljob())
    await cluster.settle()
    assert cluster.dljob()["status"]["phase"] == "Queued"


async def test_port_in_use_is_told_with_the_remedy() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        answers = probes.Answers(metrics=bytes, ready=bool)
        with pytest.raises(errors.PermanentError, match="--liveness-port"):
            async with probes.serving(taken.getsockname()[1], answers):
                pass


def test_missing_credentials_end_the_command_at_once(tmp_path: Path, kept_levels: None) -> None:
    with pytest.raises(errors.PermanentError, match="--kubeconfig"):
        command.run(parsed("--kubeconfig", str(tmp_path / "none")))


async def test_every_watched_kind_has_a_handler(cluster: Cluster) -> None:
    async def login() -> kopf.ConnectionInfo:
        raise AssertionError

    async def finish() -> None:
        cluster.work.stop()

    registry = handlers.registry(cluster.work, cluster.sweeper, login=login, finish=finish)
    assert isinstance(registry, kopf.OperatorRegistry)
    assert set(settings.RESOURCES) == set(WATCHED)


async def test_listing_a_known_object_again_asks_for_a_sweep(cluster: Cluster) -> None:
    value = cluster.apply(objects.dljob())
    take_in = handlers.handler(Kind.DLJOB, cluster.work, cluster.sweeper)
    await take_in(event={"type": None, "object": copy.deepcopy(value)})
    await cluster.deliver()
    cluster.server.requests.clear()
    await cluster.sweeper.sweep_wanted()
    assert cluster.server.requests == []
    await take_in(event={"type": None, "object": copy.deepcopy(value)})
    await cluster.sweeper.sweep_wanted()
    assert [request.metadata_only for request in cluster.server.requests] == [True]


@pytest.mark.parametrize("kind", ["ADDED", "DELETED"])
async def test_of_an_event_that_was_taken_in_only_what_kopf_looks_at_is_left(cluster: Cluster, kind: str) -> None:
    value = cluster.apply(objects.dljob())
    event = {"type": kind, "object": copy.deepcopy(value)}
    await handlers.handler(Kind.DLJOB, cluster.work, cluster.sweeper)(event=event)
    assert event["object"] == {field: value[field] for field in ("apiVersion", "kind", "metadata")}


async def test_every_event_of_a_job_that_runs_told_again_changes_nothing(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run("create_pods", "place", "run_pods")
    for event in list(cluster.server.watched):
        await cluster.tell(event)
    await cluster.settle()
    assert cluster.dljob()["status"]["phase"] == "Running"


async def test_sweep_that_fails_is_wanted_again(cluster: Cluster) -> None:
    cluster.server.fault = lambda _: Fault(effect=False, status=500)
    cluster.sweeper.want(Kind.POD)
    await cluster.sweeper.sweep_wanted()
    cluster.server.fault = lambda _: None
    cluster.server.requests.clear()
    await cluster.sweeper.sweep_wanted()
    # The version of the kind as a whole, and the listing.
    assert [request.query["limit"] for request in cluster.server.requests] == ["1", "500"]


async def test_a_sweep_that_fails_is_tried_again_soon_and_later_each_time(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resync, "SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(resync, "RETRY_SECONDS", (0.01, 10.0))
    times: list[float] = []
    went_well = asyncio.Event()

    def fault(request: api.Request) -> Fault | None:
        if request.query["limit"] == "1" and len(times) < 4:
            times.append(asyncio.get_running_loop().time())
            return Fault(effect=False, status=500)
        went_well.set()
        return None

    cluster.server.fault = fault
    cluster.sweeper.want(Kind.POD)
    sweeping = asyncio.create_task(cluster.sweeper.run())
    await asyncio.wait_for(went_well.wait(), timeout=10)
    sweeping.cancel()
    for number, (one, next_one) in enumerate(itertools.pairwise(times)):
        assert next_one - one >= 0.01 * 2**number


async def test_the_start_waits_for_kinds_that_are_not_there_yet(cluster: Cluster) -> None:
    answers = iter([Fault(effect=False, status=404), Fault(effect=False, status=403), Fault(effect=False, status=0)])
    cluster.apply(objects.dljob())
    cluster.restart()
    cluster.server.fault = lambda _: next(answers, None)
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    await resync.read_all(cluster.client, cluster.store, pause=pause)
    assert len(pauses) == 3
    assert cluster.store.keys()


def test_kopf_writes_nothing_into_anybodys_object() -> None:
    chosen = settings.settings()
    stored: Json = {}
    body: Any = {"metadata": {}, "spec": {"a": 1}}
    storage: Any = chosen.persistence.diffbase_storage
    storage.store(body=body, patch=stored, essence=storage.build(body=body))
    progress: Any = chosen.persistence.progress_storage
    progress.store(key="k", record={}, body=body, patch=stored)
    progress.touch(body=body, patch=stored, value="x")
    progress.purge(key="k", body=body, patch=stored)
    assert stored == {}
    assert storage.fetch(body=body) is None
    assert progress.fetch(key="k", body=body) is None
    assert progress.clear(essence=body) == body
    assert not chosen.posting.enabled
    assert chosen.peering.standalone


def test_only_what_a_dljob_made_is_watched() -> None:
    selectors = {str(key): value for key, value in settings.settings().watching.label_selectors.items()}
    assert set(selectors.values()) == {"cotenant.dev/dljob"}
    assert len(selectors) == 4


def parsed(*argv: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    command.configure(parser)
    return parser.parse_args(argv)


def test_command_line_has_its_defaults() -> None:
    found = parsed()
    assert found.liveness_port is None
    assert not found.verbose


@pytest.mark.parametrize("argv", [("--liveness-port", "x"), ("--liveness-port", "0"), ("--liveness-port", "70000")])
def test_port_that_is_none_is_refused(argv: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parsed(*argv)
    assert "--liveness-port" in capsys.readouterr().err


@pytest.fixture
def kept_levels() -> Any:
    names = ("kopf", "asyncio", "aiohttp.access")
    before = {name: logging.getLogger(name).level for name in names}
    yield
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


def test_of_kopf_only_what_went_wrong_is_logged(kept_levels: None) -> None:
    command.configure_logging(logs.Format.TEXT, verbose=False)
    assert not logging.getLogger("kopf.objects").isEnabledFor(logging.INFO)
    assert logging.getLogger("kopf.objects").isEnabledFor(logging.WARNING)
