"""`python -m wengert.bench report.json`: the page of a stored report, drawn again beside it. Nothing is measured."""

from __future__ import annotations

import sys
from pathlib import Path

from wengert.bench.commands import redraw
from wengert.core.errors import ArgumentError


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        print(redraw(Path(sys.argv[1])))
    except ArgumentError as error:
        print(f"wengert: {error.message}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
