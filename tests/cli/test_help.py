"""`--help` of every command: quick to read, and with an example that the command itself would take."""

import argparse
import re
import shlex
from collections.abc import Iterator

import pytest

from cotenant_api import cli

WITHOUT = {"extender"}
"""Not for people: kube-scheduler's sidecar."""


@pytest.fixture(scope="module")
def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    return cli.parser(cli.entries())


def of(parser: argparse.ArgumentParser, name: str) -> argparse.ArgumentParser:
    (commands,) = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    found: argparse.ArgumentParser = commands.choices[name]
    return found


def examples(text: str) -> Iterator[list[str]]:
    """The words behind each `cotenant` of a help text, without what a shell makes of the rest."""
    for line in text.replace("\\\n", " ").splitlines():
        found = re.search(r"(?:examples?: +|^ {10}|&& )(?:.* -- )?cotenant (.*)", line)
        if found:
            command = re.split(r" [|&>]|\)|  +#", found[1])[0]
            yield shlex.split(command.partition(" -- ")[0])


@pytest.mark.parametrize("name", sorted(cli.entries().keys() - WITHOUT))
def test_every_command_has_examples_that_it_takes(parser: argparse.ArgumentParser, name: str) -> None:
    text = of(parser, name).epilog or ""
    shown = list(examples(text))
    assert any(words[0] == name for words in shown), text
    for words in shown:
        assert parser.parse_args(words).command == words[0]


@pytest.mark.parametrize("name", sorted(cli.entries()))
def test_the_help_of_a_command_names_its_purpose(parser: argparse.ArgumentParser, name: str) -> None:
    summary = of(parser, name).description or ""
    assert summary[:8] in of(parser, name).format_help()


def test_an_option_of_inference_jobs_names_what_this_command_calls_them(parser: argparse.ArgumentParser) -> None:
    assert "with --workload-type Inference" in of(parser, "submit").format_help()
    assert "with --mode Inference" in of(parser, "extract").format_help()
