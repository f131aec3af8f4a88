"""What kills a mutant: a test that fails each time with it, and never without it."""

from collections.abc import Callable

from mutants import trials

Answer = Callable[[trials.Ask], trials.Outcome]


def verdict(tests: list[str], answer: Answer) -> tuple[trials.Verdict, list[trials.Ask]]:
    steps, asked = trials.trial("tests", tests), list[trials.Ask]()
    try:
        ask = next(steps)
        while True:
            asked.append(ask)
            ask = steps.send(answer(ask))
    except StopIteration as end:
        found: trials.Verdict = end.value
        return found, asked


def fails(*names: str, without: str = "") -> Answer:
    """Tests that fail with the mutant, and one that fails without it, too."""

    def answer(ask: trials.Ask) -> trials.Outcome:
        failing = names if ask.mutated else (without,)
        return trials.Outcome(next((test for test in ask.tests if test in failing), ""), seconds=1.0)

    return answer


def test_a_test_that_fails_twice_with_the_mutant_and_not_without_it_kills() -> None:
    found, asked = verdict(["a", "b", "c"], fails("b", "c"))
    assert found == trials.Verdict("tests", "b", seconds=3.0)
    assert asked == [trials.Ask(["a", "b", "c"]), trials.Ask(["b"]), trials.Ask(["b"], mutated=False)]


def test_a_test_that_fails_without_the_mutant_too_kills_nothing_and_the_next_is_tried() -> None:
    assert verdict(["a", "b", "c"], fails("b", without="b"))[0].killer == ""
    assert verdict(["a", "b", "c"], fails("b", "c", without="b"))[0].killer == "c"


def test_a_test_that_fails_once_kills_nothing() -> None:
    outcomes = iter([trials.Outcome("a"), trials.Outcome(), trials.Outcome(), trials.Outcome()])
    assert verdict(["a", "b"], lambda _: next(outcomes))[0] == trials.Verdict("tests")


def test_what_fails_each_time_is_not_asked_again() -> None:
    found, asked = verdict(["seed 1"], lambda _: trials.Outcome("seed 1", "a GPU holds 101", certain=True))
    assert (found.killer, len(asked)) == ("seed 1: a GPU holds 101", 1)


def test_a_test_that_runs_out_of_cpu_time_kills_nothing_and_the_next_is_tried() -> None:
    def answer(ask: trials.Ask) -> trials.Outcome:
        return trials.Outcome(late="a") if "a" in ask.tests else fails("c")(ask)

    assert verdict(["a", "b", "c"], answer)[0].killer == "c"
    assert verdict(["a", "b"], answer)[0] == trials.Verdict("tests", late="a", seconds=1.0)


def test_after_two_tests_that_run_out_of_cpu_time_no_other_is_tried() -> None:
    found, asked = verdict(["a", "b", "c"], lambda ask: trials.Outcome(late=ask.tests[0]))
    assert (found, len(asked)) == (trials.Verdict("tests", late="a"), 2)


def test_without_tests_a_mutant_lives() -> None:
    assert verdict([], fails())[0] == trials.Verdict("tests")
