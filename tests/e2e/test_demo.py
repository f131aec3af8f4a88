"""The demo's arithmetic: what is shown, what is summed up, and that a broken promise is seen."""

import io
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from cotenant_api import errors, names
from cotenant_api.names import GPUUID, GPUModel, NodeName
from cotenant_e2e import invariants
from cotenant_e2e.demo import examples, rows, screen, summary, terminal
from cotenant_e2e.demo.occupancy import Occupancy
from cotenant_e2e.invariants import Limits

GPU, OTHER = GPUUID("GPU-1"), GPUUID("GPU-2")
LIMITS = Limits(
    max_tenants=3,
    gpus={
        uuid: invariants.GPU(node=NodeName("n1"), index=index, model=GPUModel("M"), bookable_mib=1000)
        for index, uuid in enumerate((GPU, OTHER))
    },
)
GPU_NAMES = {GPU: "n1/0", OTHER: "n1/1"}


def pod(
    name: str,
    *,
    gpu: str | None = None,
    share: int = 30,
    memory_mib: int = 100,
    namespace: str = "team",
    phase: str = "Pending",
    gated: bool = False,
    **changes: Any,
) -> dict[str, Any]:
    metadata: dict[str, Any] = {"uid": name, "name": name, "namespace": namespace, "annotations": {}}
    spec: dict[str, Any] = {"schedulingGates": [{"name": names.PACKING_GATE}]} if gated else {}
    if gpu:
        spec["nodeName"] = "n1"
        booking = {"uuid": gpu, "share": share, "activeThreadPercentage": share, "memoryMiB": memory_mib}
        placement = {
            "v": 1,
            "podUID": name,
            "node": "n1",
            "container": "main",
            "policyGeneration": 1,
            "backend": "MPS",
            "processesPerGPU": 1,
            "gpus": [booking],
        }
        metadata["annotations"][names.PLACEMENT] = json.dumps(placement | changes)
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase}}


def occupied(*pods: dict[str, Any]) -> Occupancy:
    found = Occupancy(LIMITS)
    for number, one in enumerate(pods):
        found.apply("MODIFIED", one, now=float(number))
    return found


def test_a_broken_promise_is_told() -> None:
    assert occupied(pod("a", gpu=GPU)).violations == []
    assert "120 hundredths" in occupied(*(pod(name, gpu=GPU, share=60) for name in "ab")).violations[0]


def test_a_repeated_event_changes_nothing() -> None:
    found = occupied(pod("a", gpu=GPU), pod("a", gpu=GPU), pod("a", gpu=GPU))
    assert found.violations == []
    assert found.peak_jobs == 1


def test_times_are_taken_from_the_first_event_that_shows_them() -> None:
    found = occupied(pod("a", gated=True), pod("a"), pod("a", gpu=GPU), pod("a", gpu=GPU, phase="Succeeded"))
    timeline = found.timelines[next(iter(found.timelines))]
    assert (timeline.created, timeline.lifted, timeline.bound, timeline.finished) == (0.0, 1.0, 2.0, 3.0)


def test_the_summary_counts_what_was_seen() -> None:
    found = occupied(
        pod("a", gated=True),
        pod("a"),
        pod("a", gpu=GPU),
        pod("b", gpu=GPU),
        pod("a", gpu=GPU, phase="Succeeded"),
        pod("b", gpu=GPU, phase="Succeeded"),
    )
    figures = summary.of_run(found, [], Counter(), seconds=10, gpu_names=GPU_NAMES)
    assert (figures.pods, figures.jobs_at_once, figures.gpus_at_once, figures.gpus) == (2, 2, 1, 2)
    assert figures.sharing == pytest.approx(4 / 3)
    assert list(figures.waits) == [0.0, 2.0]
    assert [use.name for use in figures.by_gpu] == ["n1/0", "n1/1"]
    assert figures.by_gpu[0].busy_percent == pytest.approx(30)
    assert figures.succeeded


def test_an_unfinished_job_or_a_broken_promise_is_no_success() -> None:
    unfinished = rows.Row(namespace="team", name="a", kind="Training", phase="Queued")
    assert not summary.of_run(occupied(), [unfinished], Counter(), seconds=1, gpu_names=GPU_NAMES).succeeded
    broken = occupied(*(pod(name, gpu=GPU, share=60) for name in "ab"))
    assert not summary.of_run(broken, [], Counter(), seconds=1, gpu_names=GPU_NAMES).succeeded


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [([], 50, 0), ([3.0], 99, 3.0), ([1.0, 2.0, 3.0], 50, 2.0), ([0.0, 100.0], 99, 99)],
)
def test_percentiles(values: list[float], percent: int, expected: float) -> None:
    assert summary.percentile(values, percent) == pytest.approx(expected)


def dljob(name: str, phase: str, **changes: Any) -> dict[str, Any]:
    status = {"phase": phase, "prediction": {"utilizationPercent": 41, "upperPercent": 55, "memoryMiB": 2048}}
    return {"metadata": {"name": name, "namespace": "team"}, "spec": {}, "status": status | changes}


def test_a_row_shows_what_the_dljob_says() -> None:
    gpus = [{"uuid": GPU, "share": 55, "activeThreadPercentage": 60, "memoryMiB": 2048}]
    (row,) = rows.of_all([dljob("a", "Running", replicas=[{"gpus": gpus}])], [], GPU_NAMES)
    assert (row.utilization_percent, row.memory_mib, row.share, row.gpus) == ((41, 55), 2048, 55, ("n1/0",))
    assert not row.done


def test_co_tenants_are_named_by_their_job_and_only_while_they_run() -> None:
    mine, running, gone = pod("a-0", gpu=GPU), pod("b-0", gpu=GPU), pod("c-0", gpu=GPU, phase="Succeeded")
    for one in (mine, running, gone):
        one["metadata"]["labels"] = {names.DLJOB_LABEL: one["metadata"]["name"][0]}
    (row,) = rows.of_all([dljob("a", "Running")], [mine, running, gone], GPU_NAMES)
    assert row.co_tenants == ("b",)


def test_a_pod_of_another_controller_is_a_row_of_its_own() -> None:
    one = pod("web-1", gpu=GPU, phase="Running")
    one["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet"}]
    (row,) = rows.of_all([], [one], GPU_NAMES)
    assert (row.kind, row.phase, row.gpus, row.done) == ("Deployment", "Running", ("n1/0",), True)


def test_a_waiting_pod_says_why() -> None:
    one = pod("p", gated=True)
    condition = {"type": names.PACKED, "status": "False", "reason": "TenantLimit", "message": "2 GPUs hold 3 jobs"}
    one["status"]["conditions"] = [condition]
    (row,) = rows.of_all([], [one], GPU_NAMES)
    assert (row.phase, row.reason) == ("Queued", "TenantLimit: 2 GPUs hold 3 jobs")


def console() -> tuple[Console, io.StringIO]:
    out = io.StringIO()
    return Console(file=out, width=160, height=12, force_terminal=False), out


def test_plain_lines_show_each_change_once_and_say_that_gpus_are_simulated() -> None:
    shown, out = console()
    row = rows.Row(namespace="team", name="a", kind="Training", phase="Running", gpus=("n1/0",), share=5)
    with screen.of(shown) as lines:
        lines.show([row], "1 running", seconds=1)
        lines.show([row], "1 running", seconds=2)
    assert out.getvalue().count("team/a") == 1
    assert "on n1/0 (simulated)" in out.getvalue()


def test_a_table_that_is_too_long_counts_the_rest() -> None:
    shown, out = console()
    many = [rows.Row(namespace="team", name=f"job-{n}", kind="Training", phase="Running") for n in range(30)]
    shown.print(screen.table(many, title="title", room=10, width=160))
    assert "... and 20 more" in out.getvalue()
    assert "simulated" in out.getvalue()


def test_on_a_narrow_screen_names_give_way_and_numbers_do_not() -> None:
    shown, out = console()
    row = rows.Row(
        namespace="language",
        name="gpt2-with-a-long-name-that-nobody-needs-whole",
        kind="Training",
        phase="Succeeded",
        utilization_percent=(87, 100),
        memory_mib=1024,
        share=100,
        gpus=("h200-0/2",),
    )
    shown.print(screen.table([row], title="title", room=10, width=80), width=80)
    line = out.getvalue().splitlines()[-2]
    for whole in ("language/gpt2-with-", "Succeeded", "87 (100)", "h200-0/2"):
        assert whole in line
    assert "Training" not in line


def test_the_picture_shows_the_rows_and_loads_nothing(tmp_path: Path) -> None:
    row = rows.Row(namespace="team", name="job", kind="Training", phase="Running", gpus=("n1/0",))
    screen.picture([row], "headline", tmp_path / "demo.svg")
    text = (tmp_path / "demo.svg").read_text()
    assert "team/job" in text
    assert "@font-face" not in text


def test_the_summary_names_what_is_unfinished() -> None:
    shown, out = console()
    unfinished = rows.Row(namespace="team", name="a", kind="Training", phase="Queued", reason="TenantLimit: full")
    shown.print(screen.summary(summary.of_run(occupied(), [unfinished], Counter(), seconds=1, gpu_names=GPU_NAMES)))
    assert "NOT FINISHED: team/a is Queued. TenantLimit: full" in out.getvalue()


def test_the_examples_are_what_was_promised() -> None:
    kinds = Counter(str(manifest["kind"]) for manifest in examples.manifests())
    assert kinds["DLJob"] >= 40
    assert (kinds["Job"], kinds["Deployment"]) == (1, 1)
    assert examples.expected_rows() == kinds["DLJob"] + 2


def test_what_a_command_prints_to_a_terminal_becomes_a_picture_with_its_colours(tmp_path: Path) -> None:
    program = (sys.executable, "-c", "import sys; print('\\x1b[31mbusy\\x1b[0m', sys.stdout.isatty())")
    shown = terminal.session(("show",), terminal.printed(program, {}))
    assert (shown.plain, terminal.width_of(shown)) == ("$ show\nbusy True", 9)
    terminal.picture(shown, tmp_path / "shown.svg", title="here", width=terminal.width_of(shown))
    text = (tmp_path / "shown.svg").read_text()
    assert "busy" in text
    assert "#cc555a" in text


def test_a_command_that_fails_makes_no_picture() -> None:
    program = (sys.executable, "-c", "print('no cluster'); raise SystemExit(1)")
    with pytest.raises(errors.PermanentError, match="no cluster"):
        terminal.printed(program, {})
