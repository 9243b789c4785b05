"""The `wengert` command."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import wengert


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these arguments (the process's own, if none are given)."""
    parser = argparse.ArgumentParser(prog="wengert", description="Automatic differentiation for Python.")
    parser.add_argument("--version", action="version", version=f"wengert {wengert.__version__}")
    parser.parse_args(arguments)
    parser.print_help()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
