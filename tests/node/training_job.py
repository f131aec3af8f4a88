"""A training job for a container that has this machine's PyTorch: it learns a sine, and holds a stand-in GPU.

A program of its own, started by no test's Python. The stand-in computes nothing, so the network is on the CPU; the
GPU is held by `cuda-client`, which this program starts as PyTorch would open its context.

usage: training_job.py LIMITS MEMORY FINISH
    LIMITS: variables that it prints, by commas; MEMORY: MiB to hold; FINISH: trains until this file is there.
"""

import os
import subprocess
import sys
from pathlib import Path

import torch

STEPS = 500


def train(finish: Path) -> tuple[int, float, float]:
    """How many steps it took, and the loss before and after."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    inputs = torch.linspace(-3, 3, 256).unsqueeze(1)
    network = torch.nn.Sequential(torch.nn.Linear(1, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    steps = 0
    losses: list[float] = []
    while steps < STEPS or not finish.exists():
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(network(inputs), torch.sin(inputs))
        loss.backward()
        optimizer.step()
        losses = [*losses[:1], loss.item()]
        steps += 1
    return steps, losses[0], losses[-1]


def main(limits: str, memory_mib: str, finish: str) -> int:
    """Train beside a GPU that is held; the exit code."""
    for name in limits.split(","):
        print(f"limit {name}={os.environ.get(name)}", flush=True)
    command = ("cuda-client", "--memory", memory_mib, "--hold", "100000")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as gpu:
        if gpu.stdout is None or not (has := gpu.stdout.readline()):
            return 1
        print(has, end="", flush=True)
        steps, before, after = train(Path(finish))
        gpu.terminate()
    print(f"trained torch={torch.__version__} steps={steps} loss={before:.6f}..{after:.6f}", flush=True)
    return 0 if after < before / 10 else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
