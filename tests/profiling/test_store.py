"""Results on disk, and the archives that carry them from call to call."""

import tarfile
from pathlib import Path

import pytest

from cotenant_predictor.profiling.store import MAX_BYTES, Store, StoreError, pack, unpack


def result(name: str, **more: object) -> dict[str, object]:
    return {"v": 1, "id": name, **more}


def test_a_result_is_a_file_named_by_its_id(tmp_path: Path) -> None:
    store = Store(tmp_path)
    path = store.write(result("alone-1", value=2))
    assert path == tmp_path / "results" / "alone-1.json"
    assert list(store.results()) == [{"v": 1, "id": "alone-1", "value": 2}]


def test_what_a_killed_writer_left_is_no_result(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write(result("alone-1"))
    (tmp_path / "results" / ".alone-2.json.4711").write_text('{"v":1,"id":"alo')
    assert [found["id"] for found in store.results()] == ["alone-1"]


@pytest.mark.parametrize("text", ['{"v":1,"id":"alo', "[]", '{"v":1}', '{"v":2,"id":"alone-1"}', '{"v":1,"id":"b"}'])
def test_a_damaged_result_is_named_with_the_remedy(tmp_path: Path, text: str) -> None:
    (Store(tmp_path).folder / "results" / "alone-1.json").write_text(text)
    with pytest.raises(StoreError, match=r"alone-1\.json: is .*: remove it"):
        list(Store(tmp_path).results())


def test_a_figure_that_is_no_number_is_not_written(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(ValueError, match="JSON"):
        store.write(result("alone-1", value=float("nan")))
    assert list(store.results()) == []


def test_a_result_beyond_16_mib_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="bytes are more than"):
        Store(tmp_path).write(result("alone-1", value="x" * MAX_BYTES))


def test_archives_bring_everything_back(tmp_path: Path) -> None:
    store, other = Store(tmp_path / "a"), Store(tmp_path / "b")
    store.write(result("alone-1"))
    store.write_graph("resnet", {"v": 1})
    archives = pack(store, tmp_path / "packed")
    assert [path.name for path in archives] == ["campaign-0.tar.gz"]
    assert unpack(archives, other) == 2
    assert list(other.results()) == list(store.results())
    assert other.graphs() == {"resnet": {"v": 1}}


def test_the_same_results_make_the_same_archive(tmp_path: Path) -> None:
    store = Store(tmp_path / "a")
    store.write(result("alone-1"))
    first = pack(store, tmp_path / "packed")[0].read_bytes()
    assert pack(store, tmp_path / "packed")[0].read_bytes() == first


def test_no_archive_is_larger_than_16_mib_and_stale_ones_go(tmp_path: Path) -> None:
    store = Store(tmp_path / "a")
    for index in range(3):
        store.write(result(f"alone-{index}", value="x" * (6 * 2**20)))
    assert len(pack(store, tmp_path / "packed")) == 2
    (tmp_path / "a" / "results" / "alone-0.json").unlink()
    assert [path.name for path in pack(store, tmp_path / "packed")] == ["campaign-0.tar.gz"]
    assert [path.name for path in (tmp_path / "packed").iterdir()] == ["campaign-0.tar.gz"]


def test_what_is_there_is_not_overwritten_by_an_archive(tmp_path: Path) -> None:
    store, other = Store(tmp_path / "a"), Store(tmp_path / "b")
    store.write(result("alone-1", value="old"))
    other.write(result("alone-1", value="new"))
    assert unpack(pack(store, tmp_path / "packed"), other) == 0
    assert next(other.results())["value"] == "new"


def test_a_truncated_archive_is_refused(tmp_path: Path) -> None:
    store = Store(tmp_path / "a")
    store.write(result("alone-1", value=list(range(10_000))))
    archive = pack(store, tmp_path / "packed")[0]
    archive.write_bytes(archive.read_bytes()[:2000])
    with pytest.raises(StoreError, match="cannot be unpacked"):
        unpack([archive], Store(tmp_path / "b"))


@pytest.mark.parametrize("name", ["../evil.json", "results/deep/er.json", "other/a.json", "results/.hidden"])
def test_an_archive_with_anything_else_is_refused(tmp_path: Path, name: str) -> None:
    source = tmp_path / "file"
    source.write_text("{}")
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as tar:
        tar.add(source, arcname=name)
    with pytest.raises(StoreError, match="is no result and no graph"):
        unpack([tmp_path / "a.tar.gz"], Store(tmp_path / "b"))
    assert not (tmp_path / "evil.json").exists()
