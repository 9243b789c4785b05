"""The `wengert` command."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import wengert


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these arguments (the process's own, if none are given)."""
    parser = argparse.ArgumentParser(prog="wengert", description="Automatic differentiation for Python.")
    parser.add_argument("--version", action="version", version=f"wengert {wengert.__version__}")
    commands = parser.add_subparsers(title="commands")
    _add_learn(commands)
    options = parser.parse_args(arguments)
    if "run" not in options:
        parser.print_help()
        return 0
    return int(options.run(options) or 0)


def _add_learn(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    learn = commands.add_parser("learn", help="a guided tour of the ways to a derivative")
    learn.add_argument("--seconds", type=float, default=2.0, help="the longest measurement (default: %(default)s)")
    learn.add_argument("--page", metavar="FILE", help="write it as an HTML page too")
    learn.set_defaults(run=_learn)


def _learn(options: argparse.Namespace) -> None:
    from wengert.learn.derivatives.tour import tour

    tour(options.seconds, options.page)


if __name__ == "__main__":
    raise SystemExit(main())
