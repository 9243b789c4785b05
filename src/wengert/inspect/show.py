"""`show`: a page inside a notebook's output."""

from __future__ import annotations

import html
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wengert.core.errors import ArgumentError
from wengert.inspect.page import data_of, document

if TYPE_CHECKING:
    from wengert.inspect.profile import Profile

_SMALL, _LARGE = 520, 640  # pixels
_FEW = 24  # nodes of a small page


class InlinePage:
    """A page that a notebook shows in its output; `save` writes it as a file."""

    def __init__(self, data: dict[str, Any], height: int) -> None:
        self.title: str = data["title"]
        self.height = height
        self.text = document(data)

    def _repr_html_(self) -> str:
        page = html.escape(self.text, quote=True)
        style = "width:100%;border:1px solid #8886;border-radius:6px"
        title = html.escape(self.title, quote=True)
        return f'<iframe srcdoc="{page}" title="{title}" height="{self.height}" style="{style}"></iframe>'

    def __repr__(self) -> str:
        return f"<page of {self.title}, {len(self.text) / 1e6:.1f} MB>"

    def save(self, path: str | Path) -> Path:
        """Write the page as an HTML file and return its path."""
        target = Path(path)
        target.write_text(self.text, encoding="utf-8")
        return target


def show(
    subject: Any, *args: Any, height: int | None = None, profile: Profile | None = None, **kwargs: Any
) -> InlinePage:
    """Show a computation and its gradient in a notebook: what `page` writes, in the output of the cell.

    `height` is in pixels. By default it depends on the size of the graph.

    >>> import wengert as wg
    >>> page = wg.inspect.show(lambda x, y: wg.log(x) + x * y - wg.sin(y), 2.0, 5.0)
    >>> page.title, page.height
    ('lambda', 520)
    """
    if height is not None and height <= 0:
        raise ArgumentError(f"inspect.show: height is a number of pixels, not {height!r}")
    data = data_of(subject, args, kwargs, profile)
    is_small = len(data["forward"]) + len(data["backward"]) <= _FEW and "compiler" not in data
    return InlinePage(data, height or (_SMALL if is_small else _LARGE))
