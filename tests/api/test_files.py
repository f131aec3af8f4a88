"""Files are written whole or not at all."""

from pathlib import Path

import pytest

from cotenant_api import errors, files


def test_written_file_is_whole_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "graph.json"
    path.write_text("old", encoding="utf-8")
    files.replace(path, b"new", field="--output")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_missing_folder_is_made(tmp_path: Path) -> None:
    files.replace(tmp_path / "new" / "graph.json", b"new", field="--output")
    assert (tmp_path / "new" / "graph.json").read_bytes() == b"new"


def test_file_that_cannot_be_written_is_named_by_its_field(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(errors.InvalidInputError, match=r"--output.*cannot be written"):
        files.replace(tmp_path / "file" / "graph.json", b"new", field="--output")
