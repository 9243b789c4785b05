"""Simplify: constants folded, algebra, movement of movement; what only marks a value for differentiation goes.

In: a graph. Out: a graph with the same values, op by op no dearer. The rules are in `constants` (what is known while
compiling), `algebra` (elementwise) and `moves` (movement, reductions, picks); each says what it keeps of the bits.
A simplified graph is for running: its markers are gone, so it is not to be differentiated.
"""

from __future__ import annotations

from wengert.compiler.algebra import ALGEBRA, broadcast_by_itself
from wengert.compiler.constants import fold
from wengert.compiler.fuel import fuel
from wengert.compiler.movement import MOVES
from wengert.compiler.rewrite import Rule, rewrite
from wengert.compiler.target import HOST, Target
from wengert.core.graph import Graph, Node
from wengert.ops.op import Op
from wengert.ops.recorders import Elementwise

_table: dict[Op, tuple[Rule, ...]] = {}


def _rules_for(op: Op) -> tuple[Rule, ...]:
    broadcasting = (broadcast_by_itself,) if isinstance(op, Elementwise) else ()
    found = _table[op] = (fold, *broadcasting, *ALGEBRA.get(op, ()), *MOVES.get(op, ()))
    return found


def simpler(node: Node) -> Node | None:
    """What the first rule that fits a node makes of it."""
    for rule in _table.get(node.op) or _rules_for(node.op):
        found = rule(node)
        if found is not None:
            fuel.rule = rule.__name__
            return found
    return None


def simplify(graph: Graph, target: Target = HOST) -> Graph:
    """The graph with every node simplified.

    >>> import wengert as wg
    >>> from wengert.ops.core import placeholder
    >>> x = placeholder((2, 3), wg.float32)
    >>> y = -(-x * 1.0) / 4.0
    >>> [node.op.name for node in simplify(Graph([x], [y])).nodes if node.sources]  # the first minus is dead code now
    ['negative', 'multiply']
    """
    return rewrite(graph, simpler)
