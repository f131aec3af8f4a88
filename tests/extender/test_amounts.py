"""What pods ask of their node, however it is written."""

from typing import Any

import pytest

from cotenant_extender import amounts, reading
from extender import builders


@pytest.mark.parametrize(("text", "hundredths"), [("1", 1), ("500m", 1), ("10500m", 11), ("1e-999999", 1), ("0", 0)])
def test_a_part_of_a_whole_counts_whole(text: str, hundredths: int) -> None:
    assert amounts.whole(text) == hundredths


def test_a_part_of_a_thousandth_counts_whole() -> None:
    assert amounts.millis("1500u") == 2


@pytest.mark.parametrize("text", ["1e60", "1e999999", "99999999999999999999Ei"])
@pytest.mark.parametrize("resource", ["cpu", "memory"])
def test_a_pod_that_asks_its_node_for_more_than_there_can_be_is_read(resource: str, text: str) -> None:
    """Else its node would be closed: by any pod that names a node, whatever else it asks for."""
    raw = builders.pod("huge", 0, node="n0")
    raw["spec"]["containers"][0]["resources"]["requests"] = {resource: text}
    record = reading.pod(raw)
    assert record.invalid is None
    assert not record.asks
    needed: dict[str, Any] = {"cpu": record.host.cpu_millis, "memory": record.host.memory_bytes}
    assert needed[resource] == amounts.MOST
