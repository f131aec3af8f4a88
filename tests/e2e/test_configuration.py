"""Configuration files that the kit renders."""

import datetime as dt
from pathlib import Path

import pytest
import yaml

from cotenant_e2e import certificates, components, configuration
from cotenant_e2e.components import Settings

NOW = dt.datetime.now(dt.UTC)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    configuration.prepare(tmp_path)
    return Settings(tmp_path, "127.0.0.1", {components.API_SERVER: 20_000}, {})


def test_every_user_gets_a_kubeconfig(settings: Settings) -> None:
    configuration.write(settings, now=NOW)
    assert all(settings.kubeconfig(user).exists() for user in certificates.USERS)


def test_the_plain_scheduler_knows_no_extender_and_elects_no_leader(settings: Settings) -> None:
    configuration.write(settings, now=NOW)
    document = yaml.safe_load(settings.configuration("default-scheduler.yaml").read_text())
    assert "extenders" not in document
    assert document["leaderElection"] == {"leaderElect": False}
    assert document["clientConnection"]["kubeconfig"] == str(settings.kubeconfig("scheduler"))


def test_our_scheduler_asks_the_extender_at_its_port(settings: Settings) -> None:
    configuration.write_scheduler(settings, name="cotenant-scheduler", extender_port=23456)
    document = yaml.safe_load(settings.configuration("cotenant-scheduler.yaml").read_text())
    assert document["kind"] == "KubeSchedulerConfiguration"
    assert document["extenders"][0]["urlPrefix"] == "http://127.0.0.1:23456/scheduler"
    assert document["clientConnection"]["kubeconfig"] == str(settings.kubeconfig("cotenant-scheduler"))


def test_our_scheduler_may_be_told_to_weigh_the_extenders_scores(settings: Settings) -> None:
    configuration.write_scheduler(settings, name="cotenant-scheduler", extender_port=23456, weight=25)
    extender = yaml.safe_load(settings.configuration("cotenant-scheduler.yaml").read_text())["extenders"][0]
    assert (extender["prioritizeVerb"], extender["weight"], extender["filterVerb"]) == ("prioritize", 25, "filter")


def test_kwok_gets_stages_that_are_named_once(settings: Settings) -> None:
    configuration.write(settings, now=NOW)
    stages = list(yaml.safe_load_all(settings.configuration("kwok.yaml").read_text()))
    names = [stage["metadata"]["name"] for stage in stages]
    assert {stage["kind"] for stage in stages} == {"Stage"}
    assert len(set(names)) == len(names)


def test_a_new_cluster_starts_with_empty_folders(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "old.log").touch()
    configuration.prepare(tmp_path)
    assert not list((tmp_path / "logs").iterdir())
