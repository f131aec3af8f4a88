"""`--kubeconfig` means the same to every command of the operator."""

import argparse
from pathlib import Path
from types import ModuleType

import pytest

from cotenant_operator import command, measurements_command

COMMANDS = (command, measurements_command)


def kubeconfig(module: ModuleType, *flags: str) -> Path | None:
    parser = argparse.ArgumentParser()
    module.configure(parser)
    found: Path | None = parser.parse_args(flags).kubeconfig
    return found


@pytest.mark.parametrize("module", COMMANDS)
def test_the_flag_goes_before_the_environment(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/of/the/environment")
    assert kubeconfig(module) == Path("/of/the/environment")
    assert kubeconfig(module, "--kubeconfig", "/of/the/flag") == Path("/of/the/flag")


@pytest.mark.parametrize("value", [None, ""])
@pytest.mark.parametrize("module", COMMANDS)
def test_without_either_the_pods_account_is_meant(
    module: ModuleType, value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    if value is not None:
        monkeypatch.setenv("KUBECONFIG", value)
    assert kubeconfig(module) is None
