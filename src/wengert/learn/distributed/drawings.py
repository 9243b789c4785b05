"""Drawings of the lesson: bars of bytes, and a computation beside its gradient. In characters, and as HTML."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

from wengert.runtime.debug.explain import bytes_text

_WIDTH = 78  # characters of a line
_MARKS = "#=+.%"
_COLOURS = ("#3b82f6", "#ea580c", "#16a34a", "#9a9aad", "#c026d3")


@dataclass
class Bars:
    """A bar for each label, made of parts, the same ones in each; the numbers are bytes."""

    parts: Sequence[str]
    rows: Sequence[tuple[str, Sequence[int]]]

    @property
    def _most(self) -> int:
        return max((sum(sizes) for _, sizes in self.rows), default=0) or 1

    def to_text(self) -> str:
        """In characters: a mark for each part."""
        wide = max(len(label) for label, _ in self.rows)
        longest = _WIDTH - wide - 15
        lines = ["  " + "   ".join(f"{mark} {part}" for mark, part in zip(_MARKS, self.parts))]
        for label, sizes in self.rows:
            lines.append(f"  {label:<{wide}}  {self._bar(sizes, longest):<{longest}}  {bytes_text(sum(sizes)):>9}")
        return "\n".join(lines)

    def _bar(self, sizes: Sequence[int], longest: int) -> str:
        ends = [round(longest * sum(sizes[: k + 1]) / self._most) for k in range(len(sizes))]
        lengths = [end - start for start, end in zip([0, *ends], ends)]
        return "".join(mark * count for mark, count in zip(_MARKS, lengths))

    def to_html(self) -> str:
        """Boxes side by side, each as wide as its bytes."""
        keys = "".join(
            f'<span style="color:{colour}">&#9632;</span> {html.escape(part)} &emsp;'
            for colour, part in zip(_COLOURS, self.parts)
        )
        return f"<p>{keys}</p>" + "".join(self._row(label, sizes) for label, sizes in self.rows)

    def _row(self, label: str, sizes: Sequence[int]) -> str:
        boxes = "".join(
            f'<i style="display:inline-block;height:1.1em;vertical-align:-2px;background:{colour};'
            f'width:{60 * size / self._most:.3f}%" title="{html.escape(part)}: {bytes_text(size)}"></i>'
            for colour, part, size in zip(_COLOURS, self.parts, sizes)
        )
        head = f'<div style="font-size:14px">{html.escape(label)}</div>'
        return f'{head}<div style="white-space:nowrap;margin-bottom:.4em">{boxes} {bytes_text(sum(sizes))}</div>'


@dataclass
class Ladder:
    """A computation from above to below, and beside each value its gradient, which goes from below to above."""

    rungs: Sequence[tuple[str, str]]  # a value, and its gradient

    def to_text(self) -> str:
        """Two columns, with arrows."""
        left = max(len(value) for value, _ in self.rungs)
        right = max(len(gradient) for _, gradient in self.rungs)
        between = f"  {'|':^{left}}   {'^':^{right}}".rstrip()
        lines = [f"  {value:^{left}}   {gradient:^{right}}".rstrip() for value, gradient in self.rungs]
        arrows = f"  {'v':^{left}}   {'|':^{right}}".rstrip()
        return f"\n{between}\n{arrows}\n".join(lines)

    def to_html(self) -> str:
        """An SVG: boxes with arrows down on the left, and up on the right."""
        wide = 9 * max(len(text) for rung in self.rungs for text in rung) + 24
        height = 56 * len(self.rungs)
        parts = [
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<path d="M0,0L8,4L0,8Z" fill="currentColor"/></marker></defs>'
        ]
        for k, rung in enumerate(self.rungs):
            for column, text in enumerate(rung):
                if text:
                    parts.append(_box(text, column * (wide + 40) + 2, 56 * k + 2, wide))
            if k:
                x, top, below = wide / 2 + 2, 56 * k - 22, 56 * k + 1
                parts.append(_arrow(x, top, below))
                if rung[1] and self.rungs[k - 1][1]:
                    parts.append(_arrow(x + wide + 40, below, top))
        size = f'viewBox="0 0 {2 * wide + 46} {height}" width="{2 * wide + 46}"'
        about = "a computation, and beside each value its gradient"
        font = 'font-family="ui-monospace, monospace" font-size="14" fill="currentColor"'
        return f'<svg {size} role="img" {font}><title>{about}</title>{"".join(parts)}</svg>'


def _box(text: str, x: float, y: float, wide: float) -> str:
    colour = "#dc2626" if "all_reduce" in text or "replicate" in text else "currentColor"
    frame = f'<rect x="{x}" y="{y}" width="{wide}" height="30" rx="5" fill="none" stroke="{colour}"/>'
    words = f'<text x="{x + wide / 2}" y="{y + 20}" text-anchor="middle">{html.escape(text)}</text>'
    return frame + words


def _arrow(x: float, start: float, stop: float) -> str:
    ends = f'x1="{x}" y1="{start}" x2="{x}" y2="{stop}"'
    return f'<line {ends} stroke="currentColor" marker-end="url(#tip)"/>'
