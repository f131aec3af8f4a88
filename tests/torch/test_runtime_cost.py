"""What the runtime costs a training job that shares its device with no job with an SLO: under a hundredth of a step.

The calls of the runtime are timed by themselves: their share of a step is far below what steps scatter by.
"""

import importlib
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from cotenant_runtime import segment as segments
from cotenant_runtime import settings, startup
from cotenant_runtime.hooks import LEARNING_STEPS

ROUNDS = 15


def best(work: Callable[[], object]) -> float:
    """Return the seconds of the quickest round: the others waited for something else."""
    found = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        work()
        found.append(time.perf_counter() - begin)
    return min(found)


def test_without_a_job_with_an_slo_the_runtime_takes_under_a_hundredth_of_a_step(
    tmp_path: Path, report: Callable[[str], None]
) -> None:
    segments.create(tmp_path / "GPU")
    wanted = settings.read({"COTENANT_SPACE_TIME": "Training", "COTENANT_SPACE_TIME_SEGMENT": str(tmp_path / "GPU")})
    assert wanted is not None
    hooked = startup.attach(torch, wanted)
    assert hooked is not None
    model = nn.Sequential(*(nn.Linear(512, 512) for _ in range(8)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs = torch.randn(256, 512)

    def step() -> None:
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()

    def calls() -> None:
        hooked._before_optimizer()
        hooked._after_optimizer(optimizer)

    for _ in range(LEARNING_STEPS + 2):
        step()
    assert not hooked.enabled
    whole, own = best(step), best(calls)
    hooked.remove()
    report(f"the runtime takes {1e6 * own:.0f} us of a step of {1e3 * whole:.1f} ms: {own / whole:.2%}")
    assert own < 0.01 * whole


def test_a_job_without_the_variables_has_no_hooks() -> None:
    optimizers = importlib.import_module("torch.optim.optimizer")
    startup.start({})
    assert not nn.modules.module._has_any_global_hook()
    assert not optimizers._global_optimizer_pre_hooks
    assert not optimizers._global_optimizer_post_hooks
