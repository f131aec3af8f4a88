"""When a graph that cannot be read is looked for again: soon at first, rarely later, and more rarely among many."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from cotenant_operator import reasons
from cotenant_operator.life import creation
from cotenant_operator.state import outcomes, reading, store
from cotenant_operator.state.kinds import Kind
from cotenant_operator.state.observed import Observed
from cotenant_operator.state.views import Key
from operator_kit import objects

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MISSING = outcomes.Missing(reason=reasons.GRAPH_UNREADABLE, message="", may_come=True)


def seconds(*, age: float, siblings: int = 1) -> float:
    job = reading.dl_job(made("train"))
    job = replace(job, meta=replace(job.meta, created=NOW - timedelta(seconds=age)))
    found = creation.next_look(Observed(job=job, outcome=MISSING, siblings=siblings), NOW)
    assert found is not None
    return (found - NOW).total_seconds()


def made(name: str, *, uid: str = "", version: int = 1) -> objects.Json:
    found = objects.dljob(name)
    found["metadata"] |= {"namespace": "team", "uid": uid or f"uid-{name}", "resourceVersion": str(version)}
    found["metadata"].setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
    return found


@pytest.mark.parametrize(("age", "expected"), [(0, 1), (4, 1), (60, 15), (3600, 30)])
def test_a_namespace_with_few_dljobs_is_looked_at_every_half_minute_at_least(age: float, expected: float) -> None:
    assert seconds(age=age) == expected
    assert seconds(age=age, siblings=50) == expected


def test_among_thousands_five_are_looked_at_in_a_second() -> None:
    assert seconds(age=3600, siblings=3000) == 600


def test_a_young_one_among_thousands_is_looked_at_soon() -> None:
    """Its ConfigMap may be applied just after it."""
    assert seconds(age=2, siblings=3000) == 2


def test_however_many_there_are_each_is_looked_at_some_time() -> None:
    assert seconds(age=10**6, siblings=10**6) == creation.MOST_SECONDS


def test_the_dljobs_of_a_namespace_are_counted_as_they_come_change_and_go() -> None:
    source = store.Store()

    def siblings() -> int:
        found = source.observe(key, outcome=None)
        return 0 if found is None else found.siblings

    key = Key(str(made("a")["metadata"]["namespace"]), "a")
    for value in (made("a"), made("b"), made("a", version=2)):
        source.put(Kind.DLJOB, value)
    assert siblings() == 2
    source.put(Kind.DLJOB, made("b", uid="another", version=3))
    source.remove(Kind.DLJOB, "uid-b")
    assert siblings() == 2
    source.remove(Kind.DLJOB, "another")
    assert siblings() == 1


def test_dljobs_that_are_over_do_not_count() -> None:
    source, over = store.Store(), made("b", version=3)
    done = {
        "type": "Complete",
        "status": "True",
        "reason": "Done",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    over["status"] = {"conditions": [done]}
    for value in (made("a"), made("b"), over):
        source.put(Kind.DLJOB, value)
    found = source.observe(Key("team", "a"), outcome=None)
    assert found is not None
    assert found.siblings == 1
