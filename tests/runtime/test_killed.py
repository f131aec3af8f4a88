"""Either side is killed at each of its steps, by SIGKILL: the other goes on. Real processes, without torch.

Times are asked of pure functions with a later clock, so that no test waits for a claim to end.
"""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from cotenant_runtime import demand, layout
from cotenant_runtime import segment as segments
from cotenant_runtime.segment import Segment

HEAD = """
import sys, time
from pathlib import Path
from cotenant_runtime import gate, layout, segment
from cotenant_runtime.devices.virtual import Virtual
from cotenant_runtime.groups import Book, Key
from cotenant_runtime.serving import Server, Phase
from cotenant_runtime.trainer import Trainer

def here(step):
    print(step, flush=True)
    if step == sys.argv[2]:
        sys.stdin.readline()

held = segment.Segment(Path(sys.argv[1]))
here("opened")
writer = held.claim()
here("claimed")
"""
INFERENCE = """
server = Server(writer)
here("attached")
request = server.begin(deadline_seconds=0.1)
here("arrived")
with server.computing(request):
    here("computing")
    request.phase(Phase.LIGHT)
    here("light")
    request.phase(Phase.HEAVY)
    here("heavy")
server.end(request)
here("answered")
server.close()
here("closed")
"""
TRAINING = """
key = Key("m", "Forward")
book = Book()
book.restore({key: gate.Group(duration_ns=10**7, fill=1000)})
trainer = Trainer(writer, device=Virtual(), book=book, limits=gate.Limits())
here("attached")
trainer.before(key)
here("passed")
trainer.step()
here("stepped")
trainer.end()
here("closed")
"""
INFERENCE_STEPS = ["opened", "claimed", "attached", "arrived", "computing", "light", "heavy", "answered", "closed"]
TRAINING_STEPS = ["opened", "claimed", "attached", "passed", "stepped", "closed"]
NEEDY = {"arrived", "computing", "heavy"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "GPU"
    segments.create(made)
    return made


def killed_at(script: str, step: str, path: Path) -> list[layout.Slot]:
    """Run a side until it has come to a step, kill it, and return what it leaves."""
    with subprocess.Popen(
        [sys.executable, "-c", HEAD + script, str(path), step],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.strip() == step:
                break
        process.kill()
        assert process.wait() == -9
    return [slot for _, slot in Segment(path).slots()]


@pytest.mark.parametrize("step", INFERENCE_STEPS)
def test_an_inference_job_that_is_killed_asks_for_nothing_after_its_heartbeat(path: Path, step: str) -> None:
    left = killed_at(INFERENCE, step, path)
    now = time.monotonic_ns()
    assert (demand.combined(left, now).latest_start_ns is not None) == (step in NEEDY)
    assert not demand.combined(left, now + demand.LAPSE_NS).attached


@pytest.mark.parametrize("step", TRAINING_STEPS)
def test_a_training_job_that_is_killed_leaves_a_slot_that_is_whole_or_empty(path: Path, step: str) -> None:
    left = killed_at(TRAINING, step, path)
    assert len(left) == (step in {"attached", "passed", "stepped"})
    assert not demand.combined(left, time.monotonic_ns()).attached


@pytest.mark.parametrize(("script", "step"), [(INFERENCE, "heavy"), (TRAINING, "stepped")])
def test_the_slot_of_a_killed_process_is_free_at_once(path: Path, script: str, step: str) -> None:
    killed_at(script, step, path)
    assert Segment(path).claim(0).index == 0


@pytest.mark.parametrize("step", ["opened", "claimed", "arrived", "closed"])
def test_after_a_kill_the_next_inference_job_is_served_as_the_first(path: Path, step: str) -> None:
    killed_at(INFERENCE, step, path)
    left = killed_at(INFERENCE, "heavy", path)
    assert demand.combined(left, time.monotonic_ns()).latest_start_ns is not None
