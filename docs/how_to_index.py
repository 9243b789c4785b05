"""Writes the list of questions on `docs/how-to/index.md` from the headings of the pages beside it.

python docs/how_to_index.py [--check]
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

FOLDER = Path(__file__).parent / "how-to"
PAGES = ("models", "training", "saving", "data", "gradients", "tensors", "devices", "speed", "debugging", "science")
HEAD = """---
search:
  boost: 0.2
---

# How to ...

Questions in the words in which they are asked, each with an example that runs.
"""


def index() -> str:
    """The text of the page."""
    return "\n".join([HEAD, *map(_section, PAGES)]).rstrip() + "\n"


def _section(name: str) -> str:
    text = (FOLDER / f"{name}.md").read_text()
    title = re.search(r"^# How to (.*)$", text, re.M)
    assert title is not None, f"{name}.md: no title that begins with 'How to'"
    links = [f"- [{heading}]({name}.md#{_anchor(heading)})" for heading in re.findall(r"^## (.*)$", text, re.M)]
    return "\n".join([f"## {title[1][0].upper()}{title[1][1:]}", "", *links, ""])


def _anchor(heading: str) -> str:
    """The anchor that Markdown gives a heading."""
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    path, text = FOLDER / "index.md", index()
    same = path.exists() and path.read_text() == text
    if parser.parse_args(arguments).check:
        sys.exit(0 if same else "docs/how-to/index.md: run python docs/how_to_index.py")
    path.write_text(text)


if __name__ == "__main__":
    main()
