"""What the admission policies say twice, to cost the API server less, they must say alike."""

from pathlib import Path

import pytest
import yaml

FOLDER = Path(__file__).parents[2] / "manifests" / "admission"


def policy(name: str) -> dict[str, list[dict[str, str]]]:
    """The spec of a file's policy."""
    document = next(yaml.safe_load_all((FOLDER / name).read_text(encoding="utf-8")))
    spec: dict[str, list[dict[str, str]]] = document["spec"]
    return spec


@pytest.mark.parametrize("name", ["placements.yaml", "pod-updates.yaml"])
def test_the_match_condition_is_the_negation_of_all_validations(name: str) -> None:
    spec = policy(name)
    (condition,) = spec["matchConditions"]
    rules = " && ".join(f"({validation['expression']})" for validation in spec["validations"])
    assert condition["expression"] == f"!( {rules} )"
