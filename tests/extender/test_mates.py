"""Which pods count for a gang, whatever comes, changes and goes in whatever order."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from cotenant_api import names
from cotenant_api.names import NodeName, PodUID
from cotenant_extender import records
from cotenant_extender.ledger import index
from extender import builders

NAMES = "abcdef"
PLAIN = {
    name: records.pod_record(builders.pod(name, annotations=builders.gang("g", 2), created=builders.NOW + number % 3))
    for number, name in enumerate(NAMES)
}
STATES = {
    "waits": {},
    "lifted": {"gates": (), "earmark": "{}"},
    "bound": {"node": NodeName("n0"), "gates": ()},
    "gated by others": {"gates": (names.PACKING_GATE, "others/gate")},
    "succeeded": {"node": NodeName("n0"), "gates": (), "phase": "Succeeded"},
    "leaving": {"node": NodeName("n0"), "deleting": True},
}
ORDER = ("bound", "lifted", "waits", "gated by others", "succeeded", "leaving")


@given(events=st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from([*STATES, "gone"])), max_size=20))
def test_the_bound_the_lifted_and_the_oldest_pods_count_and_who_moves_is_told(events: list[tuple[str, str]]) -> None:
    found, states = index.Index(), dict[str, str]()
    for name, state in events:
        before = set(next(iter(found.gangs.values()), {}))
        uid = PodUID(f"uid-{name}")
        if state == "gone":
            states.pop(name, None)
            moved = found.remove(uid)
        else:
            states[name] = state
            moved = found.put(replace(PLAIN[name], **STATES[state]))  # type: ignore[arg-type]
        ranked = sorted(states, key=lambda one: (ORDER.index(states[one]), PLAIN[one].created, one))
        counted = set(next(iter(found.gangs.values()), {}))
        assert counted == {f"uid-{one}" for one in ranked[:2]}
        assert moved == (before ^ counted) - {uid}
