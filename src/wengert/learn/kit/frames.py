"""Frames of slides as data, and two writers of them: SVG, a file a frame, and PDF, a page a frame.

A Frame is a list of shapes in points, from the top left of a page of 960 by 540. A name behind a tilde, as in `~v3`, is
written with a bar above it: an adjoint. The PDF is written here, with the fonts that every reader has.
"""

from __future__ import annotations

import html
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

WIDTH, HEIGHT = 960, 540
INK, GREY, BLUE, ORANGE, PAPER = "#1f2430", "#7b8294", "#2563eb", "#d9480f", "#f3f5fa"
ADVANCE = 0.6  # of a letter of Courier, in ems


@dataclass(frozen=True)
class Text:
    """Words whose baseline begins at a point."""

    x: float
    y: float
    text: str
    size: float = 16
    colour: str = INK
    is_bold: bool = False
    is_prose: bool = False  # Helvetica; otherwise Courier, whose letters are all as wide

    def bars(self) -> list[tuple[float, float]]:
        """Where bars above names begin and end."""
        found = []
        for tildes, match in enumerate(re.finditer(r"~(\w+)", self.text)):
            begin = match.start() - tildes
            step = ADVANCE * self.size
            found.append((self.x + begin * step, self.x + (begin + len(match[1])) * step))
        return found

    @property
    def shown(self) -> str:
        """The words without tildes."""
        return self.text.replace("~", "")


@dataclass(frozen=True)
class Line:
    """A line from a point to another, with an arrow's head if asked for."""

    x1: float
    y1: float
    x2: float
    y2: float
    colour: str = GREY
    width: float = 1.5
    has_head: bool = False

    def head(self) -> list[tuple[float, float]]:
        """The three corners of the arrow's head."""
        dx, dy = self.x2 - self.x1, self.y2 - self.y1
        length = max((dx * dx + dy * dy) ** 0.5, 1e-9)
        ux, uy = dx / length, dy / length
        back = (self.x2 - 9 * ux, self.y2 - 9 * uy)
        return [(self.x2, self.y2), (back[0] - 4 * uy, back[1] + 4 * ux), (back[0] + 4 * uy, back[1] - 4 * ux)]


@dataclass(frozen=True)
class Box:
    """A filled rectangle with a border."""

    x: float
    y: float
    width: float
    height: float
    fill: str = PAPER
    stroke: str = GREY


Shape = Text | Line | Box


@dataclass
class Frame:
    """One slide."""

    title: str
    shapes: list[Shape] = field(default_factory=list)

    def all_shapes(self) -> list[Shape]:
        """The shapes with the title on top."""
        return [Text(40, 52, self.title, 24, INK, True, True), *self.shapes]


def svg(frame: Frame) -> str:
    """A frame as a picture."""
    parts = [f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>']
    for shape in frame.all_shapes():
        parts.append(_svg_of(shape))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'role="img"><title>{html.escape(frame.title)}</title>{"".join(parts)}</svg>\n'
    )


def _svg_of(shape: Shape) -> str:
    if isinstance(shape, Box):
        return (
            f'<rect x="{shape.x:g}" y="{shape.y:g}" width="{shape.width:g}" height="{shape.height:g}" rx="4" '
            f'fill="{shape.fill}" stroke="{shape.stroke}"/>'
        )
    if isinstance(shape, Line):
        text = (
            f'<line x1="{shape.x1:.1f}" y1="{shape.y1:.1f}" x2="{shape.x2:.1f}" y2="{shape.y2:.1f}" '
            f'stroke="{shape.colour}" stroke-width="{shape.width:g}"/>'
        )
        corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in shape.head())
        return text + (f'<polygon points="{corners}" fill="{shape.colour}"/>' if shape.has_head else "")
    family = "Helvetica, Arial, sans-serif" if shape.is_prose else "Courier New, Courier, monospace"
    weight = ' font-weight="bold"' if shape.is_bold else ""
    width = "" if shape.is_prose else f' textLength="{len(shape.shown) * ADVANCE * shape.size:.1f}"'
    text = (
        f'<text x="{shape.x:g}" y="{shape.y:g}" font-family="{family}" font-size="{shape.size:g}" xml:space="preserve"'
        f'{weight}{width} fill="{shape.colour}">{html.escape(shape.shown)}</text>'
    )
    y = shape.y - 0.78 * shape.size
    return text + "".join(_svg_of(Line(a + 1, y, b - 1, y, shape.colour, 1.2)) for a, b in shape.bars())


def pdf(frames: Sequence[Frame]) -> bytes:
    """All frames as a document, a page each."""
    fonts = ("Courier", "Courier-Bold", "Helvetica", "Helvetica-Bold")
    objects: list[bytes] = [b"<< /Type /Catalog /Pages 2 0 R >>", b""]
    objects += [
        f"<< /Type /Font /Subtype /Type1 /BaseFont /{name} /Encoding /WinAnsiEncoding >>".encode() for name in fonts
    ]
    named = " ".join(f"/F{k} {k + 3} 0 R" for k in range(len(fonts)))
    pages = []
    for frame in frames:
        content = zlib.compress("\n".join(_pdf_of(shape) for shape in frame.all_shapes()).encode("cp1252", "replace"))
        objects.append(b"<< /Length %d /Filter /FlateDecode >>\nstream\n" % len(content) + content + b"\nendstream")
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {WIDTH} {HEIGHT}] /Resources << /Font << {named} >> >> "
            f"/Contents {len(objects)} 0 R >>".encode()
        )
        pages.append(len(objects))
    kids = " ".join(f"{page} 0 R" for page in pages)
    objects[1] = f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode()
    return _document(objects)


def _document(objects: Sequence[bytes]) -> bytes:
    """The file: objects one after the other, and the table of where they begin."""
    out = b"%PDF-1.4\n"
    places = []
    for k, text in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n" % k + text + b"\nendobj\n"
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    count = len(objects) + 1
    trailer = b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (count, len(out))
    return out + b"xref\n0 %d\n0000000000 65535 f \n" % count + table + trailer


def _pdf_of(shape: Shape) -> str:
    """The drawing commands of a shape; PDF counts y from the bottom."""
    if isinstance(shape, Box):
        y = HEIGHT - shape.y - shape.height
        area = f"{shape.x:.1f} {y:.1f} {shape.width:.1f} {shape.height:.1f} re B"
        return f"{_rgb(shape.fill)} rg {_rgb(shape.stroke)} RG 1 w {area}"
    if isinstance(shape, Line):
        ends = f"{shape.x1:.1f} {HEIGHT - shape.y1:.1f} m {shape.x2:.1f} {HEIGHT - shape.y2:.1f} l S"
        text = f"{_rgb(shape.colour)} RG {shape.width:g} w {ends}"
        if shape.has_head:
            corners = [f"{x:.1f} {HEIGHT - y:.1f}" for x, y in shape.head()]
            text += f" {_rgb(shape.colour)} rg {corners[0]} m {corners[1]} l {corners[2]} l f"
        return text
    font = 2 * shape.is_prose + shape.is_bold
    letters = shape.shown.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")
    place = f"{shape.x:.1f} {HEIGHT - shape.y:.1f} Td"
    text = f"BT /F{font} {shape.size:g} Tf {_rgb(shape.colour)} rg {place} ({letters}) Tj ET"
    y = shape.y - 0.78 * shape.size
    return "\n".join([text, *(_pdf_of(Line(a + 1, y, b - 1, y, shape.colour, 1.2)) for a, b in shape.bars())])


def _rgb(colour: str) -> str:
    return " ".join(f"{int(colour[k : k + 2], 16) / 255:.3f}" for k in (1, 3, 5))
