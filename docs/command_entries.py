"""The page on the `wengert` command, made from its own parser: each command with its usage and its options.

Comes in: the parser of `wengert/cli.py`. Goes out: a section a command. `hooks.py` calls this when the site is built.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from wengert.cli import _parser


def commands() -> str:
    """A section for each command."""
    (subparsers,) = (each for each in _parser()._actions if isinstance(each, argparse._SubParsersAction))
    summaries = {each.dest: each.help for each in subparsers._choices_actions}
    return "\n\n".join(_section(name, summaries[name] or "", parser) for name, parser in subparsers.choices.items())


def _section(name: str, summary: str, parser: argparse.ArgumentParser) -> str:
    usage = " ".join(["wengert", name, "[options]", *(_shown(each) for each in _positional(parser))])
    rows = list(_rows(parser))
    table = "\n".join(["| argument | what it does |", "|---|---|", *rows]) if rows else "It has no options."
    first = f"{summary[:1].upper()}{summary[1:]}."
    return f"## wengert {name}\n\n{first}\n\n```console\n$ {usage}\n```\n\n{table}"


def _positional(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [each for each in parser._actions if not each.option_strings]


def _shown(action: argparse.Action) -> str:
    """A positional argument as in a usage line."""
    if isinstance(action, argparse._SubParsersAction):
        return "{" + ",".join(action.choices) + "}"
    name = str(action.metavar or action.dest)
    return f"[{name}]" if action.nargs == "?" else f"{name} ..." if action.nargs else name


def _rows(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction) or "--traceback" in action.option_strings:
            continue
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                yield f"| `{name}` | {'; '.join(_inner(inner))} |"
            continue
        names = ", ".join(f"`{each}`" for each in action.option_strings) or f"`{action.metavar or action.dest}`"
        text = parser._get_formatter()._expand_help(action) if action.help else ""
        yield f"| {names} | {text.replace('|', chr(92) + '|')} |"


def _inner(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if not isinstance(action, argparse._HelpAction):
            name = ", ".join(action.option_strings) or action.metavar or action.dest
            yield f"`{name}`: {action.help or ''}"
