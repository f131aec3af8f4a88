"""A user's module on a node: the callables that build a graph. `training_job.py` beside it is the job itself.

Mounted into a container with this machine's PyTorch; imported by no test's Python.
"""

import torch


def build(batch_size: int, width: int = 32) -> tuple[torch.nn.Module, torch.Tensor]:
    """The network that the job trains, and its input."""
    print("building")
    network = torch.nn.Sequential(torch.nn.Linear(1, width), torch.nn.Tanh(), torch.nn.Linear(width, 1))
    return network, torch.zeros(batch_size, 1)


def broken(batch_size: int) -> tuple[torch.nn.Module, torch.Tensor]:
    """A callable with a mistake in it."""
    raise ValueError(f"no layer takes {batch_size} samples")
