"""`python -m wengert`: the `wengert` command, where no script of that name is on the path."""

from wengert.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
