"""The runtime on real torch: results stay the same, groups are timed, and hooks are removed when they are of no use."""

import copy
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import cotenant_runtime
from cotenant_runtime import demand, layout, settings, startup
from cotenant_runtime import segment as segments
from cotenant_runtime.hooks import LEARNING_STEPS, OPTIMIZER, STEP, Hooks
from cotenant_runtime.layout import Inference, Phase
from cotenant_runtime.segment import Segment
from cotenant_runtime.trainer import Trainer

PACKAGE = Path(cotenant_runtime.__file__).parent


class Network(nn.Module):
    """Convolution, norm, ReLU in place, attention, LSTM: what hooks have to get along with."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(inplace=True))
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.lstm = nn.LSTM(16, 16, batch_first=True)
        self.head = nn.Linear(16, 4)

    def forward(self, images: Any) -> Any:
        """Return four scores for each image."""
        features = self.body(images).flatten(2).transpose(1, 2)
        mixed, _ = self.attention(features, features, features, need_weights=False)
        return self.head(self.lstm(mixed)[0][:, -1])


@dataclass
class Job:
    """A training job, made alike each time."""

    model: Any = None
    optimizer: Any = None
    losses: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        torch.manual_seed(1)
        self.model = Network() if self.model is None else self.model
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.images = torch.randn(4, 3, 8, 8)

    def train(self, steps: int) -> None:
        """Train so many steps, on the same batch."""
        for _ in range(steps):
            self.optimizer.zero_grad()
            loss = self.model(self.images).square().mean()
            loss.backward()
            self.optimizer.step()
            self.losses.append(loss.item())


@pytest.fixture(autouse=True)
def nothing_compiled() -> Iterator[None]:
    """What one test compiles, the next one has not."""
    yield
    torch._dynamo.reset()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "GPU"
    segments.create(made)
    return made


@pytest.fixture
def attached(path: Path) -> Iterator[Hooks]:
    made = startup.attach(torch, wanted(path))
    assert made is not None
    yield made
    made.remove()


def wanted(path: Path) -> settings.Settings:
    found = settings.read(
        {
            "COTENANT_SPACE_TIME": "Training",
            "COTENANT_SPACE_TIME_SEGMENT": str(path),
            "COTENANT_SPACE_TIME_CACHE": str(path.parent / "cache"),
            "COTENANT_SPACE_TIME_LONGEST_WAIT_MILLISECONDS": "20",
        }
    )
    assert found is not None
    return found


def hooked(found: Hooks) -> bool:
    """Return whether modules are hooked now; a property would be taken to stay as it was."""
    return found.enabled


class Neighbour:
    """A job with an SLO whose requests always need the device."""

    def __init__(self, path: Path, hooked: Hooks) -> None:
        self.writer = Segment(path).claim()
        self.hooked = hooked

    def beat(self) -> None:
        """Publish a request without slack, and have the training job notice at once."""
        assert self.hooked.trainer is not None
        state = Inference(phase=Phase.HEAVY, fill=1000, pending=1, latest_start_ns=1)
        self.writer.write(state, now_ns=time.monotonic_ns())
        self.hooked._refresh()


def test_training_gives_the_same_losses_and_weights_bit_by_bit(path: Path) -> None:
    plain = Job()
    plain.train(LEARNING_STEPS + 4)
    runtime = startup.attach(torch, wanted(path))
    assert runtime is not None
    try:
        shared = Job()
        shared.train(LEARNING_STEPS + 2)
        neighbour = Neighbour(path, runtime)
        neighbour.beat()
        assert hooked(runtime)
        shared.train(2)
        assert runtime.trainer is not None
        assert runtime.trainer.waited_ns > 0
    finally:
        runtime.remove()
    assert shared.losses == plain.losses
    for name, value in plain.model.state_dict().items():
        assert torch.equal(value, shared.model.state_dict()[name]), name


def test_every_module_without_children_is_a_group_in_both_passes(attached: Hooks) -> None:
    Job().train(LEARNING_STEPS + 1)
    assert attached.trainer is not None
    known = attached.trainer.book.known
    places = {key.module.partition(":")[2] for key in known if ":" in key.module}
    assert places == {"body.0", "body.1", "body.2", "attention", "lstm", "head"}
    assert {key.phase for key in known if key.module.endswith(":lstm")} == {"Forward", "Backward"}
    assert not attached.trainer.book.wants(OPTIMIZER)
    assert all(0 <= group.fill <= layout.FULL_FILL for group in known.values())


def test_without_a_job_with_an_slo_no_module_is_hooked_after_the_first_steps(attached: Hooks) -> None:
    job = Job()
    job.train(1)
    assert hooked(attached)
    job.train(LEARNING_STEPS)
    assert not hooked(attached)
    assert not nn.modules.module._has_any_global_hook()


def test_a_job_with_an_slo_brings_the_hooks_back_and_its_death_takes_them_away(attached: Hooks, path: Path) -> None:
    job = Job()
    job.train(LEARNING_STEPS + 1)
    neighbour = Neighbour(path, attached)
    neighbour.beat()
    assert hooked(attached)
    neighbour.writer.write(Inference(), now_ns=time.monotonic_ns() - demand.LAPSE_NS)
    attached._refresh()
    assert not hooked(attached)


def test_what_was_timed_is_kept_for_the_next_run_of_the_model(path: Path) -> None:
    for _ in range(2):
        runtime = startup.attach(torch, wanted(path))
        assert runtime is not None
        job = Job()
        job.train(2)
        assert runtime.trainer is not None
        fresh = any(runtime.trainer.book.wants(key) for key in runtime.trainer.book.known if ":" in key.module)
        job.train(LEARNING_STEPS)
        runtime.remove()
    assert len(list((path.parent / "cache").glob("*.json"))) == 1
    assert not fresh


def test_a_compiled_model_is_gated_once_a_step(attached: Hooks, path: Path) -> None:
    plain = nn.Sequential(nn.Flatten(), nn.Linear(192, 16), nn.ReLU(), nn.Linear(16, 4))
    job = Job(torch.compile(plain, backend="eager"))
    job.train(LEARNING_STEPS + 2)
    assert not hooked(attached)
    neighbour = Neighbour(path, attached)
    neighbour.beat()
    job.train(30)
    assert attached.trainer is not None
    assert attached.trainer.waited_ns > 0
    assert set(attached.trainer.book.known) == {OPTIMIZER, STEP}


def test_a_segment_that_is_missing_leaves_training_as_it_was(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    runtime = startup.attach(torch, wanted(tmp_path / "absent"))
    assert runtime is not None
    job = Job()
    job.train(2)
    assert len(job.losses) == 2
    assert runtime.trainer is None
    assert "training goes on as before" in caplog.text


def test_an_error_of_the_runtime_ends_the_runtime_and_not_the_job(
    attached: Hooks, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job()
    job.train(1)

    def fail(*_: object) -> None:
        raise ValueError("a defect")

    monkeypatch.setattr(Trainer, "before", fail)
    job.train(2)
    assert len(job.losses) == 3
    assert attached.trainer is None
    assert not hooked(attached)
    assert "a defect" in caplog.text


def test_a_model_can_be_saved_whole_and_copied_while_it_is_hooked(attached: Hooks, tmp_path: Path) -> None:
    job = Job()
    job.train(2)
    assert hooked(attached)
    torch.save(job.model, tmp_path / "model.pt")
    copied = copy.deepcopy(job.model)
    assert torch.equal(copied.eval()(job.images), job.model.eval()(job.images))


SCRIPT = """
import torch
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    model(torch.ones(2, 8)).sum().backward()
    optimizer.step()
import os, sys
from pathlib import Path
from cotenant_runtime.segment import Segment
print([type(slot.state).__name__ for _, slot in Segment(Path(os.environ["COTENANT_SPACE_TIME_SEGMENT"])).slots()])
"""


def test_user_code_is_attached_by_the_environment_alone(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(PACKAGE / "autostart"), str(PACKAGE.parent)]),
            "COTENANT_SPACE_TIME": "Training",
            "COTENANT_SPACE_TIME_SEGMENT": str(path),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "['Training']", done.stderr
