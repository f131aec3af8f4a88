"""What must hold of the repository as a whole."""

import operator
import re
import subprocess
from importlib import metadata
from pathlib import Path

import pytest
import yaml

import cotenant_api

ROOT = Path(__file__).parents[2]


def tracked() -> list[str]:
    """Files of the checkout; of the folder as it is where there is no git."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return listed.stdout.splitlines()


def test_no_directory_named_operator_is_a_package() -> None:
    assert [name for name in tracked() if re.search(r"(^|/)operator/__init__\.py$", name)] == []


def test_the_standard_librarys_operator_is_not_shadowed() -> None:
    assert not Path(operator.__file__).is_relative_to(ROOT) or ".venv" in operator.__file__


def test_the_changelog_starts_with_the_version() -> None:
    found = re.search(r"^## \[([^\]]+)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert found is not None
    assert found.group(1) == cotenant_api.__version__


@pytest.mark.parametrize("entry", metadata.entry_points(group="cotenant.commands"), ids=lambda entry: entry.name)
def test_every_subcommand_has_a_summary_and_can_be_configured_and_run(entry: metadata.EntryPoint) -> None:
    command = entry.load()
    assert command.SUMMARY
    assert callable(command.configure)
    assert callable(command.run)


def test_both_command_lines_are_the_same() -> None:
    scripts = {entry.name: entry.value for entry in metadata.entry_points(group="console_scripts")}
    assert scripts["cotenant"] == scripts["kubectl-cotenant"]


def test_the_kustomization_installs_every_manifest() -> None:
    manifests = ROOT / "manifests"
    listed = yaml.safe_load((manifests / "kustomization.yaml").read_text())["resources"]
    there = {
        str(path.relative_to(manifests))
        for folder in ("crds", "rbac", "admission")
        for path in (manifests / folder).glob("*.yaml")
    }
    assert set(listed) == there | {"namespace.yaml"}


def test_what_runs_on_nodes_is_never_there_twice() -> None:
    folder = ROOT / "manifests" / "node"
    listed = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
    assert set(listed) == {path.name for path in folder.glob("*.yaml")} - {"kustomization.yaml"}
    strategies = {}
    for name in listed:
        manifest = yaml.safe_load((folder / name).read_text())
        strategies[manifest["metadata"]["name"]] = manifest["spec"]["updateStrategy"]
        assert manifest["spec"]["template"]["spec"]["hostPID"]
    assert strategies["cotenant-node-agent"]["rollingUpdate"]["maxSurge"] == 0
    assert strategies["cotenant-mps"] == {"type": "OnDelete"}


def test_tests_run_against_the_installed_package_and_not_the_source_tree() -> None:
    assert not Path(cotenant_api.__file__).is_relative_to(ROOT / "api")
