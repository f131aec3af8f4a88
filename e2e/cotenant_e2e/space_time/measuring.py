"""Arguments of a measurement, and the measurement by them: for `make space-time` and for a GPU machine."""

import contextlib
import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from pathlib import Path

from cotenant_e2e.space_time import measure, results

TRAINING = ("rnnlm", "vgg16", "resnet50", "gpt2")
PERCENTAGES = (90, 70, 50, 30, 10)
CELL_SECONDS, QUICK_SECONDS = 18.0, 4.0
BUSY_RATIO, DEADLINE_MULTIPLE = 0.15, 8.0


def add(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="what is shared (default: cpu)")
    parser.add_argument("--python", default=sys.executable, metavar="PATH", help="a Python with torch")
    parser.add_argument(
        "--training", action="append", choices=TRAINING, metavar="NAME", help=f"{', '.join(TRAINING)}; default: all"
    )
    parser.add_argument("--quick", action="store_true", help="seconds for each figure: shows that it works, no more")
    parser.add_argument("--cell-seconds", type=float, metavar="S", help=f"for each figure (default: {CELL_SECONDS:g})")
    parser.add_argument("--mps", metavar="GPU-UUID", help="on a GPU: start an MPS daemon for it, and compare with MPS")


def run(arguments: Namespace) -> results.Run:
    """Measure by the arguments."""
    seconds = arguments.cell_seconds or (QUICK_SECONDS if arguments.quick else CELL_SECONDS)
    with _mps(arguments.mps) as under_mps:
        plan = measure.Plan(
            device=arguments.device,
            training=arguments.training or TRAINING,
            cell_seconds=seconds,
            alone_seconds=seconds / 2,
            busy_ratio=BUSY_RATIO,
            deadline_multiple=DEADLINE_MULTIPLE,
            quick=arguments.quick,
            percentages=PERCENTAGES,
            under_mps=under_mps,
        )
        return measure.Measurement(plan, python=arguments.python, say=measure.say).run()


def keep(run: results.Run, file: Path) -> None:
    """Write the results as JSON."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(run.to_object()) + "\n", encoding="utf-8")


@contextlib.contextmanager
def _mps(gpu: str | None) -> Iterator[Mapping[str, str] | None]:
    """Start an MPS daemon of our own, as the measuring campaigns do; nothing of the GPU is set."""
    if gpu is None:
        yield None
        return
    from cotenant_predictor.profiling import mechanisms, mps

    daemon = mps.ControlDaemon.start(mps.PROGRAM, gpu_uuid=gpu)
    try:
        yield mechanisms.client_environment(
            pipe_directory=daemon.pipe_directory, thread_percentage=None, memory_limit_mib=None, client_priority=0
        )
    finally:
        daemon.stop()
