"""How programs print their version, and which will do."""

import pytest

from cotenant_e2e import versions

BY_NAME = {program.name: program for program in versions.PROGRAMS}


@pytest.mark.parametrize(
    ("printed", "version"),
    [
        ("etcd Version: 3.6.8\nGit SHA: Not provided\nGo Version: go1.26.8\n", (3, 6, 8)),
        ("Kubernetes v1.36.4\n", (1, 36, 4)),
        ("Client Version: v1.32.4-dispatcher\nKustomize Version: v5.5.0\n", (1, 32, 4)),
        ("kwok version v0.8.0 go1.26.8 (linux/amd64)\n", (0, 8, 0)),
        ("go version go1.26.8 linux/amd64\n", (1, 26, 8)),
        ("go version go1.27rc1 linux/amd64\n", (1, 27, 0)),
        ("Kubernetes v1.36.0-rc.1\n", (1, 36, 0)),
    ],
)
def test_the_first_version_of_the_output_counts(printed: str, version: versions.Version) -> None:
    assert versions.parse(printed) == version


@pytest.mark.parametrize("printed", ["", "usage: etcd [flags]\n", "version devel\n"])
def test_output_without_a_version_has_none(printed: str) -> None:
    assert versions.parse(printed) is None


@pytest.mark.parametrize(
    ("program", "version", "allowed"),
    [
        ("kubectl", (1, 35, 9), False),
        ("kubectl", (1, 36, 0), True),
        ("kubectl", (1, 36, 99), True),
        ("kubectl", (1, 37, 0), False),
        ("etcd", (3, 5, 21), False),
        ("etcd", (3, 6, 8), True),
        ("etcd", (3, 7, 0), False),
        ("kwok", (0, 7, 9), False),
        ("kwok", (0, 8, 0), True),
        ("kwok", (1, 0, 0), True),
    ],
)
def test_only_fitting_versions_are_allowed(program: str, version: versions.Version, *, allowed: bool) -> None:
    assert BY_NAME[program].requirement.allows(version) is allowed


def test_an_unknown_version_is_not_allowed() -> None:
    assert not BY_NAME["kubectl"].requirement.allows(None)


@pytest.mark.parametrize(("version", "allowed"), [((1, 26, 7), False), ((1, 26, 8), True), ((1, 27, 0), True)])
def test_go_must_be_new_enough(version: versions.Version, *, allowed: bool) -> None:
    assert versions.GO.requirement.allows(version) is allowed
