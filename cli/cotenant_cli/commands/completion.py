"""`cotenant completion`: a script by which a shell completes commands and options; kubectl asks `completing`."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from cotenant_api import terminal

SUMMARY = "print a script by which a shell completes this command line"
SHELLS: Final = ("bash", "zsh", "fish")
EXAMPLES = """\
examples: source <(cotenant completion bash)                                    # in ~/.bashrc
          cotenant completion zsh > "${fpath[1]}/_cotenant"
          cotenant completion fish > ~/.config/fish/completions/cotenant.fish

`kubectl cotenant` is completed by kubectl itself, which asks the program kubectl_complete-cotenant.
"""
_FOLDERS: Final = ("DIR", "FOLDER")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the argument."""
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))


def run(arguments: argparse.Namespace) -> int:
    """Print it."""
    from cotenant_api import cli

    terminal.write(script(cli.parser(cli.entries()), arguments.shell))
    return 0


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """Return the script of a command line."""
    import shtab

    _name_files(parser, {True: shtab.DIRECTORY, False: shtab.FILE})
    return str(shtab.complete(parser, shell)).rstrip("\n") + "\n"


def _name_files(parser: argparse.ArgumentParser, kinds: Mapping[bool, object]) -> None:
    """Have paths completed as such."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for one in action.choices.values():
                _name_files(one, kinds)
        elif action.type is Path:
            # The library looks for the attribute; argparse has none.
            action.complete = kinds[action.metavar in _FOLDERS]  # type: ignore[attr-defined]
