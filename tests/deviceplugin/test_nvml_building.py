"""How the stand-in's C parts are built."""

from pathlib import Path

import pytest

from cotenant_standin import building


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_what_is_built_is_kept_in_the_cache(cache: Path) -> None:
    built = building.nvml()
    assert built.is_relative_to(cache / "cotenant" / "standin")
    first = built.stat().st_ino
    assert building.nvml().stat().st_ino == first
    assert [path.name for path in built.parent.iterdir()] == ["libnvidia-ml.so.1"]


def test_other_flags_are_another_file(cache: Path) -> None:
    plain = building.build("x", ["nvml_processes.c"], flags=["-c"])
    assert building.build("x", ["nvml_processes.c"], flags=["-c", "-g"]) != plain


def test_what_gcc_refuses_is_told_in_its_words(cache: Path) -> None:
    with pytest.raises(RuntimeError, match="no-such-flag"):
        building.build("x", ["nvml_processes.c"], flags=["-fno-such-flag"])


def test_without_gcc_the_remedy_is_told(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(cache))
    with pytest.raises(RuntimeError, match="apt-get install gcc"):
        building.nvml()


def test_without_a_cache_variable_the_home_folder_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert building.cache() == Path.home() / ".cache" / "cotenant" / "standin"
