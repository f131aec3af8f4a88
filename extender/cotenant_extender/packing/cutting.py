"""The linear program of dual prices: cut GPUs into patterns of jobs so that most of the demand is served.

    maximise    sum over patterns p of  share served by p  x  GPUs cut by p
    subject to  GPUs cut of each group of models    <= supply of the group     dual: what such a GPU is worth
                jobs of each class                  <= demand for the class    dual y_k: what its being scarce takes off
    price of a job of class k = its share - y_k, in GPUs

A pattern is a set of jobs that fit on one GPU, or one job on several whole GPUs. There are far too many to list:
columns are generated (Gilmore and Gomory) by `patterns`, and the basis is kept by its inverse (revised simplex).
Supplies are perturbed by millionths, in a fixed way, so that no basis comes twice. The work is cut into steps, because
whoever asks for a placement must not wait for it. Pure numpy.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from cotenant_api.names import HUNDREDTHS
from cotenant_extender.packing import patterns
from cotenant_extender.packing.patterns import Array

PIVOTS: Final = 8
"""Pivots in one step at most."""
MOST_STEPS: Final = 2000

_TOLERANCE: Final = 1e-5
_PERTURBATION: Final = 1e-6
_LEAST_PIVOT: Final = 1e-9
_GOLDEN: Final = 0.6180339887498949


@dataclass(frozen=True, kw_only=True)
class Market:
    """Supply and demand.

    Attributes:
        shares: hundredths of one GPU that a job of each class takes, 1 to 100, shape (K,).
        gpus: whole GPUs of one node that it takes, or 1, shape (K,).
        demand: jobs of each class, shape (K,).
        supply: GPUs of each group, shape (M,).
        most_gpus: of one node of each group, shape (M,).
        allowed: which group may serve which class, shape (M, K).
        most_jobs: on one GPU.
    """

    shares: Array
    gpus: Array
    demand: Array
    supply: Array
    most_gpus: Array
    allowed: Array
    most_jobs: int


class Program:
    """A program that is solved step by step.

    Attributes:
        done: nothing is left to gain, so that `prices` are the duals.
    """

    def __init__(self, market: Market) -> None:
        self._market = market
        self._worth = market.shares * market.gpus / HUNDREDTHS
        self._groups = len(market.supply)
        self._cut = np.flatnonzero(market.gpus == 1)
        limits = np.concatenate([market.supply, market.demand]).astype(np.float64)
        self._size = len(limits)
        self._amounts = limits + limits.sum() * _PERTURBATION * (1 + np.arange(self._size) * _GOLDEN % 1)
        self._inverse = np.eye(self._size)
        self._gains = np.zeros(self._size)
        self._columns = self._simple()
        self._served = self._columns[:, self._groups :] @ self._worth
        self._group = self._quiet = 0
        self._steps = 0
        self.done = False

    @property
    def failed(self) -> bool:
        """Whether it is given up."""
        return self._steps > MOST_STEPS

    def prices(self) -> Array:
        """Return what a job of each class is worth, in GPUs, shape (K,); 0 to its share."""
        duals = self._duals()[self._groups :]
        return np.asarray(np.clip(self._worth - duals, 0, self._worth))

    def served(self) -> float:
        """Demand that is served, in GPUs."""
        return float(self._gains @ self._amounts)

    def step(self) -> None:
        """Do a bounded piece of work: some pivots, or the search for a better pattern in one group."""
        self._steps += 1
        for _ in range(PIVOTS):
            duals = self._duals()
            if not self._pivot(duals):
                break
        else:
            return
        found = self._better(duals)
        if found is None:
            self._group = (self._group + 1) % self._groups
            self._quiet += 1
            self.done = self._quiet >= self._groups
        else:
            self._quiet = 0
            self._columns = np.vstack([self._columns, found])
            self._served = np.append(self._served, found[self._groups :] @ self._worth)

    def _simple(self) -> Array:
        """Patterns of one class, as many as go, in every group that may; and the empty one."""
        market, columns = self._market, [np.zeros(self._size)]
        for group, job in zip(*np.nonzero(market.allowed & (market.gpus <= market.most_gpus[:, None])), strict=True):
            column = np.zeros(self._size)
            column[group] = market.gpus[job]
            column[self._groups + job] = min(HUNDREDTHS // market.shares[job], market.most_jobs)
            columns.append(column)
        return np.array(columns)

    def _duals(self) -> Array:
        return np.asarray(self._gains @ self._inverse)

    def _pivot(self, duals: Array) -> bool:
        """Bring the column in that gains most; False if none gains."""
        reduced = self._served - self._columns @ duals
        best, slack = int(reduced.argmax()), int(duals.argmin())
        if max(reduced[best], -duals[slack]) <= _TOLERANCE:
            return False
        if reduced[best] >= -duals[slack]:
            column, gain = self._columns[best], self._served[best]
        else:
            column, gain = np.eye(self._size)[slack], 0.0
        change = self._inverse @ column
        growing = change > _LEAST_PIVOT
        ratios = np.where(growing, self._amounts / np.where(growing, change, 1), np.inf)
        leaving = int(ratios.argmin())
        self._amounts -= ratios[leaving] * change
        self._amounts[leaving] = ratios[leaving]
        np.maximum(self._amounts, 0, out=self._amounts)
        row = self._inverse[leaving] / change[leaving]
        self._inverse -= np.outer(change, row)
        self._inverse[leaving] = row
        self._gains[leaving] = gain
        return True

    def _better(self, duals: Array) -> Array | None:
        """Return the pattern of one group's GPUs that gains most at these duals, as a column; None if none gains."""
        market, cut = self._market, self._cut
        prices = (self._worth - duals[self._groups :])[cut]
        prices = np.where(market.allowed[self._group, cut], prices, -np.inf)
        found = patterns.worth(prices, market.shares[cut], market.most_jobs)
        if found[-1, -1] <= duals[self._group] + _TOLERANCE:
            return None
        column = np.zeros(self._size)
        column[self._group] = 1
        column[self._groups + cut] = patterns.pattern(prices, market.shares[cut], found)
        return column
