"""Somebody who may connect to the metrics ports: without the token, no namespace, pod or UID is told."""

import asyncio
from pathlib import Path

import pytest

from cotenant_api import errors, exposition, gpunode
from cotenant_api.names import GPUUID, GPUModel, NodeName, PodUID
from cotenant_deviceplugin.node import http, metrics
from cotenant_extender import app
from cotenant_extender.metrics import Metrics
from extender import asgi
from extender.test_app import _Service

TOKEN = "0123456789abcdef-of-the-metrics"
TENANT = gpunode.Tenant(
    pod_uid=PodUID("b7c1d2e3"), namespace="team-a", pod="train-7", memory_used_mib=2, memory_peak_mib=3
)
NAMES = (TENANT.namespace, TENANT.pod, TENANT.pod_uid)
SECONDS = 20
NOBODY = pytest.mark.parametrize(
    "shown",
    ["Bearer wrong-0123456789abcdef", "Bearer ", "Bearer", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer \xff"],
)
COMPONENTS = pytest.mark.parametrize("component", ["agent", "extender"])


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    write(path, TOKEN + "\n")
    return path


def write(path: Path, text: str | None) -> None:
    """Replace a file; None: take it away."""
    if text is None:
        path.unlink()
    else:
        path.write_text(text)


async def asked(component: str, token_file: Path | None, shown: str | None) -> tuple[int, str]:
    """Status and body of what a component answers to who shows this Authorization header."""
    readers = exposition.Readers(token_file)
    return await (of_the_agent if component == "agent" else of_the_extender)(readers, shown)


async def of_the_extender(readers: exposition.Readers, shown: str | None) -> tuple[int, str]:
    counts = Metrics()
    counts.share_seconds.labels(TENANT.namespace).inc(7)
    watched = app.create_for_monitoring(_Service(), counts, readers)
    status, body = await asgi.call(watched, "GET", "/metrics", authorization=shown)
    return status, body.decode()


async def of_the_agent(readers: exposition.Readers, shown: str | None) -> tuple[int, str]:
    gpu = gpunode.GPU(
        uuid=GPUUID("GPU-1"),
        index=0,
        model=GPUModel("Tesla-T4"),
        memory_mib=16,
        health=gpunode.Health.HEALTHY,
        tenants=(TENANT,),
    )
    made = metrics.Metrics(NodeName("n1"), "1", lambda: gpunode.Status(gpus=(gpu,), simulated=True))

    async def well() -> None:
        return None

    questions = http.Questions(metrics=made.text, unwell=well, unready=well, readers=readers)
    async with http.serving(http.Address("127.0.0.1", 0), questions) as (host, port), asyncio.timeout(SECONDS):
        reader, writer = await asyncio.open_connection(host, port)
        header = b"" if shown is None else b"Authorization: " + shown.encode() + b"\r\n"
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: n1\r\nConnection: close\r\n" + header + b"\r\n")
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
    return int(head.split()[1]), body.decode()


@COMPONENTS
async def test_nobody_is_named_to_who_shows_nothing(component: str, token_file: Path) -> None:
    for held in (token_file, None):
        status, body = await asked(component, held, None)
        assert status == 200
        assert not [name for name in NAMES if name in body]
        # What names nobody is told: an alert rests on it.
        assert "cotenant_gpu_health" in body or "cotenant_extender_ledger_drift" in body


@COMPONENTS
async def test_who_shows_the_token_reads_everything(component: str, token_file: Path) -> None:
    status, body = await asked(component, token_file, f"Bearer {TOKEN}")
    assert status == 200
    assert TENANT.namespace in body


@COMPONENTS
@NOBODY
async def test_who_shows_something_else_reads_nothing(component: str, token_file: Path, shown: str) -> None:
    assert await asked(component, token_file, shown) == (401, exposition.REFUSAL)


@COMPONENTS
async def test_no_token_opens_where_there_is_none(component: str, token_file: Path) -> None:
    assert (await asked(component, None, f"Bearer {TOKEN}"))[0] == 401
    for text in ("", "short"):
        write(token_file, text)
        assert (await asked(component, token_file, f"Bearer {text}"))[0] == 401
    write(token_file, None)
    assert (await asked(component, token_file, f"Bearer {TOKEN}"))[0] == 401


@COMPONENTS
async def test_a_token_that_was_replaced_opens_nothing_any_more(component: str, token_file: Path) -> None:
    write(token_file, f"new-{TOKEN}")
    assert (await asked(component, token_file, f"Bearer {TOKEN}"))[0] == 401
    assert (await asked(component, token_file, f"Bearer new-{TOKEN}"))[0] == 200


@pytest.mark.parametrize("text", ["", "short", "x" * 5000])
def test_a_file_without_a_token_is_refused_with_its_flag(token_file: Path, text: str) -> None:
    write(token_file, text)
    with pytest.raises(errors.InvalidInputError, match=r"--metrics-token-file: .*16 to 4096 bytes"):
        exposition.Readers.by(token_file, field="--metrics-token-file")
