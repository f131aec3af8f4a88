"""Commands without rights, without a valid token, and without Cotenant in the cluster, on real API servers."""

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from cli import bad_words
from cluster.bad_callers import LINES, Call
from cotenant_api import cli
from cotenant_e2e import client as clients
from cotenant_e2e import testing
from cotenant_e2e.cluster import Cluster
from cotenant_e2e.installation import Installation

ACCOUNT = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "nobody"}}


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A control plane that has never heard of Cotenant."""
    with testing.control_plane(tmp_path_factory.mktemp("bare")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def callers(installed: Installation, bare: Cluster) -> Mapping[str, Path]:
    """Kubeconfigs by who calls."""
    cluster = installed.cluster
    accounts = clients.path_of("serviceaccounts", namespace="default")
    if cluster.client.find(f"{accounts}/nobody") is None:
        cluster.client.create(accounts, ACCOUNT)
    return {
        "admin": cluster.kubeconfig(),
        "nobody": cluster.kubeconfig_for_token("nobody", cluster.token("default", "nobody")),
        "stranger": cluster.kubeconfig_for_token("stranger", "not.a.token"),
        "bare": bare.kubeconfig(),
    }


@pytest.mark.parametrize("case", LINES, ids=lambda case: case.name)
def test_a_call_that_is_not_answered_is_exit_code_1_with_the_remedy(
    case: Call, callers: Mapping[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "graph.json").write_bytes(bad_words.GRAPH)
    line = case.line.format(DIR=tmp_path)
    assert cli.main([*shlex.split(line), "--kubeconfig", str(callers[case.who])]) == case.code
    captured = capsys.readouterr()
    said = re.sub(r"\s+", " ", captured.out + captured.err)
    assert [text for text in case.said if text not in said] == [], said
    assert "Traceback" not in said


def test_nothing_was_created(installed: Installation, bare: Cluster) -> None:
    for cluster in (installed.cluster, bare):
        found = cluster.client.items(clients.path_of("configmaps", namespace="default"))
        assert [one["metadata"]["name"] for one in found] == ["kube-root-ca.crt"]
