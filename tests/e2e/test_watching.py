"""Following a collection: what a new list shows of what a watch has missed."""

from typing import Any

from cotenant_e2e.watching import Event, difference


def thing(uid: str, version: str = "1") -> dict[str, Any]:
    return {"metadata": {"uid": uid, "resourceVersion": version}}


def test_a_first_list_adds_everything() -> None:
    assert difference({}, [thing("a"), thing("b")]) == [Event("ADDED", thing("a")), Event("ADDED", thing("b"))]


def test_a_later_list_shows_what_came_what_changed_and_first_what_went() -> None:
    known = {uid: thing(uid) for uid in ("a", "b", "c")}
    assert difference(known, [thing("d"), thing("b", "2"), thing("c")]) == [
        Event("DELETED", thing("a")),
        Event("ADDED", thing("d")),
        Event("MODIFIED", thing("b", "2")),
    ]
