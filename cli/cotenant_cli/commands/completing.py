"""What may follow on the command line: `kubectl_complete-cotenant`, which kubectl runs for `kubectl cotenant <TAB>`.

kubectl gives the words so far, the last one unfinished, and takes candidates with descriptions, one a line, then `:`
and a directive (github.com/spf13/cobra, completions.go): 0 leaves files to the shell, 4 is for none.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

FILES: Final = 0
NO_FILES: Final = 4


@dataclass(frozen=True, slots=True)
class Candidate:
    """A word, and what it is for."""

    word: str
    about: str = ""


def main() -> int:
    """Print what may follow the words of this process."""
    from cotenant_api import cli

    words = sys.argv[1:] or [""]
    every = cli.entries()
    # Only the command that is named is loaded: somebody waits with a finger on the key.
    named = {name: entry for name, entry in every.items() if len(words) > 1 and name == words[0]}
    found, directive = candidates(cli.parser(named or every), words)
    for one in found:
        print(f"{one.word}\t{one.about}".rstrip())
    print(f":{directive}")
    return 0


def candidates(parser: argparse.ArgumentParser, words: Sequence[str]) -> tuple[tuple[Candidate, ...], int]:
    """Return what may stand in the place of the last word, and kubectl's directive.

    Args:
        parser: of the whole command line.
        words: so far; the last is unfinished, and may be empty.
    """
    *before, last = words
    waiting: argparse.Action | None = None
    for word in before:
        if waiting is not None and not word.startswith("-"):
            waiting = None
            continue
        below = _below(parser, word)
        parser, waiting = (parser, _option(parser, word)) if below is None else (below, None)
    if waiting is not None and not last.startswith("-"):
        return _matching(_values(waiting), last), NO_FILES if waiting.choices else FILES
    if last.startswith("-"):
        return _matching(_options(parser), last), NO_FILES
    places = [action for action in parser._actions if not action.option_strings]
    found = _matching((one for action in places for one in _values(action)), last)
    return found, NO_FILES if found or not places else FILES


def _below(parser: argparse.ArgumentParser, word: str) -> argparse.ArgumentParser | None:
    """Return the parser of a subcommand; None: the word is none."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction) and word in action.choices:
            below: argparse.ArgumentParser = action.choices[word]
            return below
    return None


def _option(parser: argparse.ArgumentParser, word: str) -> argparse.Action | None:
    """Return the option that a word is, where a value follows it."""
    found = (action for action in parser._actions if word in action.option_strings)
    return next((action for action in found if action.nargs != 0), None)


def _values(action: argparse.Action) -> Iterator[Candidate]:
    if isinstance(action, argparse._SubParsersAction):
        about = {one.dest: one.help or "" for one in action._choices_actions}
        yield from (Candidate(str(name), about.get(name, "")) for name in action.choices)
    elif action.choices is not None:
        yield from (Candidate(str(value)) for value in action.choices)


def _options(parser: argparse.ArgumentParser) -> Iterator[Candidate]:
    """Yield the longest spelling of each."""
    for action in parser._actions:
        if action.option_strings and action.help is not argparse.SUPPRESS:
            word = max(action.option_strings, key=len)
            yield Candidate(word, (action.help or "") % {"default": action.default, "prog": parser.prog})


def _matching(found: Iterator[Candidate], beginning: str) -> tuple[Candidate, ...]:
    return tuple(one for one in found if one.word.startswith(beginning))
