"""What the page of the simulator tells users to run: words that the commands know, on files that are there."""

import argparse
import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import pytest
import yaml

from cotenant_api import cli, sections
from cotenant_api.command import Command
from cotenant_simulator.cluster import proposal
from cotenant_simulator.commands import cluster
from cotenant_simulator.commands import snapshot as command
from cotenant_simulator.live import dcgm, prometheus, snapshot
from simulator import example_cluster

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "simulator.md"
EXAMPLE: Final = ROOT / "docs" / "what-if"
COMMANDS: Final[Mapping[str, Command]] = MappingProxyType(
    {"cotenant simulate cluster": cluster, "cotenant snapshot": command}
)
SHOWN: Final = [
    line
    for line in re.findall(r"^\$ (cotenant .+)$", PAGE.read_text(), re.MULTILINE)
    if line.startswith(tuple(COMMANDS))
]


@pytest.mark.parametrize("line", SHOWN)
def test_a_command_that_is_shown_is_one_that_there_is(line: str) -> None:
    name = next(name for name in COMMANDS if line.startswith(name))
    parser = argparse.ArgumentParser()
    COMMANDS[name].configure(parser)
    parser.parse_args(shlex.split(line)[len(name.split()) :])


def test_commands_are_shown_for_the_admin_the_engineer_and_who_gets_a_file() -> None:
    assert len(SHOWN) == 4


def test_the_page_has_a_section_for_each_kind_of_cluster() -> None:
    for section in (cluster.SECTION, cluster.SAVINGS):
        sections.require(PAGE, command=section)


def test_the_role_that_the_page_names_may_only_list() -> None:
    role = yaml.safe_load((ROOT / "manifests" / "rbac" / "snapshot-reader.yaml").read_text())
    assert role["metadata"]["name"] in PAGE.read_text()
    assert {verb for rule in role["rules"] for verb in rule["verbs"]} == {"list"}


def test_the_example_is_what_its_program_writes(tmp_path: Path) -> None:
    example_cluster.write(tmp_path)
    for name in ("cluster.json", "plain-cluster.json"):
        made, kept = (
            snapshot.Snapshot.from_json((folder / name).read_text(), source=name) for folder in (tmp_path, EXAMPLE)
        )
        assert [pod.name for pod in made.pods] == [pod.name for pod in kept.pods]
        assert made.nodes == kept.nodes


@pytest.mark.parametrize(
    "files",
    [
        ["--snapshot", "cluster.json", "--policy", "proposed.yaml"],
        ["--snapshot", "plain-cluster.json", "--prometheus", "prometheus.json"],
    ],
    ids=["packing", "plain"],
)
def test_the_example_is_simulated_by_the_command_that_the_page_shows(
    capsys: pytest.CaptureFixture[str], files: list[str]
) -> None:
    words = [word if word.startswith("--") else str(EXAMPLE / word) for word in files]
    assert cli.main(["simulate", "cluster", *words, "--hours", "1", "--seeds", "0", "--processes", "1", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["plans"]) == 2


def test_the_example_s_policy_and_history_can_be_read() -> None:
    proposal.read((EXAMPLE / "proposed.yaml").read_text(), source="proposed.yaml")
    assert dcgm.usage(prometheus.saved(EXAMPLE / "prometheus.json"), source="prometheus.json")
