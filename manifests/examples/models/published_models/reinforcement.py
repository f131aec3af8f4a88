"""A3C with an LSTM on Pong: one worker's iteration of 20 frames, batch 1; the game and the optimizer run on the CPU."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

FRAMES, ACTIONS = 20, 6


class Player(nn.Module):
    """Four convolutions, an LSTM cell, and a value and a policy head."""

    def __init__(self) -> None:
        super().__init__()
        sizes = ((1, 32, 5, 2), (32, 32, 5, 1), (32, 64, 4, 1), (64, 64, 3, 1))
        self.convolutions = nn.ModuleList(nn.Conv2d(i, o, k, padding=p) for i, o, k, p in sizes)
        self.cell, self.critic, self.actor = nn.LSTMCell(1024, 512), nn.Linear(512, 1), nn.Linear(512, ACTIONS)

    def forward(self, frame: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor]]:
        """Value, logits and the next state, for a frame of shape (1, 1, 80, 80)."""
        for layer in self.convolutions:
            frame = functional.relu(functional.max_pool2d(layer(frame), 2))
        hidden, cell = self.cell(frame.flatten(1), state)
        return self.critic(hidden), self.actor(hidden), (hidden, cell)


def job() -> Any:
    """Play 20 frames, then learn from them; weights come from the CPU and gradients go there."""
    model = Player()

    def played(frames: Tensor) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        state = (torch.zeros(1, 512), torch.zeros(1, 512))
        values, chosen, entropies = [], [], []
        for frame in frames.unbind():
            value, logits, state = model(frame, state)
            shares, logs = functional.softmax(logits, dim=1), functional.log_softmax(logits, dim=1)
            entropies.append(-(logs * shares).sum(1))
            chosen.append(logs.gather(1, shares.multinomial(1)))
            values.append(value)
        values.append(model(frames[0], state)[0].detach())
        return values, chosen, entropies

    def step(frames: Tensor) -> None:
        with torch.no_grad():
            for weight in model.parameters():
                weight.copy_(torch.empty_like(weight))
        values, chosen, entropies = played(frames)
        reward, advantage = values[-1], torch.zeros(1, 1)
        of_policy, of_value = torch.zeros(1, 1), torch.zeros(1, 1)
        for i in reversed(range(FRAMES)):
            reward = 0.99 * reward + 1.0
            of_value = of_value + 0.5 * (reward - values[i]).pow(2)
            advantage = advantage * 0.99 + (1.0 + 0.99 * values[i + 1].detach() - values[i].detach())
            of_policy = of_policy - chosen[i] * advantage - 0.01 * entropies[i]
        model.zero_grad()
        (of_policy + 0.5 * of_value).sum().backward()
        for weight in model.parameters():
            weight.grad.clone()  # to the CPU

    return {"modules": [model], "inputs": torch.empty(FRAMES, 1, 1, 80, 80), "step": step}
