"""What the chart takes from manifests/ is in step with them."""

import shutil
from argparse import ArgumentParser
from pathlib import Path

import pytest
import yaml

from cotenant_api import errors
from cotenant_e2e import charts
from cotenant_e2e.commands import chart as command


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of the chart."""
    return Path(shutil.copytree(charts.CHART, tmp_path / "cotenant"))


def run(*arguments: str) -> int:
    parser = ArgumentParser()
    command.configure(parser)
    return command.run(parser.parse_args(arguments))


def test_every_generated_file_is_in_step() -> None:
    for name, text in charts.rendered().items():
        assert (charts.CHART / name).read_text() == text, f"{name}: {charts.COMMAND}"


def test_no_generated_file_is_left_over() -> None:
    assert charts.generated(charts.CHART) <= charts.rendered().keys()


def test_a_definition_carries_a_digest_of_what_it_defines_and_of_nothing_else() -> None:
    text = "apiVersion: v1\nkind: CustomResourceDefinition\nmetadata:\n  name: a\nspec:\n  group: b\n"
    digests = [
        yaml.safe_load(charts.definition(changed))["metadata"]["annotations"][charts.DIGEST]
        for changed in (text, text.replace("name: a", "name: c"), text.replace("group: b", "group: c"))
    ]
    assert digests[0] == digests[1] != digests[2]


def test_a_manifest_that_helm_would_take_for_a_template_is_refused() -> None:
    with pytest.raises(errors.InvalidInputError, match="Helm takes it for its own"):
        charts.template("a: '{{ b }}'", name="rbac/a.yaml")


def test_a_scheduler_configuration_without_its_kubeconfig_is_refused() -> None:
    with pytest.raises(errors.InvalidInputError, match="keep the line"):
        charts.scheduler_configuration("clientConnection: {}")


@pytest.mark.parametrize("name", ["templates/rbac/operator.yaml", "crds/cotenant.dev_dljobs.yaml"])
def test_a_copy_that_somebody_edited_is_found_and_written_again(copied: Path, name: str) -> None:
    assert run("--check", "--dir", str(copied)) == 0
    (copied / name).write_text((copied / name).read_text() + "# mine\n")
    with pytest.raises(errors.PermanentError, match=f"{name} is not in step with manifests/: python -m"):
        run("--check", "--dir", str(copied))
    run("--write", "--dir", str(copied))
    assert run("--check", "--dir", str(copied)) == 0


def test_the_copy_of_a_manifest_that_is_gone_goes_too(copied: Path) -> None:
    old = copied / "templates" / "rbac" / "old.yaml"
    old.write_text((copied / "templates" / "rbac" / "operator.yaml").read_text())
    with pytest.raises(errors.PermanentError, match=r"old\.yaml is not in step"):
        run("--check", "--dir", str(copied))
    run("--write", "--dir", str(copied))
    assert not old.exists()
