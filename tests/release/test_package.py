"""The Python package as it would be published: built from a source distribution, and checked by twine."""

import zipfile
from pathlib import Path

import pytest

import cotenant_api
from cotenant_api import errors
from cotenant_e2e.releasing import package


def test_the_wheel_is_built_from_the_source_distribution_and_both_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source, wheel = package.build(Path("out"))
    assert source.name == f"cotenant-{cotenant_api.__version__}.tar.gz"
    names = zipfile.ZipFile(wheel).namelist()
    assert "cotenant_api/__init__.py" in names
    assert "cotenant_predictor/models/default.json" in names


def test_what_an_index_would_refuse_is_told(tmp_path: Path) -> None:
    broken = tmp_path / "cotenant-1-py3-none-any.whl"
    with zipfile.ZipFile(broken, "w") as archive:
        archive.writestr("cotenant-1.dist-info/METADATA", "Metadata-Version: 2.4\nName: cotenant\n")
    with pytest.raises(errors.PermanentError, match="twine check failed"):
        package.check([broken])
