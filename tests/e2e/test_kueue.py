"""What Kueue is started with: its own manifests, called on loopback."""

from pathlib import Path

import pytest
import yaml

from cotenant_e2e import kueue

WEBHOOKS = """
metadata: {name: mutating-webhook-configuration}
webhooks:
- {name: mjob.kb.io, clientConfig: {service: {name: s, namespace: n, path: /mutate-batch-v1-job}}}
- {name: mrayjob.kb.io, clientConfig: {service: {name: s, namespace: n, path: /mutate-ray}}}
---
metadata: {name: validating-webhook-configuration}
webhooks:
- {name: vworkload.kb.io, clientConfig: {service: {name: s, namespace: n, path: /validate-workload}}}
"""


def test_webhooks_of_kinds_that_are_there_are_called_on_loopback() -> None:
    mutating, validating = kueue.webhooks(WEBHOOKS, port=9443, authority=b"pem")
    assert [one["name"] for one in mutating["webhooks"]] == ["mjob.kb.io"]
    assert mutating["webhooks"][0]["clientConfig"] == {
        "url": "https://127.0.0.1:9443/mutate-batch-v1-job",
        "caBundle": "cGVt",
    }
    assert [one["name"] for one in validating["webhooks"]] == ["vworkload.kb.io"]
    assert not mutating["metadata"]["name"].startswith("kueue-")


@pytest.mark.parametrize(("plural", "strategy"), [("workloads", "Webhook"), ("topologies", None)])
def test_crds_get_the_conversion_that_kueue_patches_in(tmp_path: Path, plural: str, strategy: str | None) -> None:
    for name in ("bases", "patches"):
        (tmp_path / name).mkdir()
    crd = {"spec": {"names": {"plural": plural}}}
    (tmp_path / "bases" / "one.yaml").write_text(yaml.safe_dump(crd))
    patch = {"spec": {"conversion": {"strategy": "Webhook"}}}
    (tmp_path / "patches" / "webhook_in_workloads.yaml").write_text(yaml.safe_dump(patch))
    (found,) = kueue.crds(tmp_path)
    assert found["spec"].get("conversion", {}).get("strategy") == strategy


def test_what_runs_dljobs_is_managed_and_nothing_is_served_outside(tmp_path: Path) -> None:
    found = kueue.configuration({"webhooks": 1, "health": 2}, certificates=tmp_path)
    assert found["integrations"] == {"frameworks": ["batch/job", "deployment", "pod"]}
    assert found["metrics"] == {"bindAddress": "0"}
    assert found["webhook"]["host"] == "127.0.0.1"
    assert found["health"] == {"healthProbeBindAddress": "127.0.0.1:2"}
