"""How many operators there are, and how one follows another."""

import pytest
import yaml

from chart import rendering

VOLUME = ("retraining.enabled=true", "retraining.image=registry.example/train:1", "retraining.predictByActive=true")


def rendered(*values: str) -> tuple[int, str, bool]:
    """Replicas and strategy of the operator's Deployment, and whether a budget keeps all but one."""
    done = rendering.template(*(part for value in values for part in ("--set", value)))
    assert done.returncode == 0, done.stderr
    found = [item for item in yaml.safe_load_all(done.stdout) if item]
    named = {item["kind"]: item for item in found if item["metadata"]["name"] == "cotenant-operator"}
    spec = named["Deployment"]["spec"]
    return spec["replicas"], spec.get("strategy", {}).get("type", "RollingUpdate"), "PodDisruptionBudget" in named


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((), (2, "RollingUpdate", True)),
        (("operator.replicas=1",), (1, "RollingUpdate", False)),
        # Values that an earlier release left, which had no such key.
        (("operator.replicas=null",), (2, "RollingUpdate", True)),
        # Of a volume that one node alone may have, two pods would wait for each other.
        (VOLUME, (1, "Recreate", False)),
        ((*VOLUME, "retraining.accessMode=ReadWriteMany"), (2, "RollingUpdate", True)),
    ],
)
def test_another_operator_stands_by_unless_a_volume_forbids_it(
    values: tuple[str, ...], expected: tuple[int, str, bool]
) -> None:
    assert rendered(*values) == expected
