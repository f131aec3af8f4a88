"""Sets of nodes as bits over rows: what they say of nodes that came, went and moved since."""

import hypothesis
import numpy as np
from hypothesis import strategies as st

from cotenant_api.names import NodeName
from cotenant_extender.packing import nodeset

NAMES = st.lists(st.integers(0, 40).map(lambda number: NodeName(f"n{number:02}")), unique=True)


@hypothesis.given(NAMES, NAMES, st.data())
def test_a_set_says_of_any_nodes_what_a_set_of_names_would(
    before: list[NodeName], after: list[NodeName], data: st.DataObject
) -> None:
    members = data.draw(st.sets(st.sampled_from(before))) if before else set()
    rows = {name: row for row, name in enumerate(before)}
    found = nodeset.NodeSet.of(rows, np.array([name in members for name in before], dtype=np.bool_))
    if found is None:
        assert not members
        return
    assert found.mask().tolist() == [name in members for name in before]
    assert found.among(after).tolist() == [name in members for name in after]


def test_equal_sets_of_the_same_rows_are_one_key_and_of_other_rows_are_not() -> None:
    rows, other = {NodeName("a"): 0, NodeName("b"): 1}, {NodeName("a"): 0, NodeName("b"): 1}
    mask = np.array([True, False])
    one, same, different = (nodeset.NodeSet.of(given, mask) for given in (rows, rows, other))
    assert (one == same, hash(one) == hash(same), one == different) == (True, True, False)


def test_a_node_is_in_the_set_if_it_was_there_and_chosen() -> None:
    rows = {NodeName(f"n{row}"): row for row in range(20)}
    found = nodeset.NodeSet.of(rows, np.arange(20) % 3 == 1)
    assert found is not None
    assert [name in found for name in rows] == [row % 3 == 1 for row in range(20)]
    assert NodeName("later") not in found
