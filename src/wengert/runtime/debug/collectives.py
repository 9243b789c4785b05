"""What a distributed program sends: its collectives, and values that are gathered although they could have been cut.

In: the graph of a rank (`Distributed`). Out: records for pages and timelines, and text for `explain`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from wengert.compiler.collectives import collectives
from wengert.compiler.distribute import Distributed
from wengert.core.code import describe, source_line
from wengert.core.errors import ArgumentError
from wengert.core.graph import Graph, Node, as_python
from wengert.ops import collective as c
from wengert.ops.op import Op
from wengert.runtime.debug.explain import IMPORTS, bytes_text, size_of, text_of

SHOWN = 8
"""How many collectives, and how many gathered values, the text names."""


class CollectiveRecord(NamedTuple):
    """One collective of a step."""

    number: int  # in the order in which all ranks carry them out
    op: str
    axis: str  # of the mesh, or several with commas
    ranks: int
    values: int  # that travel together
    bytes: int  # that a rank puts in
    sent: int  # bytes that a rank sends in a ring, or in a round of pairs
    line: str  # the user's


def records(spread: Distributed | None) -> list[CollectiveRecord]:
    """The collectives of a step, in order; none for a program that is not distributed."""
    return [] if spread is None else [_record(*each) for each in enumerate(collectives(spread.graph))]


def _record(number: int, node: Node) -> CollectiveRecord:
    group = node.attrs["group"]
    put = sum(size_of(source) for source in node.sources)
    sent = round(put * _SENT[node.op](group.size))
    return CollectiveRecord(
        number, node.op.name, ", ".join(group.axes), group.size, len(node.sources), put, sent, _line(node)
    )


_SENT: dict[Op, Any] = {
    c.ALL_REDUCE: lambda n: 2 * (n - 1) / n,
    c.ALL_REDUCE_MANY: lambda n: 2 * (n - 1) / n,
    c.ALL_REDUCE_MAX: lambda n: 2 * (n - 1) / n,
    c.ALL_GATHER: lambda n: n - 1,
    c.REDUCE_SCATTER: lambda n: (n - 1) / n,
    c.ALL_TO_ALL: lambda n: (n - 1) / n,
    c.PPERMUTE: lambda n: 1,
}
"""The share of what a rank puts in that it sends."""


def _line(node: Node) -> str:
    line = source_line(node.location)
    return describe(node.location) + (f": {line}" if line else "")


# --- text -----------------------------------------------------------------------------------------------------------


def explained(graph: Graph, program: Any, name: str | None = None) -> str:
    """The text of `explain(name)`, for a distributed program including what it sends."""
    spread: Distributed | None = getattr(program, "distributed", None)
    if name == "collectives":
        if spread is None:
            raise ArgumentError("explain: the function is not distributed over ranks; use wg.compile(mesh=...)")
        return text(spread, SHOWN)
    if spread is None or name not in (None, "partition"):
        return text_of(graph, program, name)
    if name is None:
        return f"{text_of(graph, program)}\n\n{text(spread)}"
    notes = "".join(f"# {line}\n" for line in text(spread, SHOWN).splitlines())
    return notes + IMPORTS + as_python(spread.graph)


def text(spread: Distributed, shown: int = 0) -> str:
    """The number of collectives of each kind in a step, the bytes that a rank sends, the largest ones, and what is
    gathered."""
    found = records(spread)
    mesh = spread.inputs[0].mesh if spread.inputs else None
    if not found:
        return f"{mesh}: no collectives" if mesh is not None else "no collectives"
    total = bytes_text(sum(record.sent for record in found))
    count = "1 collective" if len(found) == 1 else f"{len(found)} collectives"
    lines = [f"{mesh}: {count} a step, in which each rank sends {total}", *_kinds(found)]
    if shown:
        largest = sorted(found, key=lambda record: -record.sent)[:shown]
        lines.append("the largest:" if len(found) > shown else "each:")
        lines += [
            f"  {record.number:>4}  {record.op:<16} {record.axis:<10} {bytes_text(record.sent):>10}  {record.line}"
            for record in sorted(largest)
        ]
    return "\n".join([*lines, *_gathered(spread, shown)])


def _kinds(found: Sequence[CollectiveRecord]) -> list[str]:
    lines = [f"  {'collective':<16} {'along':<10} {'count':>6} {'values':>7} {'sent':>11}"]
    for op, axis in dict.fromkeys((record.op, record.axis) for record in found):
        alike = [record for record in found if (record.op, record.axis) == (op, axis)]
        values, sent = sum(record.values for record in alike), sum(record.sent for record in alike)
        lines.append(f"  {op:<16} {axis:<10} {len(alike):>6} {values:>7} {bytes_text(sent):>11}")
    return lines


def _gathered(spread: Distributed, shown: int) -> list[str]:
    """The nodes computed from gathered values, and why."""
    if not spread.gathered:
        return ["no split value is gathered for computation"]
    total = bytes_text(sum(one.moved for one in spread.gathered))
    count = "1 value is" if len(spread.gathered) == 1 else f"{len(spread.gathered)} values are"
    lines = [f"{count} computed from gathered ones, for which a rank sends {total}"]
    for one in sorted(spread.gathered, key=lambda one: -one.moved)[: shown or 3]:
        lines.append(f"  {one.node.op.name}: {bytes_text(one.moved)}, since {one.why}; {_line(one.node)}")
    return lines
