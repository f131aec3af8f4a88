"""Recommenders: many embeddings, little arithmetic."""

import itertools
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class NeuMF(nn.Module):
    """Neural matrix factorisation of He et al. (2017): a product of embeddings beside a perceptron."""

    def __init__(self, *, users: int, items: int, factors: int = 64, widths: tuple[int, ...] = (256, 128, 64)) -> None:
        super().__init__()
        self.product_user, self.product_item = nn.Embedding(users, factors), nn.Embedding(items, factors)
        self.user, self.item = nn.Embedding(users, widths[0] // 2), nn.Embedding(items, widths[0] // 2)
        self.perceptron = _perceptron(widths)
        self.head = nn.Linear(factors + widths[-1], 1)

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        """A score per pair."""
        product = self.product_user(users) * self.product_item(items)
        deep = self.perceptron(torch.cat([self.user(users), self.item(items)], dim=1))
        scores: Tensor = self.head(torch.cat([product, deep], dim=1))
        return scores.squeeze(1)


class DLRM(nn.Module):
    """Facebook's recommender of Naumov et al. (2019): dense features and embeddings, crossed by their dot products."""

    def __init__(self, *, tables: int = 26, rows: int = 200_000, width: int = 64, dense: int = 13) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, width) for _ in range(tables))
        self.bottom = _perceptron((dense, 512, 256, width))
        crossings = (tables + 1) * tables // 2
        self.top = nn.Sequential(_perceptron((crossings + width, 512, 256)), nn.Linear(256, 1))

    def forward(self, dense: Tensor, sparse: Tensor) -> Tensor:
        """The logit of a click for each row of `dense` (b, 13) and `sparse` (b, 26)."""
        bottom = self.bottom(dense)
        columns = [table(sparse[:, index]) for index, table in enumerate(self.tables)]
        features = torch.stack([bottom, *columns], dim=1)
        crossed = torch.bmm(features, features.transpose(1, 2))
        rows, cols = torch.tril_indices(crossed.shape[1], crossed.shape[2], offset=-1)
        logits: Tensor = self.top(torch.cat([bottom, crossed[:, rows, cols]], dim=1))
        return logits.squeeze(1)


def neumf(batch_size: int, *, users: int = 138_493, items: int = 26_744) -> tuple[nn.Module, Any, Any]:
    """NeuMF with the users and films of MovieLens-20M."""
    pairs = (torch.zeros(batch_size, dtype=torch.long), torch.zeros(batch_size, dtype=torch.long))
    return NeuMF(users=users, items=items), pairs, _clicked(batch_size)


def dlrm(batch_size: int) -> tuple[nn.Module, Any, Any]:
    """DLRM with the 13 dense and 26 sparse features of the Criteo data, tables cut to 200,000 rows."""
    inputs = (torch.empty(batch_size, 13), torch.zeros(batch_size, 26, dtype=torch.long))
    return DLRM(), inputs, _clicked(batch_size)


def _clicked(batch_size: int) -> Any:
    labels = torch.ones(batch_size)
    return lambda output: functional.binary_cross_entropy_with_logits(output, labels)


def _perceptron(widths: tuple[int, ...]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers)
