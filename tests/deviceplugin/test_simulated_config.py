"""The configuration of the simulated agents."""

import re
from pathlib import Path

import pytest

from cotenant_api import errors
from cotenant_deviceplugin.simulated import config

GOOD = "agents: [{node: n1, gpuModel: NVIDIA-H200, gpus: 4, kubeconfig: n1.conf}]"


def load(tmp_path: Path, text: str) -> config.Configuration:
    (tmp_path / "n1.conf").touch()
    path = tmp_path / "agents.yaml"
    path.write_text(text)
    return config.load(path)


def test_a_kubeconfig_is_found_beside_the_configuration(tmp_path: Path) -> None:
    read = load(tmp_path, GOOD)
    assert (read.agents[0].kubeconfig, read.namespace) == (tmp_path / "n1.conf", "cotenant-system")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("agents: [", "--config: "),
        ("3", "agents.yaml: 3: "),
        ("{}", "agents.yaml.agents: {}: Field required"),
        ("agents: []", "agents.yaml.agents: []: Tuple should have at least 1 item"),
        (GOOD + "\nagent: 1", "agents.yaml.agent: 1: Extra inputs are not permitted"),
        (
            GOOD.replace("gpus: 4", "gpus: 0"),
            "agents.yaml.agents[0].gpus: 0: Input should be greater than or equal to 1",
        ),
        (
            GOOD.replace("gpus: 4", "gpus: 17"),
            "agents.yaml.agents[0].gpus: 17: Input should be less than or equal to 16",
        ),
        (GOOD.replace("gpus: 4", "gpus: four"), "agents.yaml.agents[0].gpus: 'four': Input should be a valid integer"),
        (GOOD.replace("gpus: 4, ", ""), "agents.yaml.agents[0].gpus"),
        (GOOD.replace("H200", "H900"), "agents.yaml.agents[0].gpuModel: 'NVIDIA-H900': must be one of NVIDIA-A10, "),
        (GOOD.replace("n1.conf", "n2.conf"), "must be the path of a kubeconfig"),
        (
            "agents:\n" + "- {node: n1, gpuModel: Tesla-T4, gpus: 1, kubeconfig: n1.conf}\n" * 2,
            "agents.yaml.agents[1].node: 'n1': must be named once: a node has one agent",
        ),
    ],
)
def test_a_mistake_is_named_with_its_field_value_and_remedy(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(errors.InvalidInputError, match=re.escape(message)):
        load(tmp_path, text)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidInputError, match=r"--config: .*absent.yaml.*must be a file"):
        config.load(tmp_path / "absent.yaml")
