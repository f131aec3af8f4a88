"""What Prometheus is told of the operator, against a cluster in memory; and whether it is ready."""

import re

import aiohttp
import pytest

from cotenant_operator import probes
from operator_kit import objects
from operator_kit.cluster import Cluster
from operator_kit.server import Fault


def value(cluster: Cluster, name: str, **labels: str) -> float:
    """A metric's value; 0 where it is not there."""
    told = ",".join(f'{key}="{text}"' for key, text in labels.items())
    line = rf"^{re.escape(f'cotenant_operator_{name}' + (f'{{{told}}}' if told else ''))} (\S+)$"
    found = re.search(line, cluster.work.metrics.text().decode(), re.MULTILINE)
    return float(found[1]) if found else 0.0


async def test_looks_at_dljobs_are_counted_by_what_came_of_them(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.settle()
    done = value(cluster, "reconciles_total", result="done")
    assert done > 0
    assert value(cluster, "reconcile_seconds_count") == done
    cluster.server.fault = lambda request: Fault(effect=False, status=0) if request.method == "PATCH" else None
    cluster.server.change("dljobs", "train", lambda job: job["spec"].update(suspend=True))
    await cluster.settle()
    assert value(cluster, "reconciles_total", result="again") == 1
    assert value(cluster, "reconciles_total", result="refused") == 0


async def test_dljobs_are_counted_by_phase_until_they_are_gone(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.settle()
    assert value(cluster, "dljobs", phase="Queued") == 1
    await cluster.run("create_pods", "place", "run_pods", "succeed")
    assert (value(cluster, "dljobs", phase="Queued"), value(cluster, "dljobs", phase="Succeeded")) == (0, 1)
    cluster.server.delete("dljobs", "train")
    await cluster.settle()
    assert value(cluster, "dljobs", phase="Succeeded") == 0


async def test_attempts_that_follow_another_are_counted_by_why_that_ended(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(replicas=2))
    await cluster.run("create_pods", "place", "run_pods", "fail")
    await cluster.advance(3600)
    assert value(cluster, "restarts_total", cause="Failed") == 1
    assert value(cluster, "restarts_total", cause="OutOfMemory") == 0


@pytest.mark.parametrize(("step", "reason"), [("succeed", "Completed"), ("fail", "BackoffLimitExceeded")])
async def test_ends_are_counted_once_by_reason(cluster: Cluster, step: str, reason: str) -> None:
    cluster.apply(objects.dljob(backoffLimit=0))
    await cluster.run("create_pods", "place", "run_pods", step)
    await cluster.advance(3600)
    assert cluster.condition({"succeed": "Complete", "fail": "Failed"}[step])["status"] == "True"
    assert value(cluster, "finished_total", reason=reason) == 1


async def test_a_spec_that_nobody_has_seen_grows_older_until_its_status_says_so(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.settle()
    assert value(cluster, "unobserved_seconds") == 0
    refused = Fault(effect=False, status=0)
    cluster.server.fault = lambda request: refused if request.path.endswith("/status") else None
    cluster.server.change("dljobs", "train", lambda job: job["spec"].update(suspend=True))
    await cluster.settle()
    await cluster.advance(100)
    assert value(cluster, "unobserved_seconds") == 100
    cluster.server.fault = lambda _: None
    await cluster.advance(60)
    assert value(cluster, "unobserved_seconds") == 0


async def test_a_dljob_that_is_gone_is_behind_no_more(cluster: Cluster) -> None:
    cluster.server.fault = lambda request: Fault(effect=False, status=0) if request.path.endswith("/status") else None
    cluster.apply(objects.dljob())
    await cluster.settle()
    await cluster.advance(100)
    cluster.server.delete("dljobs", "train")
    await cluster.settle()
    assert value(cluster, "unobserved_seconds") == 0


async def test_what_is_due_is_counted_until_a_worker_takes_it(cluster: Cluster) -> None:
    for name in ("a", "b"):
        cluster.apply(objects.dljob(name))
    await cluster.deliver()
    assert value(cluster, "queue_due") == 2
    await cluster.settle()
    assert value(cluster, "queue_due") == 0


async def test_it_is_ready_when_everything_has_been_read() -> None:
    whole = False

    async def status(path: str) -> int:
        url = f"http://127.0.0.1:{port}{path}"
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            return answer.status

    async with probes.serving(0, probes.Answers(metrics=bytes, ready=lambda: whole)) as port:
        assert (await status("/healthz"), await status("/readyz")) == (200, 503)
        whole = True
        assert (await status("/healthz"), await status("/readyz"), await status("/metrics")) == (200, 200, 200)
