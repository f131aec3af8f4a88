"""The stream of Go's math/rand, against numbers that every Go program prints."""

from cotenant_simulator.openb import gorandom


def test_the_first_numbers_of_seed_1_are_those_of_go() -> None:
    random = gorandom.GoRandom(1)
    assert [random.int63() for _ in range(3)] == [5577006791947779410, 8674665223082153551, 6129484611666145821]


def test_bounded_numbers_are_those_of_go() -> None:
    random = gorandom.GoRandom(1)
    assert [random.below(100) for _ in range(5)] == [81, 87, 47, 59, 81]


def test_the_first_numbers_of_a_published_seed() -> None:
    random = gorandom.GoRandom(42)
    assert [random.int63() for _ in range(3)] == [3440579354231278675, 608747136543856411, 5571782338101878760]


def test_a_permutation_is_one_of_go() -> None:
    assert gorandom.GoRandom(1).permutation(5) == [0, 4, 2, 3, 1]


def test_a_shuffle_keeps_every_item() -> None:
    items = list(range(1000))
    gorandom.GoRandom(42).shuffle(items)
    assert items != sorted(items)
    assert sorted(items) == list(range(1000))


def test_seeds_are_taken_modulo_the_generators_prime_and_zero_is_none() -> None:
    modulus = (1 << 31) - 1
    assert gorandom.GoRandom(42).int63() == gorandom.GoRandom(42 + modulus).int63()
    assert gorandom.GoRandom(0).int63() == gorandom.GoRandom(89482311).int63()


def test_numbers_that_would_favour_small_ones_are_drawn_again() -> None:
    bound = (1 << 30) + 1  # nearly half of all 31 bits lie beyond the last whole multiple
    plain, random = gorandom.GoRandom(42), gorandom.GoRandom(42)
    usable = [value for value in (plain.int63() >> 32 for _ in range(100)) if value < bound]
    assert [random.below(bound) for _ in range(len(usable))] == usable


def test_a_power_of_two_bounds_by_its_bits() -> None:
    random = gorandom.GoRandom(1)
    assert random.below(8) == (5577006791947779410 >> 32) & 7
