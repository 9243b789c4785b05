"""The user's line behind a node, as the pages show it."""

from __future__ import annotations

import os

from wengert.core.code import Backward, Location, line_number, source_line


def line_of(location: Location) -> dict[str, str]:
    """The file, number and text of the user's line; empty if no line is known."""
    text = source_line(location)
    while isinstance(location, Backward):
        location = location.forward
    if location is None:
        return {}
    return {"line": f"{os.path.basename(location[0].co_filename)}:{line_number(location)}", "source": text}
