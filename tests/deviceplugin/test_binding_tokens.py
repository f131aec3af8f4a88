"""Tokens are anonymous and stable, and none that a pod holds is withdrawn."""

from cotenant_deviceplugin.binding import tokens
from cotenant_deviceplugin.binding.grants import Numbers, ServedGPU
from cotenant_deviceplugin.kubelet.plugin import Tokens
from node_kit.bookings import A, B
from node_kit.bookings import tokens as some

OPEN = {A: ServedGPU(numbers=Numbers(0, 0)), B: ServedGPU(numbers=Numbers(1, 1))}
CLOSED = {A: ServedGPU(numbers=Numbers(0, 0)), B: ServedGPU(numbers=Numbers(1, 1), closed="Unhealthy")}
NOBODY: Tokens = frozenset()


def test_each_gpu_has_a_hundred_tokens_that_name_none() -> None:
    assert (tokens.all_of(2)[0], tokens.all_of(2)[-1], len(tokens.all_of(2))) == ("t0000", "t0199", 200)


def test_open_gpus_withdraw_nothing() -> None:
    assert tokens.withdrawn(OPEN, {A: 60}, held=some(1), before=some(5), suspended=False) == NOBODY


def test_a_closed_gpu_withdraws_what_its_tenants_have_not() -> None:
    found = tokens.withdrawn(CLOSED, {B: 60}, held=some(1, 199), before=NOBODY, suspended=False)
    assert len(found) == 40
    assert not found & some(1, 199)


def test_the_rest_is_withdrawn_as_tenants_end() -> None:
    before = tokens.withdrawn(CLOSED, {B: 60}, held=some(1), before=NOBODY, suspended=False)
    after = tokens.withdrawn(CLOSED, {}, held=NOBODY, before=before, suspended=False)
    assert before < after
    assert len(after) == 100


def test_what_is_withdrawn_stays_so_when_other_pods_come_and_go() -> None:
    before = tokens.withdrawn(CLOSED, {}, held=some(*range(150, 200)), before=NOBODY, suspended=False)
    after = tokens.withdrawn(CLOSED, {}, held=some(7), before=before, suspended=False)
    assert len(after - before) == len(before - after) == len(before & some(7))


def test_no_more_is_withdrawn_than_is_free() -> None:
    found = tokens.withdrawn(CLOSED, {A: 10}, held=some(*range(190)), before=NOBODY, suspended=False)
    assert found == some(*range(190, 200))


def test_a_suspended_node_withdraws_all_that_is_free() -> None:
    found = tokens.withdrawn(OPEN, {}, held=some(0), before=NOBODY, suspended=True)
    assert found == frozenset(tokens.all_of(2)) - some(0)


def test_the_offer_lists_all_and_keeps_what_is_held_of_a_gpu_that_is_gone() -> None:
    offer = tokens.offer(1, held=some(3, 150), withdrawn=some(9))
    assert len(offer) == 101
    assert [each for each, healthy in offer.items() if not healthy] == ["t0009", "t0150"]
