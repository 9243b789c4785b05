"""`wengert learn slides`: the frames of the recitation on automatic differentiation, for your own slides.

    wengert learn slides FOLDER                                    f = log(x1) + x1 x2 - sin(x2) at (2, 5)
    wengert learn slides FOLDER --function script.py:f --at 1,2    your function

The list grows line by line with its graph; the forward table has all tangents; the reverse table is filled step by
step, each adjoint as the sum over the uses of its value. FOLDER gets an SVG for each frame, and `slides.pdf` with all.
"""

from __future__ import annotations

import argparse
import ast
import math
import runpy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import wengert as wg
from wengert.core.errors import ArgumentError
from wengert.learn.derivatives.steps import ElementaryStep, steps
from wengert.learn.kit.frames import BLUE, GREY, INK, ORANGE, PAPER, Box, Frame, Line, Shape, Text, pdf, svg

SLOPES: dict[str, tuple[str, Callable[[float], float]]] = {
    "log": ("(1 / {0})", lambda x: 1 / x),
    "exp": ("exp({0})", math.exp),
    "sin": ("cos({0})", math.cos),
    "cos": ("(-sin({0}))", lambda x: -math.sin(x)),
    "tanh": ("(1 - tanh({0})**2)", lambda x: 1 - math.tanh(x) ** 2),
    "sqrt": ("(0.5 / sqrt({0}))", lambda x: 0.5 / math.sqrt(x)),
    "square": ("(2 * {0})", lambda x: 2 * x),
}
"""The derivatives of functions of one number: as text, and as a function."""
ROW, TOP, LEFT = 27, 112, 40


@dataclass(frozen=True)
class Edge:
    """A path of one step in the graph: a value is computed from another, with this derivative."""

    source: str
    target: str
    slope: str
    value: float


def recitation(x1: Any, x2: Any) -> Any:
    """The recitation's example."""
    return wg.log(x1) + x1 * x2 - wg.sin(x2)


def frames(function: Callable[..., Any], point: Sequence[float], formula: str = "f") -> list[Frame]:
    """All frames for a function at a point."""
    lines = steps(function, point)
    if len(lines) > 14:
        raise ArgumentError(f"learn slides: a frame has room for 14 lines, and this function has {len(lines)}")
    edges = [edge for line in lines for edge in edges_of(line, {each.name: each.value for each in lines})]
    inputs = len(point)
    at = ", ".join(f"{line.formula} = {line.value:g}" for line in lines[:inputs])
    first = _list(lines, 0) + _graph(lines, edges, {}, lines) + _note("The list of elementary steps, and its graph.")
    found = [Frame(f"{formula} at {at}", first)]
    for k in range(1, len(lines) + 1):
        shown = lines[:k]
        note = f"{lines[k - 1].name} = {lines[k - 1].formula}: one more line, one more node."
        found.append(
            Frame("The graph grows with each line", _list(lines, k) + _graph(shown, edges, {}, lines) + _note(note))
        )
    found.append(_forward(lines, inputs))
    found += _reverse(lines, edges)
    gradient = ", ".join(f"df/d{line.formula} = {line.adjoint:.4f}" for line in lines[:inputs])
    last = _table(lines, {line.name for line in lines}, "") + _graph(
        lines, edges, {line.name: line.adjoint for line in lines}, lines
    )
    return [*found, Frame("One walk back gives all derivatives", last + _note(gradient))]


def edges_of(line: ElementaryStep, values: dict[str, float]) -> list[Edge]:
    """The values that a line reads, and its derivative with respect to each; none for an input."""
    tree = ast.parse(line.formula, mode="eval").body
    if isinstance(tree, ast.Name):
        return []
    parts = _operands(tree)
    texts = [ast.unparse(part) for part in parts]
    numbers = [float(eval(compile(ast.Expression(part), "formula", "eval"), {}, dict(values))) for part in parts]
    found = []
    for k, (slope, value) in enumerate(_slopes(tree, texts, numbers)):
        if isinstance(parts[k], ast.Name):
            found.append(Edge(texts[k], line.name, slope, value))
    return found


def _operands(tree: ast.expr) -> list[ast.expr]:
    if isinstance(tree, ast.BinOp):
        return [tree.left, tree.right]
    if isinstance(tree, ast.UnaryOp):
        return [tree.operand]
    if isinstance(tree, ast.Call):
        return list(tree.args)
    raise ArgumentError(f"learn slides: {ast.unparse(tree)} is not one operation")


def _slopes(tree: ast.expr, texts: list[str], numbers: list[float]) -> list[tuple[str, float]]:
    """The derivatives of one operation with respect to its operands: as text and as numbers."""
    if isinstance(tree, ast.UnaryOp):
        return [("(-1)", -1.0)]
    if isinstance(tree, ast.Call):
        name = ast.unparse(tree.func)
        if name not in SLOPES:
            raise ArgumentError(f"learn slides: {name} is not among the functions drawn: {', '.join(SLOPES)}")
        text, derivative = SLOPES[name]
        return [(text.format(texts[0]), derivative(numbers[0]))]
    assert isinstance(tree, ast.BinOp)
    (a, b), (x, y) = texts, numbers
    if isinstance(tree.op, ast.Add):
        return [("1", 1.0), ("1", 1.0)]
    if isinstance(tree.op, ast.Sub):
        return [("1", 1.0), ("(-1)", -1.0)]
    if isinstance(tree.op, ast.Mult):
        return [(b, y), (a, x)]
    if isinstance(tree.op, ast.Div):
        return [(f"(1 / {b})", 1 / y), (f"(-{a} / {b}**2)", -x / y**2)]
    return [
        (f"({b} * {a}**({b} - 1))", y * x ** (y - 1)),
        (f"({a}**{b} * log({a}))", x**y * math.log(x) if x > 0 else math.nan),
    ]


# --- the parts of a frame -------------------------------------------------------------------------------------------


def _note(text: str) -> list[Shape]:
    return [Text(LEFT, 515, text, 15, ORANGE)]


def _list(lines: Sequence[ElementaryStep], current: int) -> list[Shape]:
    """The lines of the list so far, with their values; the current one on a band."""
    found: list[Shape] = []
    for k, line in enumerate(lines):
        y = TOP + 20 + k * ROW
        if k == current - 1:
            found.append(Box(LEFT - 8, y - 19, 380, ROW, "#fff1e6", "#ffd8bf"))
        if k < current or current == 0:
            figure = f"{line.value:>10.4f}" if k < current else ""
            found.append(Text(LEFT, y, f"{line.name} = {line.formula:<14}{figure}", 16, INK))
    return found


def _places(lines: Sequence[ElementaryStep], edges: Sequence[Edge]) -> dict[str, tuple[float, float]]:
    """Where the nodes are: a column for each distance from the inputs."""
    depth = {line.name: 0 for line in lines}
    for line in lines:
        before = [depth[edge.source] for edge in edges if edge.target == line.name]
        depth[line.name] = max(before) + 1 if before else 0
    columns = [[name for name in depth if depth[name] == k] for k in range(max(depth.values()) + 1)]
    wide = 470 / max(len(columns), 2)
    places = {}
    for k, names in enumerate(columns):
        high = 360 / (len(names) + 1)
        for row, name in enumerate(names):
            places[name] = (450 + k * wide, 110 + (row + 1) * high)
    return places


def _graph(
    shown: Sequence[ElementaryStep],
    edges: Sequence[Edge],
    adjoints: dict[str, float],
    lines: Sequence[ElementaryStep],
    lit: Sequence[Edge] = (),
) -> list[Shape]:
    """The nodes shown so far, with values and adjoints, and the edges between them; the lit ones go back."""
    places, names = _places(lines, edges), {line.name for line in shown}
    found: list[Shape] = []
    width = min(84.0, 470 / max(len({x for x, _ in places.values()}), 2) - 14)
    for edge in edges:
        if edge.source in names and edge.target in names:
            (x1, y1), (x2, y2) = places[edge.source], places[edge.target]
            ends = (x1 + width, y1 + 22, x2, y2 + 22)
            if edge in lit:
                found.append(Line(ends[2], ends[3], ends[0], ends[1], ORANGE, 2.5, True))
            else:
                found.append(Line(*ends, GREY, 1.3, not adjoints))
    for line in shown:
        x, y = places[line.name]
        has_adjoint = line.name in adjoints
        found.append(Box(x, y, width, 44, "#e8f0ff" if has_adjoint else PAPER, BLUE if has_adjoint else GREY))
        found.append(Text(x + 5, y + 17, f"{line.name} {line.value:.3g}", 12, INK))
        if has_adjoint:
            found.append(Text(x + 5, y + 36, f"~{line.name} {adjoints[line.name]:.3g}", 12, BLUE))
    return found


def _forward(lines: Sequence[ElementaryStep], inputs: int) -> Frame:
    """The forward table: each value with its tangents, carried along."""
    names = [line.formula for line in lines[:inputs]]
    head = f"{'':<22}{'value':>10}" + "".join(f"{f'd/d{name}':>12}" for name in names)
    found: list[Shape] = [Text(LEFT, TOP - 6, head, 16, GREY)]
    for k, line in enumerate(lines):
        figures = "".join(f"{tangent:>12.4f}" for tangent in line.tangents)
        text = f"{f'{line.name} = {line.formula}':<22}{line.value:>10.4f}{figures}"
        found.append(Text(LEFT, TOP + 20 + k * ROW, text, 16, INK))
    note = f"Forward mode: one column for each input, {len(names)} walks for {len(names)} inputs."
    return Frame("The forward table", found + _note(note))


def _table(lines: Sequence[ElementaryStep], done: set[str], current: str) -> list[Shape]:
    """The reverse table, filled for some of the values."""
    found: list[Shape] = [Text(LEFT, TOP - 6, f"{'':<20}{'value':>8}{'adjoint':>10}", 15, GREY)]
    for k, line in enumerate(lines):
        y = TOP + 20 + k * ROW
        if line.name == current:
            found.append(Box(LEFT - 8, y - 19, 380, ROW, "#fff1e6", "#ffd8bf"))
        figure = f"{line.adjoint:>10.4f}" if line.name in done else ""
        found.append(Text(LEFT, y, f"{f'{line.name} = {line.formula}':<20}{line.value:>8.3f}{figure}", 15, INK))
    return found


def _reverse(lines: Sequence[ElementaryStep], edges: Sequence[Edge]) -> list[Frame]:
    """A frame for each adjoint, from the last value to the first: the sum over the uses of the value."""
    adjoints: dict[str, float] = {}
    found = []
    for line in reversed(lines):
        uses = [edge for edge in edges if edge.source == line.name]
        if uses:
            adjoints[line.name] = sum(adjoints[use.target] * use.value for use in uses)
            symbols = " + ".join(f"~{use.target} * {use.slope}" for use in uses)
            figures = " + ".join(f"{adjoints[use.target]:.4g} * {use.value:.4g}" for use in uses)
            sums = [symbols, *([figures] if len(uses) > 1 else []), f"{adjoints[line.name]:.4f}"]
            note = " = ".join([f"~{line.name}", *sums])
            title = "Two paths add" if len(uses) > 1 else f"The adjoint of {line.name}"
        else:
            adjoints[line.name] = 1.0
            note, title = (
                f"~{line.name} = 1: the derivative of the result with respect to itself.",
                "The walk back begins",
            )
        shapes = _table(lines, set(adjoints), line.name) + _graph(lines, edges, dict(adjoints), lines, uses)
        found.append(Frame(title, shapes + _note(note)))
    return found


# --- the command ----------------------------------------------------------------------------------------------------


def write(folder: Path, found: Sequence[Frame]) -> None:
    """Write a picture for each frame, and all of them as one document."""
    folder.mkdir(parents=True, exist_ok=True)
    for k, frame in enumerate(found, 1):
        (folder / f"frame-{k:02}.svg").write_text(svg(frame), encoding="utf-8")
    (folder / "slides.pdf").write_bytes(pdf(found))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("folder", type=Path, help="where to write frame-01.svg, ... and slides.pdf")
    parser.add_argument(
        "--function", metavar="script.py:f", help="a function of numbers; the recitation's, if not given"
    )
    parser.add_argument("--at", metavar="2,5", help="the point; 2,5 for the recitation's function")


def _asked(options: argparse.Namespace) -> tuple[Callable[..., Any], str]:
    """The function that `script.py:f` names, and its name."""
    path, _, name = options.function.rpartition(":")
    if not path or not options.at:
        raise ArgumentError("learn slides: --function takes script.py:f, with --at for the point")
    function = runpy.run_path(path).get(name)
    if not callable(function):
        raise ArgumentError(f"learn slides: {path} has no function {name}")
    return function, name


def run(options: argparse.Namespace) -> int:
    """The command."""
    function, formula = _asked(options) if options.function else (recitation, "f = log(x1) + x1 x2 - sin(x2)")
    try:
        point = [float(number) for number in (options.at or "2,5").split(",")]
    except ValueError:
        raise ArgumentError(f"learn slides: --at takes numbers with commas, as 2,5, not {options.at!r}") from None
    found = frames(function, point, formula)
    write(options.folder, found)
    print(f"wrote {options.folder}: {len(found)} frames as SVG, and slides.pdf")
    return 0
