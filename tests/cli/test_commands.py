"""The command lines: names, exit codes, forms of output, and reading again and again."""

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
import yaml

from cli import kit
from cotenant_api import cli, errors, tables
from cotenant_cli.commands import output, top, why
from cotenant_cli.views import usage_tables


@pytest.mark.parametrize(
    ("job", "namespace", "found"),
    [
        ("bert", None, ("here", "bert")),
        ("team/bert", None, ("team", "bert")),
        ("bert", "team", ("team", "bert")),
        ("team/bert", "team", ("team", "bert")),
    ],
)
def test_a_job_is_named_with_or_without_its_namespace(job: str, namespace: str | None, found: tuple[str, str]) -> None:
    assert why.subject(job, namespace, default="here") == found


@pytest.mark.parametrize(
    ("job", "namespace", "field"),
    [
        ("", None, "JOB"),
        ("team/", None, "JOB"),
        ("Bert", None, "JOB"),
        ("a/b/c", None, "--namespace"),
        ("x?limit=1", None, "JOB"),
        ("bert", "../nodes", "--namespace"),
        ("team/bert", "other", "--namespace"),
    ],
)
def test_what_is_no_name_is_refused_before_anything_is_asked(job: str, namespace: str | None, field: str) -> None:
    with pytest.raises(errors.InvalidInputError) as caught:
        why.subject(job, namespace, default="here")
    assert caught.value.field == field


@pytest.mark.parametrize(
    "words", [["why", "bert"], ["top"], ["doctor"], ["node", "show", "n1"], ["node", "drain", "n1"]]
)
def test_a_kubeconfig_that_is_not_there_is_exit_code_2_and_one_line(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([*words, "--kubeconfig", "/nowhere"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"cotenant: {words[0]}: --kubeconfig: '/nowhere'")
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize("words", [["why"], ["top", "-o", "xml"], ["top", "--interval", "soon"]])
def test_wrong_arguments_are_exit_code_2(words: list[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(words)
    assert stopped.value.code == 2


@pytest.mark.parametrize("interval", ["0", "nan", "-5"])
def test_an_interval_without_a_pause_is_refused(interval: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["top", "--watch", f"--interval={interval}"]) == 2
    assert "--interval" in capsys.readouterr().err


@pytest.mark.parametrize(("form", "read"), [(output.JSON, json.loads), (output.YAML, yaml.safe_load)])
def test_json_and_yaml_are_the_whole_document(form: str, read: Callable[[str], object]) -> None:
    shown = kit.top(gpunodes=[kit.gpunode(kit.gpu(reason=kit.HOSTILE))])
    text = output.rendered(shown, lambda look: usage_tables.lines(shown, look), tables.Look(colours=True), output=form)
    assert read(text) == shown.to_object()
    assert all(line.isprintable() for line in text.splitlines())


def test_a_server_that_does_not_answer_is_told_of_and_asked_again(capsys: pytest.CaptureFixture[str]) -> None:
    answers: Iterator[str | Exception] = iter(["one", errors.TemporaryError("no answer", delay_seconds=1), "two"])
    slept = []

    def read() -> str:
        found = next(answers)
        if isinstance(found, Exception):
            raise found
        return found

    found = top.watched(read, sleep=lambda: slept.append(1))
    assert list(itertools.islice(found, 2)) == ["one", "two"]
    assert len(slept) == 2
    assert capsys.readouterr().err == "cotenant: top: no answer\n"


def test_a_server_that_refuses_ends_the_watch() -> None:
    def read() -> str:
        raise errors.PermanentError("403")

    with pytest.raises(errors.PermanentError):
        next(top.watched(read, sleep=lambda: None))


@pytest.mark.parametrize("form", [output.TABLE, output.JSON])
def test_a_reader_that_goes_does_not_stop_a_drain(form: str) -> None:
    script = f"from cotenant_cli.commands import drain\nfor _ in range(3): drain.tell('x', {form!r})\nexit(7)"
    reader, writer = os.pipe()
    os.close(reader)
    out, err = (writer, subprocess.PIPE) if form == output.TABLE else (subprocess.PIPE, writer)
    done = subprocess.run([sys.executable, "-c", script], stdout=out, stderr=err, check=False, timeout=60)
    os.close(writer)
    assert (done.stderr or b"", done.returncode) == (b"", 7)


def test_a_reader_that_goes_ends_the_command_without_an_error() -> None:
    script = "from cotenant_api import terminal\nwhile terminal.write('x' * 65536): pass"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert running.stdout.read(1) == b"x"
        running.stdout.close()
        assert running.stderr.read() == b""
        assert running.wait(timeout=60) == 0
