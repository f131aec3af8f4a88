"""The experiments with MPS, carried out as on a GPU: by the same program, against both stand-ins."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from cotenant_predictor.profiling.behaviour import questions, report
from gpu import report as gpu_report
from profiling import behaviour_labs
from profiling.behaviour_labs import Campaign

_RESULTS = behaviour_labs.GPU / "results" / "NVIDIA-H200"
MEASURED = gpu_report.results_of([_RESULTS / "behaviour", _RESULTS / "behaviour-again"])
"""What a real GPU answered, as it is kept."""
FIGURES = (
    "agent-mps: described",
    "agent-nvml: usage",
    "agent-tenant: observedFault",
    "kill-terminated: kills",
    "kill-terminated: listedWhileAlive",
    "kill: kills",
    "memory-limit: nvmlProcessMiB",
)
"""Numbers of processes, counts of kills, and 3 MiB."""
HARSHER = ("agent-tenant: observedKill", "kill: neighbourErrors", "kill: states")
"""A busy tenant that is killed hurts its neighbours every time; on a GPU it did in some of the cases."""
NOT_FOLLOWED = ("agent-tenant: canary", "nvml: events", "nvml: utilization")
"""It computes nothing and has one event; its libcuda lacks what a canary calls, which another one of it has."""

PAGE = "".join(
    f"# {name}\n<!-- begin: {name} -->\nto be replaced\n<!-- end: {name} -->\n"
    for name in (gpu_report.BEHAVIOUR, gpu_report.MODELS)
)


class Labs(NamedTuple):
    """All experiments on the stand-in, in two campaigns that ran at once, and the quicker ones on the model."""

    endings: Campaign
    others: Campaign
    modelled: Campaign

    def results(self) -> list[dict[str, Any]]:
        """Of all three."""
        return [result for campaign in self for result in campaign.results()]

    def seen(self, name: str) -> dict[str, Any]:
        """What the stand-in did in an experiment."""
        return (self.endings if questions.named(name).stage == "endings" else self.others).seen(name)


@pytest.fixture(scope="session")
def labs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Labs]:
    folder = tmp_path_factory.mktemp("behaviour")
    with contextlib.ExitStack() as cleanup:
        found = Labs(
            cleanup.enter_context(behaviour_labs.on_stand_in(folder / "endings")),
            cleanup.enter_context(behaviour_labs.on_stand_in(folder / "others")),
            behaviour_labs.on_simulated_device(folder / "modelled"),
        )
        stages = ("endings", "limits,surroundings,management", "endings")
        running = [cleanup.enter_context(campaign.start(names)) for campaign, names in zip(found, stages, strict=True)]
        for process in running:
            text = process.communicate(timeout=240)[1]
            assert text.endswith(" 0 left\n"), text
        yield found


def test_every_experiment_has_a_result_that_says_what_is_documented_and_that_it_is_simulated(labs: Labs) -> None:
    found = [*labs.endings.results(), *labs.others.results()]
    assert {result["run"]["experiment"] for result in found} == {one.name for one in questions.EXPERIMENTS}
    assert all(result["simulated"] and "stand-in" in result["environment"]["driver"] for result in found)
    for result in found:
        experiment = questions.named(result["run"]["experiment"])
        keys = {question.key for question in experiment.questions}
        seen = result["experiment"]
        assert set(seen["documented"]) == keys
        assert set(seen["answers"]) | set(seen["reasons"]) == keys
        assert not set(seen["answers"]) & set(seen["reasons"])
        assert not any("broke off" in reason for reason in seen["reasons"].values()), seen["reasons"]


def test_the_stand_in_does_what_is_documented_but_for_the_list_of_compute_processes(labs: Labs) -> None:
    lines = report.summary([_stand_in(labs)])
    assert [line.partition(": ")[0] for line in lines] == ["- **stand-in**, `nvml`, compute processes"]


def test_the_stand_in_answers_as_a_real_gpu_did_but_where_it_says_otherwise(labs: Labs) -> None:
    real = next(column for column in report.columns(MEASURED) if column.real)
    ours = _stand_in(labs)
    other = set()
    for experiment in questions.EXPERIMENTS:
        for question in experiment.questions:
            seen, said = (report.merged(experiment, question, column) for column in (real, ours))
            if None not in (seen, said) and seen != said and not question.timed:
                other.add(f"{experiment.name}: {question.key}")
    assert other == {*FIGURES, *HARSHER, *NOT_FOLLOWED}


def _stand_in(labs: Labs) -> report.Column:
    return report.Column(report.STAND_IN, tuple(labs.endings.results() + labs.others.results()))


def test_a_killed_tenant_hurts_its_neighbours_unless_the_daemon_has_ended_it_before(labs: Labs) -> None:
    assert labs.seen("kill")["answers"]["neighbourErrors"] == 2
    ended = labs.seen("kill-terminated")["answers"]
    assert (ended["kills"], ended["neighbourErrors"], ended["states"]) == (1, 0, ["ACTIVE"])
    assert ended["victimErrors"] == ["CUDA_ERROR_MPS_CLIENT_TERMINATED (810)"]


def test_both_of_two_processes_get_the_whole_limit(labs: Labs) -> None:
    assert labs.seen("two-processes")["answers"] == {"eachGetsAll": True, "sumMiB": 3040}


def test_users_wait_for_one_another_without_a_multiuser_server(labs: Labs) -> None:
    assert labs.seen("users")["answers"] == {"otherWaits": True, "otherRunsAfter": True, "bothRun": True}


def test_the_agents_own_code_reads_the_library_and_the_daemon(labs: Labs) -> None:
    found = labs.seen("agent-nvml")["answers"]
    assert (found["smCount"], found["xids"], found["clientsFound"]) == (132, [31], True)
    found = labs.seen("agent-mps")
    assert found["answers"]["observed"] == "Active, 2 clients"
    assert found["answers"]["faultSeen"] == 2
    spoken = next(record["content"] for record in found["records"] if record["what"] == "word for word")
    assert spoken["answers"]["defaultPercentage"] == "100.0\n"


def test_what_a_stand_in_does_not_know_is_a_reason_and_no_figure(labs: Labs) -> None:
    assert labs.seen("priority")["reasons"]["preferred"] == "not modelled"
    assert labs.seen("memory-limit")["reasons"]["shownFreeMiB"] == "not modelled"


def test_the_modelled_device_names_what_it_does_otherwise(labs: Labs) -> None:
    column = report.Column(report.SIMULATED, tuple(labs.modelled.results()))
    assert [line.partition(": ")[0].split(", ")[1] for line in report.summary([column])] == [
        "`fault`",
        "`kill-terminated`",
    ]


def test_a_second_call_has_nothing_left_to_do(labs: Labs) -> None:
    assert labs.endings.carry_out("endings") == "11 of 11 runs done, 0 left\n"


def test_models_are_left_with_the_reason_where_the_driver_is_a_stand_in(labs: Labs) -> None:
    with labs.others.start("percentages") as process:
        text = process.communicate(timeout=60)[1]
    assert process.returncode == 3
    assert text.endswith("  80: the driver is a stand-in: it runs no model\n")


def test_without_the_control_program_nothing_is_written(tmp_path: Path) -> None:
    with behaviour_labs.on_stand_in(tmp_path / "campaign") as campaign:
        campaign.environment["PATH"] = str(tmp_path)
        with campaign.start("limits") as process:
            text = process.communicate(timeout=60)[1]
    assert process.returncode == 3
    assert "6: no MPS for this run: nvidia-cuda-mps-control is neither on PATH" in text
    assert campaign.results() == []


def test_the_report_writes_both_sections_and_keeps_kinds_of_hardware_apart(labs: Labs, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    sources = [str(campaign.folder) for campaign in labs]
    assert gpu_report.main([*sources, "--write", str(page)]) == 0
    text = page.read_text()
    assert "to be replaced" not in text
    assert "| | documented | simulated device | stand-in | real GPU |" in text
    assert "- real GPU: not measured yet" in text
    row = next(line for line in text.splitlines() if line.startswith("| state of the server while they live"))
    assert row.endswith("| FAULT | FAULT | not measured yet |")


def test_the_script_keeps_archives_that_the_report_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with behaviour_labs.on_stand_in(tmp_path / "unused") as campaign:
        environment = {**campaign.environment, "PYTHON": sys.executable, "PROFILE": " ".join(behaviour_labs.QUICK)}
        command = [str(behaviour_labs.GPU / "run.sh"), "behaviour", "surroundings", str(tmp_path / "kept")]
        subprocess.run(command, env=environment, check=True, capture_output=True)
    assert gpu_report.main([str(tmp_path / "kept" / "campaign-0.tar.gz")]) == 0
    assert "| does it run | on, without MPS (nvidia-cuda-mps-control(1)) | not measured yet | yes |" in (
        capsys.readouterr().out
    )
