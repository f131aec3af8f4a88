"""Whole campaigns on the simulated GPU: the same processes, files and daemon as on a real one."""

import argparse
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from cotenant_api import errors
from cotenant_predictor.commands import profile as command
from cotenant_predictor.datasets import measurements
from cotenant_predictor.profiling import sets
from cotenant_predictor.profiling.simulated import device
from cotenant_predictor.profiling.store import Store, pack
from profiling.conftest import Lab

MakeLab = Callable[..., Lab]
LSTM, SERVING = "lstm-256x1-16", "squeezenet-inference-8"


def write_graphs(folder: Path) -> None:
    """As the extractor would; this environment has no torch."""
    store = Store(folder)
    operator = {"class": "matmul", "name": "aten::mm", "phase": "Forward", "flops": 10**9, "bytesRead": 10**6}
    for number, job in enumerate(sets.smoke().jobs):
        mode = "Training" if job.training else "Inference"
        graph = {"v": 1, "name": job.name, "mode": mode, "batchSize": job.batch_size, "parameters": 10 + number}
        store.write_graph(job.name, {**graph, "parameterBytes": 40, "operators": [operator]})


def run_command(*words: str) -> int:
    parser = argparse.ArgumentParser()
    command.configure(parser)
    return command.run(parser.parse_args(words))


def ended(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def test_a_campaign_measures_alone_and_under_every_mechanism_and_says_it_is_simulated(measured: Lab) -> None:
    assert (measured.folder / "printed").read_text().endswith("33 of 33 runs done, 0 left\n")
    found = measured.results()
    assert all(result["simulated"] and result["environment"]["driver"] == "simulated" for result in found)
    assert {result["run"]["mechanism"] for result in found} == {"Alone", "MPS", "TimeSlicing", "PriorityStreams"}
    assert all(row["overlapped"] for result in found for row in result["tenants"] if result["outcome"] == "Ok")
    assert measured.gpu.tenants() == {}, "every process has ended"


def test_a_job_is_slower_beside_others_that_crowd_the_gpu(measured: Lab) -> None:
    assert _rate(measured, "alone") > _rate(measured, "pairs") > _rate(measured, "triples")


def test_a_limit_below_the_need_is_out_of_memory_and_the_neighbour_goes_on(measured: Lab) -> None:
    found = measured.results("memory")
    alone = {
        result["run"]["tenants"][0]["memory_limit_percent"]: result for result in found if not result["tenants"][1:]
    }
    assert (alone[50]["outcome"], alone[150]["outcome"]) == ("OutOfMemory", "Ok")
    for result in (result for result in found if result["tenants"][1:]):
        assert [row["outcome"] for row in result["tenants"]] == ["OutOfMemory", "Ok"]
        assert result["tenants"][1]["stepsPerSecond"] > 0


def test_a_job_that_crashes_or_hangs_is_a_result_and_the_others_are_measured(make: MakeLab) -> None:
    lab = make(faults={LSTM: "Crash", SERVING: "Hang"})
    lab.measure("--stages", "alone,timeslicing")
    found = {tuple(row["job"] for row in result["tenants"]): result for result in lab.results()}
    assert found[LSTM,]["outcome"] == "Crashed"
    assert found[LSTM,]["tenants"][0]["error"].startswith("ended with 1")
    assert found[SERVING,]["outcome"] == "Timeout"
    assert found["resnet18-64",]["outcome"] == "Ok"
    assert [row["outcome"] for row in found["resnet18-64", LSTM]["tenants"]] == ["Ok", "Crashed"]
    assert lab.gpu.tenants() == {}


def test_a_killed_campaign_is_continued_and_nothing_is_measured_twice(make: MakeLab) -> None:
    lab = make()
    with lab.start("--stages", "alone,pairs") as killed:
        assert killed.stderr is not None
        for line in killed.stderr:
            if "pairs 1/5" in line:
                killed.send_signal(signal.SIGKILL)
    before = {path: path.read_bytes() for path in (lab.campaign / "results").iterdir()}
    assert len(before) >= 6
    assert lab.measure("--stages", "alone,pairs").endswith("10 of 10 runs done, 0 left\n")
    assert {path: path.read_bytes() for path in before} == before
    assert len(lab.results()) == 10
    assert lab.gpu.tenants() == {}, "the killed campaign's processes have ended by themselves"


def test_a_request_to_end_leaves_no_process(make: MakeLab) -> None:
    lab = make()
    with lab.start("--stages", "pairs") as process:
        assert process.stderr is not None
        process.stderr.readline()
        held = list(lab.gpu.tenants())
        process.terminate()
        process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGTERM
    assert held
    assert all(not Path(f"/proc/{pid}").exists() for pid in held)


def test_earlier_results_come_back_from_archives_on_a_fresh_machine(make: MakeLab, measured: Lab) -> None:
    archives = pack(Store(measured.campaign), measured.folder / "packed")
    text = make().measure("--stages", "alone,pairs", "--input", *(str(path) for path in archives))
    assert text == "10 of 10 runs done, 0 left\n"


def test_collecting_makes_valid_measurements_that_the_predictor_reads(
    tmp_path: Path, measured: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    archives = pack(Store(measured.campaign), tmp_path / "packed")
    write_graphs(tmp_path / "graphs")
    sources = [str(path) for path in (*archives, tmp_path / "graphs")]
    assert run_command("collect", *sources, "--output", str(tmp_path / "out")) == 0
    assert capsys.readouterr().out == "33 runs: 28 measurements, 26 of requests\n"
    found = measurements.load([tmp_path / "out" / "data"], simulated=True)
    assert len(found.joint()) == 10 + 3 + 4
    assert set(found.groups) == {"resnet", "lstm", "squeezenet"}
    rows = json.loads((tmp_path / "out" / "report" / "observations.json").read_text())
    assert {row["observation"] for row in rows} == {"O1", "O2", "O5"}
    assert all(row["holds"] is not None for row in rows)
    assert json.loads((tmp_path / "out" / "report" / "summary.json").read_text())["noiseFloor"]["groups"] == 3

    assert run_command("plot", str(tmp_path / "out")) == 0
    assert (tmp_path / "out" / "report" / "slowdowns.svg").read_bytes().startswith(b"<?xml")
    # A tenant that a busy machine gave no turn within its short window has no speed to compare.
    fast = [record for record in found.joint().records if record.values.normalized_speed]
    assert len((tmp_path / "out" / "report" / "slowdowns.csv").read_text().splitlines()) == 1 + len(fast)
    assert fast


def test_collecting_without_graphs_names_the_job_and_the_remedy(tmp_path: Path, measured: Lab) -> None:
    with pytest.raises(errors.PermanentError, match="has no graph document: extract it with torch"):
        run_command("collect", str(measured.campaign), "--output", str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_collecting_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidInputError, match="holds no result"):
        run_command("collect", str(tmp_path), "--output", str(tmp_path / "out"))
    with pytest.raises(errors.InvalidInputError, match="neither a campaign's folder nor an archive"):
        run_command("collect", str(tmp_path / "missing"), "--output", str(tmp_path / "out"))


def test_a_gpu_that_others_use_is_not_measured(make: MakeLab) -> None:
    lab = make()
    lab.gpu.hold(memory_mib=100, loads=())
    with lab.start("--stages", "alone") as process:
        text = process.communicate(timeout=60)[1]
    assert process.returncode == 2
    assert text == "profile: 1 other processes compute on the GPU: what is measured beside them says nothing\n"


def test_time_slicing_is_left_where_the_compute_mode_lets_one_process_in(make: MakeLab) -> None:
    text = make(computeMode=3).measure("--stages", "alone,timeslicing")
    assert text.endswith("  3: the GPU's compute mode lets one process in: time slicing needs the mode Default\n")


def test_without_a_driver_the_command_says_so(tmp_path: Path) -> None:
    assert device.FOLDER not in os.environ
    with pytest.raises(errors.PermanentError, match="no NVIDIA driver can be read here"):
        run_command("run", "--device", "modelled", "--no-graphs", "--output", str(tmp_path))


def _rate(lab: Lab, stage: str) -> float:
    rows = [row for result in lab.results(stage) for row in result["tenants"]]
    return min(float(row["stepsPerSecond"]) for row in rows if row["job"] == "resnet18-64")
