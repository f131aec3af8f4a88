"""The command line as Markdown: a section for each subcommand, from the parsers that read its arguments. Pure."""

import argparse
from collections.abc import Iterator

_SKIPPED = (argparse._HelpAction, argparse._SubParsersAction)


def pages(parser: argparse.ArgumentParser, *, level: int = 2) -> Iterator[str]:
    """Lines for every subcommand of a parser, those of subcommands included."""
    for name, command, summary in _commands(parser):
        yield from (f"{'#' * level} `{command.prog}`", "", _sentence(command.description or summary or name), "")
        yield from _usage(command)
        yield from _table("argument", [each for each in _own(command) if not each.option_strings], command)
        yield from _table("option", [each for each in _own(command) if each.option_strings], command)
        if command.epilog:
            yield from ("```text", *command.epilog.strip("\n").split("\n"), "```", "")
        yield from pages(command, level=min(level + 1, 6))


def _commands(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser, str | None]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help for choice in action._choices_actions}
            for name, command in action.choices.items():
                yield name, command, helps.get(name)


def _own(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Arguments of the command itself, but for --help and those that are not shown."""
    return [each for each in parser._actions if not isinstance(each, _SKIPPED) and each.help != argparse.SUPPRESS]


def _usage(parser: argparse.ArgumentParser) -> Iterator[str]:
    words = [parser.prog]
    if any(each.option_strings and not each.required for each in _own(parser)):
        words.append("[OPTION]...")
    required = [each for each in _own(parser) if each.option_strings and each.required]
    words += [f"{each.option_strings[-1]} {_value(each)}".rstrip() for each in required]
    words += [_positional(each) for each in _own(parser) if not each.option_strings]
    if any(isinstance(each, argparse._SubParsersAction) for each in parser._actions):
        words.append("COMMAND")
    yield from ("```text", " ".join(words), "```", "")


def _positional(action: argparse.Action) -> str:
    name = _value(action)
    many = {"?": f"[{name}]", "*": f"[{name}]...", "+": f"{name}..."}
    return many.get(str(action.nargs), name)


def _table(title: str, actions: list[argparse.Action], parser: argparse.ArgumentParser) -> Iterator[str]:
    if not actions:
        return
    yield from (f"| {title} | default | |", "|---|---|---|")
    for action in actions:
        names = [f"`{_cell(each)}`" for each in (_flags(action) or [_positional(action)])]
        yield f"| {', '.join(names)} | {_default(action)} | {_cell(_help(action, parser))} |"
    yield ""


def _flags(action: argparse.Action) -> list[str]:
    """As they are typed; the value stands after the last."""
    flags = list(action.option_strings)
    value = _value(action)
    return [*flags[:-1], f"{flags[-1]} {value}".rstrip()] if flags else []


def _value(action: argparse.Action) -> str:
    """Return what stands for the value in the usage; empty: it takes none."""
    if action.nargs == 0:
        return ""
    if isinstance(action.metavar, tuple):
        return " ".join(action.metavar)
    if action.metavar is not None:
        return action.metavar
    if action.choices is not None:
        return "|".join(map(str, action.choices))
    return action.dest.upper() if action.option_strings else action.dest


def _default(action: argparse.Action) -> str:
    value = action.default
    if value in (None, argparse.SUPPRESS, False, [], ()):
        return ""
    if value is True:
        return "" if action.nargs == 0 and not action.option_strings[-1].startswith("--no-") else "on"
    return f"`{_cell(' '.join(map(str, value)) if isinstance(value, (list, tuple)) else str(value))}`"


def _help(action: argparse.Action, parser: argparse.ArgumentParser) -> str:
    text = parser._get_formatter()._expand_help(action) if action.help else ""
    if action.choices is not None and action.metavar is not None:
        text = f"{text} ({', '.join(map(str, action.choices))})".strip()
    return text


def _sentence(text: str) -> str:
    """Return a summary as a sentence."""
    first = " ".join(text.split())
    return f"{first[:1].upper()}{first[1:]}{'' if first.endswith(('.', ':')) else '.'}"


def _cell(text: str) -> str:
    """For a cell of a table: no line break, no bar, nothing that looks like a tag."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
