"""The parts of a release that need no registry: its place, its user, the chart's values, and refusals by a registry."""

import argparse
import gzip
import json
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
import yaml

from cotenant_api import errors
from cotenant_e2e import charts, registries
from cotenant_e2e.commands import release
from cotenant_e2e.releasing import chart, credentials, oci, place, registry
from cotenant_e2e.releasing.credentials import Credentials
from cotenant_e2e.releasing.registry import Access, Registry
from release import small

HOST = "registry.example:5000"
DIGESTS = {name: f"sha256:{digit * 64}" for name, digit in (("operator", "1"), ("extender", "2"), ("node", "3"))}
ROBOT = Credentials("robot", "secret")


def test_a_place_is_a_host_and_a_folder() -> None:
    where = place.parse(f"{HOST}/team/cotenant")
    assert where == place.Place(HOST, "team/cotenant")
    assert where.charts == f"oci://{HOST}/team/cotenant/charts"
    assert where.reference("node", "sha256:1") == f"{HOST}/team/cotenant/node@sha256:1"


@pytest.mark.parametrize("text", ["", HOST, f"{HOST}/", f"https://{HOST}/a", f"{HOST}/Team", f"{HOST}/a/"])
def test_a_place_that_no_registry_takes_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(errors.InvalidInputError, match=r"REGISTRY: .*registry\.example:5000/team/cotenant"):
        place.parse(text)


def test_a_user_is_read_from_dockers_file(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    assert credentials.read(file, HOST) is None
    credentials.write(file, HOST, ROBOT)
    assert credentials.read(file, HOST) == ROBOT
    assert credentials.read(file, "other.example") is None
    assert file.stat().st_mode & 0o077 == 0
    assert "secret" not in repr(ROBOT)


@pytest.mark.parametrize("text", ["{", json.dumps({"auths": {HOST: {"auth": "a"}}})])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(errors.InvalidInputError, match=r"config\.json: .*log in again"):
        credentials.read(tmp_path / "config.json", HOST)


@pytest.mark.parametrize("answer", ['{"Username": "robot", "Secret": "secret"}', ""])
def test_a_helper_that_keeps_passwords_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    helper = tmp_path / "docker-credential-test"
    helper.write_text(f"#!/bin/sh\necho '{answer}'\ntest -n '{answer}'\n")
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    (tmp_path / "config.json").write_text('{"credsStore": "test"}')
    assert credentials.read(tmp_path / "config.json", HOST) == (ROBOT if answer else None)


def test_a_helper_that_is_missing_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"credsStore": "that-nobody-has"}')
    with pytest.raises(errors.PermanentError, match="docker-credential-that-nobody-has"):
        credentials.read(tmp_path / "config.json", HOST)


def test_docker_says_where_its_file_is() -> None:
    assert credentials.default_file({"DOCKER_CONFIG": "/d", "HOME": "/h"}) == Path("/d/config.json")
    assert credentials.default_file({"HOME": "/h"}) == Path("/h/.docker/config.json")


def test_the_charts_values_name_registry_and_digests_and_nothing_else_changes() -> None:
    before = (charts.CHART / "values.yaml").read_text()
    after = chart.with_images(before, place.parse(f"{HOST}/team/cotenant"), DIGESTS)
    changed = [line for line, old in zip(after.splitlines(), before.splitlines(), strict=True) if line != old]
    assert len(changed) == 3
    image = yaml.safe_load(after)["image"]
    assert (image["registry"], image["repository"], image["digests"]) == (HOST, "team/cotenant", DIGESTS)


@pytest.mark.parametrize(
    ("values", "said"),
    [("mode: Pack\n", "write the block"), ('image:\n  registry: ""\n  registry: ""\n', "once in the block `image`")],
)
def test_values_that_are_written_otherwise_are_refused(values: str, said: str) -> None:
    with pytest.raises(errors.InvalidInputError, match=said):
        chart.with_images(values, place.parse(f"{HOST}/team"), DIGESTS)


def test_the_same_archive_gives_the_same_digest_wherever_it_is_compressed(tmp_path: Path) -> None:
    small.docker_archive(tmp_path / "x.tar", "amd64", "text")
    one, other = (oci.image(tmp_path / "x.tar", tmp_path / folder) for folder in ("a", "b"))
    assert one.digest == other.digest
    assert one.architecture == "amd64"
    _, blob = one.blobs
    with blob.open() as content:
        assert gzip.decompress(content.read()) == small.tar({"opt/file": b"text"})


def test_a_layer_that_nothing_has_needed_for_a_week_is_deleted(tmp_path: Path) -> None:
    small.docker_archive(tmp_path / "x.tar", "amd64", "text")
    layers = tmp_path / "layers"
    oci.image(tmp_path / "x.tar", layers)
    (path,) = layers.iterdir()
    needed = path.stat().st_mtime
    oci.forget(layers, now=needed + oci.KEPT_SECONDS - 1)
    assert path.exists()
    oci.forget(layers, now=needed + oci.KEPT_SECONDS + 1)
    assert not path.exists()


def asked(answer: Callable[[httpx.Request], httpx.Response], user: Credentials | None = ROBOT) -> Registry:
    """Return a client of a registry that answers so."""
    return Registry(Access(HOST, user=user), transport=httpx.MockTransport(answer))


def test_a_token_is_fetched_where_the_registry_asks_for_one_and_used_again() -> None:
    seen: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(f"{request.url.host} {request.headers.get('Authorization', '-').split()[0]}")
        if request.url.host == "auth.example":
            assert request.url.params["scope"] == "repository:team/x:pull,push"
            assert request.url.params["service"] == "s"
            return httpx.Response(200, json={"token": "t"})
        if request.headers.get("Authorization") == "Bearer t":
            return httpx.Response(404)
        challenge = 'Bearer realm="https://auth.example/token",service="s"'
        return httpx.Response(401, headers={"WWW-Authenticate": challenge})

    with asked(answer) as client:
        assert client.manifest("team/x", "1") is None
        assert client.manifest("team/x", "2") is None
    first = ["registry.example -", "auth.example Basic", "registry.example Bearer"]
    assert seen == [*first, "registry.example Bearer"]


@pytest.mark.parametrize("user", [None, ROBOT])
def test_who_may_not_is_told_to_log_in(user: Credentials | None) -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(401, headers={"WWW-Authenticate": 'Basic realm="x"'}, text="who are you?")

    with asked(answer, user) as client, pytest.raises(errors.PermanentError, match=f"who are.*docker login {HOST}"):
        client.manifest("team/x", "1")


def test_a_registry_that_cannot_be_reached_is_named() -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    with asked(answer) as client, pytest.raises(errors.PermanentError, match=f"{HOST} cannot be reached.*refused"):
        client.manifest("team/x", "1")


def test_a_failure_of_the_registry_is_told_with_its_path() -> None:
    with asked(lambda _: httpx.Response(507)) as client, pytest.raises(errors.PermanentError, match=r"/v2/x/.*507"):
        client.push_manifest("x", b"{}", media_type=oci.MANIFEST, tag="1")


def test_a_repository_is_known_by_the_path_of_a_request() -> None:
    assert registry.repository_of("/v2/team/cotenant/node/blobs/uploads/") == "team/cotenant/node"
    assert registry.repository_of("/v2/") == ""


@pytest.mark.parametrize("user", [None, ROBOT])
def test_a_registry_asks_for_a_user_where_it_has_one(tmp_path: Path, user: Credentials | None) -> None:
    found = registries.configuration(registries.Running(tmp_path, Access(HOST, user=user)))
    assert ("auth" in found) is (user is not None)
    assert found["http"]["tls"]["certificate"].startswith(str(tmp_path))


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        (["--version", "latest"], r"VERSION: 'latest': name one as 1\.2\.3"),
        (["--key", "nowhere.key"], r"KEY: 'nowhere\.key': name a private key"),
    ],
)
def test_an_argument_that_cannot_be_used_is_refused_before_anything_is_built(
    argument: list[str], said: str, tmp_path: Path
) -> None:
    parser = argparse.ArgumentParser()
    release.configure(parser)
    where = ["--registry", f"{HOST}/team", "--out", str(tmp_path), "--images", str(tmp_path)]
    with pytest.raises(errors.InvalidInputError, match=said):
        release.run(parser.parse_args([*where, *argument]))
    assert not list(tmp_path.iterdir())
