"""The bars of a timeline's page, read from its HTML."""

from __future__ import annotations

import html.parser


class Bars(html.parser.HTMLParser):
    """The bars of every lane, by class, with their widths in percent of the time; and what was not closed."""

    def __init__(self) -> None:
        super().__init__()
        self.lanes: list[list[tuple[str, float, str]]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        if tag not in ("meta", "input"):
            self.open.append(tag)
        if (values.get("class") or "").startswith("lane"):
            self.lanes.append([])
        elif tag == "i" and "style" in values:
            width = float(values["style"].split("width:")[1].rstrip("%"))
            self.lanes[-1].append((values["class"], width, values["title"]))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
