"""How a Tensor is displayed: as text in the terminal, as a table in a notebook. Long values are summarised."""

from __future__ import annotations

import html as markup
from collections.abc import Container, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wengert.core.errors import AbstractValueError, DistributedError, WengertError
from wengert.core.graph import Graph, ancestors, as_python, describe_type

if TYPE_CHECKING:
    from wengert.tensor import Tensor

_EDGE = 3  # elements shown at each end of a long axis
_LONG_GRAPH = 60  # nodes: a longer history is not shown
_LONG = 1000  # elements: more are summarised


def text(tensor: Tensor) -> str:
    """`Tensor([1., 2.], shape=(2,), dtype=float32, device=cpu, requires_grad=True)`; reads the value."""
    facts = f"shape={tensor.shape}, dtype={tensor.dtype.name}, device={tensor.device}"
    tracked = ", requires_grad=True" if tensor.requires_grad else ""
    try:
        values = _values(tensor.detach().numpy(), prefix="Tensor(")
    except AbstractValueError:
        values = "abstract"
    except DistributedError:  # the world is over, and not for this value alone
        raise
    except WengertError as error:
        values = f"failed: {error.message}"
    return f"Tensor({values}, {facts}{tracked})"


def _values(array: np.ndarray[Any, Any], prefix: str) -> str:
    if array.dtype.kind == "V":  # bfloat16: NumPy prints it number by number
        array = array.astype(np.float32)
    return np.array2string(
        array, separator=", ", prefix=prefix, threshold=_LONG, edgeitems=_EDGE, precision=5, suppress_small=False
    )


def html(tensor: Tensor) -> str:
    """The value as an HTML table of a few rows and columns, with its type and origin below."""
    recorded = _recorded(tensor)  # before looking at the value, after which an untracked one has no history
    return _table(tensor) + recorded


def table_html(head: Sequence[str], rows: Iterable[Sequence[str]], words: Container[int] = (0,)) -> str:
    """Rows of text as an HTML table for a notebook; columns of `words` are aligned left, those of numbers right.

    >>> table_html(["op", "ms"], [["matmul", "1.5"]])[:49]
    '<table><tr><th style="text-align:left">op</th><th'
    """

    def row(tag: str, cells: Sequence[str]) -> str:
        sides = ["left" if i in words else "right" for i in range(len(cells))]
        shown = [f'<{tag} style="text-align:{side}">{markup.escape(cell)}</{tag}>' for side, cell in zip(sides, cells)]
        return f"<tr>{''.join(shown)}</tr>"

    return f"<table>{row('th', head)}{''.join(row('td', cells) for cells in rows)}</table>"


def folded_html(title: str, content: str, is_open: bool = False) -> str:
    """HTML to be folded out under a title."""
    return f"<details{' open' * is_open}><summary>{markup.escape(title)}</summary>{content}</details>"


def _recorded(tensor: Tensor) -> str:
    """The graph of a Tensor, as Python in a collapsible block; empty if there is none, or it is very long."""
    node = tensor.node
    nodes = ancestors([node])
    if not node.sources or node.op.name == "variable" or len(nodes) > _LONG_GRAPH:
        return ""
    given = [each for each in nodes if each.op.name == "variable" or not (each.sources or each.op.name == "literal")]
    graph = Graph(given, [node])
    ops = f"{len(graph.nodes)} op{'s' * (len(graph.nodes) != 1)}"
    return folded_html(f"recorded: {ops}", f"<pre>{markup.escape(as_python(graph))}</pre>")


def _table(tensor: Tensor) -> str:
    caption = f"Tensor {describe_type(tensor.node)} on {tensor.device}" + (", tracked" if tensor.requires_grad else "")
    try:
        array = tensor.detach().numpy()
    except WengertError as error:
        return f"<pre>{markup.escape(error.message)}</pre><small>{markup.escape(caption)}</small>"
    if array.ndim > 2 or array.size == 0:
        return f"<pre>{markup.escape(_values(array, ''))}</pre><small>{markup.escape(caption)}</small>"
    rows = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in _summary(np.atleast_2d(array)))
    return f"<table>{rows}</table><small>{markup.escape(caption)}</small>"


def _cell(value: Any) -> str:
    shown = (
        value if isinstance(value, str) else f"{value:.5g}" if np.issubdtype(type(value), np.inexact) else str(value)
    )
    return f"<td style='text-align:right'>{markup.escape(str(shown))}</td>"


def _summary(array: np.ndarray[Any, Any]) -> list[list[Any]]:
    """Rows and columns, with an ellipsis for what does not fit."""
    rows = _ends(list(range(array.shape[0])), 5)
    columns = _ends(list(range(array.shape[1])), 5)
    return [
        ["⋮" if i is None else "…" if j is None else array[i, j] for j in columns]
        if i is not None
        else ["⋮"] * len(columns)
        for i in rows
    ]


def _ends(indices: list[int], edge: int) -> list[int | None]:
    return list(indices) if len(indices) <= 2 * edge else [*indices[:edge], None, *indices[-edge:]]
