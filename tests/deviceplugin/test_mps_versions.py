"""Which drivers are trusted to hold tenants."""

import pytest

from cotenant_deviceplugin.mps import versions


@pytest.mark.parametrize("version", ["570", "570.133.07", "580.65.06 (stand-in)", "1000.1"])
def test_drivers_from_the_least_on_are_fit(version: str) -> None:
    assert versions.unfit(version) is None


@pytest.mark.parametrize("version", ["569.99", "550.163.01", "0"])
def test_older_drivers_are_named(version: str) -> None:
    assert versions.unfit(version) == f"driver {version} is older than 570: its MPS clients do not work in containers"


@pytest.mark.parametrize("version", ["", "unknown", "v580.1", " 580.1", "-580", "9" * 400, "\u0665\u0668\u0660.1"])
def test_versions_without_a_number_are_not_trusted_and_shown(version: str) -> None:
    reason = versions.unfit(version) or ""
    assert reason.startswith(f"driver version {repr(version)[:200]}")
    assert reason.endswith("begins with no number: it may be older than 570")
