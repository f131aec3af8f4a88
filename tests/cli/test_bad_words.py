"""No command ends in a traceback, or with 0, for what it cannot use: the table of `bad_words`, line by line."""

import shlex
from pathlib import Path

import pytest

from bad_input import Words
from cli import bad_words
from cotenant_api import cli


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the lines name."""
    made = tmp_path_factory.mktemp("files")
    for name, data in bad_words.FILES.items():
        (made / name).write_bytes(data)
    return made


@pytest.mark.parametrize("case", bad_words.LINES, ids=lambda case: case.name)
def test_a_line_says_what_is_wrong_in_one_line_and_by_its_exit_code(
    case: Words, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(folder / "missing.conf"))
    monkeypatch.setattr("kubernetes.config.KUBE_CONFIG_DEFAULT_LOCATION", str(folder / "missing.conf"), raising=False)
    try:
        code = cli.main(shlex.split(case.line.format(DIR=folder)))
    except SystemExit as stopped:
        code = int(stopped.code or 0)
    captured = capsys.readouterr()
    assert code == case.code, captured.err
    assert [text for text in case.said if text not in captured.err] == [], captured.err
    last = captured.err.strip().splitlines()[-1]
    assert last.startswith("cotenant"), captured.err
    assert captured.out == ""
    assert sorted(one.name for one in folder.iterdir()) == sorted(bad_words.FILES)
