"""The fleet is made, and kept current, in so many steps."""

from cotenant_extender import records
from cotenant_extender.ledger import fleets, ledger
from extender import builders
from extender.builders import NOW

NODES = 3 * fleets.NODES_PER_STEP


def advanced(source: ledger.Ledger, *, steps: int) -> int:
    """How many nodes are behind after so many steps."""
    for _ in range(steps):
        source.advance()
    return source.behind


def test_a_fleet_is_made_in_a_step_for_every_few_nodes() -> None:
    source = builders.cluster(nodes=NODES)
    assert advanced(source, steps=1) >= NODES
    assert advanced(source, steps=20) == 0


def test_what_changes_when_a_fleet_was_made_is_caught_up_with_in_steps() -> None:
    source = builders.cluster(nodes=NODES)
    assert advanced(source, steps=20) == 0
    for name in source.order:
        changed = builders.gpunode(name, version=2, gpu={"health": "Unhealthy"})
        source.gpunode(records.gpunode_record(changed), now=NOW)
    assert source.behind == NODES
    assert advanced(source, steps=1) == NODES - fleets.NODES_PER_STEP
    assert advanced(source, steps=3) == 0


def test_another_policy_makes_it_anew() -> None:
    source = builders.cluster(nodes=NODES)
    assert advanced(source, steps=20) == 0
    source.policy_changed(builders.in_force(generation=2, maxTenantsPerGPU=7))
    assert source.behind >= NODES
    assert advanced(source, steps=20) == 0
