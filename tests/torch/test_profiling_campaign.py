"""A campaign with real steps of torch, on the processor in place of a GPU: graphs, tenants, results, measurements."""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from cotenant_api.measurement import Measurement
from cotenant_predictor.commands import profile
from cotenant_predictor.datasets import files
from cotenant_predictor.profiling.simulated import device


def test_jobs_are_extracted_measured_alone_and_collected(tmp_path: Path) -> None:
    device.SimulatedDevice.create(tmp_path / "gpu")
    command = [sys.executable, "-m", "cotenant_predictor.profiling", "run", "--device", "cpu", "--stages", "alone"]
    options = [
        "--window-seconds",
        "1",
        "--ramp-seconds",
        "0.2",
        "--max-workers",
        "1",
        "--output",
        str(tmp_path / "campaign"),
    ]
    environment = {**os.environ, device.FOLDER: str(tmp_path / "gpu")}
    subprocess.run([*command, *options], env=environment, check=True)

    parser = argparse.ArgumentParser()
    profile.configure(parser)
    collect = ["collect", str(tmp_path / "campaign"), "--output", str(tmp_path / "out")]
    assert profile.run(parser.parse_args(collect)) == 0
    found = [content for _, content in files.documents_in([tmp_path / "out" / "data"])]
    lines = [content.value for content in found if files.is_measurement(content.value)]
    assert len(lines) == 5
    for line in lines:
        record = Measurement.from_object(line, source="line")
        assert record.simulated, "the processor is no GPU"
        assert record.values.normalized_speed is not None
        assert line["reasons"]["longKernelShare"] in {
            *("not measured on a GPU", "kernels are listed once, with the job's first run alone")
        }
    assert sum(files.is_graph(content.value) for content in found) == 3
    assert {json.dumps(line["environment"]["torch"]) for line in lines} != {'"none"'}
