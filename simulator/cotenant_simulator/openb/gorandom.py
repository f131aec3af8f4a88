"""The random numbers of Go's `math/rand` with an explicit seed: the published runs drew from it.

An additive lagged Fibonacci generator, s[n] = s[n - 607] + s[n - 273] (mod 2^64). A seed fills the 607 words by a
Lehmer generator and xors them with the words of a fixed table. That table is what the same recurrence holds after
7.8e12 steps from seed 1; here it is computed, by the power of x modulo x^607 - x^334 - 1. Pure.
"""

import functools
from collections.abc import MutableSequence
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

Item = TypeVar("Item")
Words = NDArray[np.uint64]
"""Shape (607,), numbers modulo 2^64."""

_LENGTH: Final = 607
_TAP: Final = 273
_TABLE_STEPS: Final = 7_800_000_000_000
_WARM_UP: Final = 20
_MASK_64: Final = (1 << 64) - 1
_MASK_63: Final = (1 << 63) - 1
_MASK_32: Final = (1 << 32) - 1
_LEHMER_MODULUS: Final = (1 << 31) - 1
_LEHMER_FACTOR: Final = 48271
_SEED_OF_ZERO: Final = 89482311
_SEED_SHIFTS: Final = (40, 20)
_TABLE_SHIFTS: Final = (20, 10)


class GoRandom:
    """The stream of one seed."""

    def __init__(self, seed: int) -> None:
        words = _seed_words(seed % _LEHMER_MODULUS or _SEED_OF_ZERO, _SEED_SHIFTS)
        self._words = [(word ^ fixed) & _MASK_64 for word, fixed in zip(words, _table(), strict=True)]
        self._tap, self._feed = 0, _LENGTH - _TAP

    def int63(self) -> int:
        """Return a number below 2^63."""
        self._tap = (self._tap - 1) % _LENGTH
        self._feed = (self._feed - 1) % _LENGTH
        word = (self._words[self._feed] + self._words[self._tap]) & _MASK_64
        self._words[self._feed] = word
        return word & _MASK_63

    def below(self, bound: int) -> int:
        """Return a number below `bound`, at most 2^31 (Go's `Intn`)."""
        if bound & (bound - 1) == 0:
            return (self.int63() >> 32) & (bound - 1)
        largest = (1 << 31) - 1 - (1 << 31) % bound
        while (value := self.int63() >> 32) > largest:
            pass
        return value % bound

    def shuffle(self, items: MutableSequence[Item]) -> None:
        """Reorder in place (Go's `Shuffle`)."""
        for last in range(len(items) - 1, 0, -1):
            other = self._scaled(last + 1)
            items[last], items[other] = items[other], items[last]

    def permutation(self, count: int) -> list[int]:
        """Return the numbers below `count` in an order (Go's `Perm`)."""
        order = [0] * count
        for place in range(count):
            other = self.below(place + 1)
            order[place] = order[other]
            order[other] = place
        return order

    def _scaled(self, bound: int) -> int:
        """Return a number below `bound` by multiplication, as `Shuffle` draws it."""
        product = (self.int63() >> 31) * bound
        if product & _MASK_32 < bound:
            least = ((1 << 32) - bound) % bound
            while product & _MASK_32 < least:
                product = (self.int63() >> 31) * bound
        return product >> 32


def _seed_words(seed: int, shifts: tuple[int, int]) -> list[int]:
    """607 words, each of three numbers of the Lehmer generator x -> 48271 x mod (2^31 - 1), warmed up first."""
    for _ in range(_WARM_UP):
        seed = seed * _LEHMER_FACTOR % _LEHMER_MODULUS
    words = []
    for _ in range(_LENGTH):
        high = seed * _LEHMER_FACTOR % _LEHMER_MODULUS
        middle = high * _LEHMER_FACTOR % _LEHMER_MODULUS
        seed = middle * _LEHMER_FACTOR % _LEHMER_MODULUS
        words.append((high << shifts[0]) ^ (middle << shifts[1]) ^ seed)
    return words


@functools.cache
def _table() -> tuple[int, ...]:
    """Return the fixed table."""
    seeds = _seed_words(1, _TABLE_SHIFTS)
    # The generator reads its words from the end of the feed downwards.
    start = [seeds[(_LENGTH - _TAP - 1 - place) % _LENGTH] for place in range(_LENGTH)]
    history = np.zeros(2 * _LENGTH, dtype=np.uint64)
    history[:_LENGTH] = start
    for begin in range(_LENGTH, 2 * _LENGTH, _TAP):
        end = min(begin + _TAP, 2 * _LENGTH)
        history[begin:end] = history[begin - _LENGTH : end - _LENGTH] + history[begin - _TAP : end - _TAP]
    power = _power_of_x(_TABLE_STEPS)
    words = [0] * _LENGTH
    for place in range(_LENGTH):
        word = int((power * history[place : place + _LENGTH]).sum(dtype=np.uint64))
        words[(_LENGTH - _TAP - 1 - (_TABLE_STEPS + place - _LENGTH)) % _LENGTH] = word
    return tuple(words)


def _power_of_x(exponent: int) -> Words:
    """x^exponent modulo x^607 = x^334 + 1."""
    power = np.zeros(_LENGTH, dtype=np.uint64)
    power[0] = 1
    for bit in f"{exponent:b}":
        power = _product(power, power)
        if bit == "1":
            highest = power[-1]
            power = np.roll(power, 1)
            power[0] = highest
            power[_LENGTH - _TAP : _LENGTH - _TAP + 1] += highest
    return power


def _product(left: Words, right: Words) -> Words:
    """Of two polynomials, modulo x^607 = x^334 + 1."""
    product = np.zeros(2 * _LENGTH, dtype=np.uint64)
    for place in np.flatnonzero(left):
        product[place : place + _LENGTH] += left[place] * right
    for end in range(2 * _LENGTH, _LENGTH, -_TAP):
        begin = max(end - _TAP, _LENGTH)
        product[begin - _LENGTH : end - _LENGTH] += product[begin:end]
        product[begin - _TAP : end - _TAP] += product[begin:end]
    return product[:_LENGTH].copy()
