"""What the chart takes from manifests/ is in step with them."""

import pytest
import yaml

from cotenant_api import errors
from cotenant_e2e import charts


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
