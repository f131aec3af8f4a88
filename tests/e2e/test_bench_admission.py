"""The table of what creating others' pods takes, from turns that are given."""

from cotenant_e2e.benchmark import admission


def turn(median: float, cpu: float) -> admission.Turn:
    return admission.Turn(median=median, p99=10 * median, cpu=cpu)


def measured(*, refused: int = 0) -> admission.Measured:
    turns = {case: [turn(2, 1), turn(4, 2)] for case in admission.ABSENT}
    turns[admission.NOTHING] = [turn(1, 1), turn(1, 1)]
    return admission.Measured(turns=turns, requests=7, refused=refused)


def test_a_case_is_compared_with_everything_of_its_own_turn() -> None:
    assert measured().ratios(admission.NOTHING, lambda one: one.median) == [0.5, 0.25]


def test_a_row_gives_medians_and_the_spread_of_both_ratios() -> None:
    (row,) = [line for line in admission.lines(measured(), cores=2) if line.startswith(f"| {admission.NOTHING} ")]
    assert row == f"| {admission.NOTHING} | 1.00 | 10.00 | 1.00 | 0.38 (0.25 to 0.50) | 0.75 (0.50 to 1.00) |"


def test_refused_requests_are_told() -> None:
    assert "3 requests were refused" in admission.lines(measured(refused=3), cores=2)[-1]


def test_every_group_of_objects_is_a_case_and_nothing_lacks_them_all() -> None:
    every = admission.ABSENT[admission.NOTHING]
    groups = {case: gone for case, gone in admission.ABSENT.items() if case != admission.NOTHING}
    assert sum(map(len, groups.values())) == len(every)
    assert {one["kind"] for one in every} > {"Namespace", "CustomResourceDefinition", "ValidatingAdmissionPolicy"}
