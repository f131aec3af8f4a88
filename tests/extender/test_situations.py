"""Situations of GPUs: alike ones are one, kept while a fleet changes, within bounds."""

from cotenant_api.names import NodeName
from cotenant_extender.packing import situations
from extender import sharing
from extender.sharing import INFERENCE, busy, figures, gpu, tenant


def test_gpus_of_one_model_with_equal_tenants_in_any_order_are_in_one_situation() -> None:
    one, other = busy(30), busy(50)
    source = sharing.packed(gpu(), gpu(one, other), gpu(other, one), gpu())
    codes = situations.Situations().codes(source)[:, 0].tolist()
    assert codes == [0, 1, 1, 0]


def test_equal_predictions_of_different_pods_are_one() -> None:
    source = sharing.packed(gpu(busy(30, uid="a", share=5)), gpu(busy(30, uid="b", share=7)))
    assert len(set(situations.Situations().codes(source)[:, 0].tolist())) == 1


def test_what_a_speed_depends_on_tells_situations_apart() -> None:
    every = [
        gpu(),
        gpu(model="Tesla-T4"),
        gpu(busy(30)),
        gpu(busy(31)),
        gpu(busy(30), busy(30)),
        gpu(busy(30, thread_percentage=50)),
        gpu(busy(30, client_priority=1)),
        gpu(busy(30, workload_type=INFERENCE)),
        gpu(tenant(None)),
    ]
    codes = situations.Situations().codes(sharing.packed(*every))[:, 0].tolist()
    assert len(set(codes)) == len(every)


def test_rows_that_change_come_or_go_are_seen() -> None:
    known, source = situations.Situations(), sharing.packed(gpu(), gpu(busy(30)))
    known.codes(source)
    source.put(sharing.node("n001", gpu(), gpu(busy(30))))
    assert known.codes(source).tolist() == [[0, -1], [0, 1]]
    source.put(sharing.node("n0005", gpu(busy(30))))
    assert known.codes(source).tolist() == [[0, -1], [1, -1], [0, 1]]
    source.remove(NodeName("n000"))
    assert known.codes(source).tolist() == [[1, -1], [0, 1]]


def test_a_part_of_a_fleet_and_a_replaced_row_are_seen() -> None:
    known, source = situations.Situations(), sharing.packed(gpu(), gpu(busy(30)), gpu())
    known.codes(source)
    part = source.part([NodeName("n001"), NodeName("n002")])
    assert known.codes(part)[part.present].tolist() == [1, 0]
    with source.replacing(sharing.node("n001", gpu())):
        assert known.codes(source)[:, 0].tolist() == [0, 0, 0]
        one = source.part([NodeName("n001")])
        assert known.codes(one)[one.present].tolist() == [0]
    assert known.codes(part)[part.present].tolist() == [1, 0]
    assert known.codes(source)[:, 0].tolist() == [0, 1, 0]


def test_a_look_at_one_node_forgets_nothing_of_the_whole() -> None:
    known = situations.Situations()
    whole = sharing.packed(*(gpu(busy(number / 120)) for number in range(12_000)))
    known.codes(whole)
    known.codes(sharing.packed(gpu()))
    assert len(known.known) == 12_001


def test_situations_of_the_past_are_forgotten_and_those_of_now_told_apart_again() -> None:
    known, source = situations.Situations(), sharing.packed(gpu())
    most = 0
    for number in range(12_500):
        predicted = figures(number % 100, number / 125)
        source.put(sharing.node("n000", gpu(tenant(predicted))))
        code = int(known.codes(source)[0, 0])
        most = max(most, len(known.known))
        assert known.known[code].tenants[0].predicted == predicted
    assert most < 11_000


def test_what_was_found_is_kept_for_its_newcomer_and_basis_alone() -> None:
    known, basis = situations.Situations(), object()
    known.found("a", basis)[3] = 0.5
    assert known.found("a", basis) == {3: 0.5}
    assert known.found("b", basis) == {}
    assert known.found("a", object()) == {}
    assert known.found("a", basis) == {}


def test_what_was_found_is_bounded() -> None:
    known, basis = situations.Situations(), object()
    for newcomer in range(40):
        known.found(newcomer, basis).update(dict.fromkeys(range(10_000), 0.0))
    assert sum(len(known.found(newcomer, basis)) for newcomer in range(40)) <= 110_000
