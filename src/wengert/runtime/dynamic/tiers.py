"""Tiers: a structure runs through the interpreter the first times, and is compiled when it comes back.

In: the nodes of a flush in order, and which of them are to have their values afterwards. What is the same in two
flushes is their *structure*: ops, attributes, shapes, dtypes, who reads whom; leaves count by position, so a learning
rate that changes is an argument of one program. The switch is by count, never by the clock.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence

from wengert.backends.cpu.recycle import give_back
from wengert.backends.protocol import Runnable
from wengert.core import devices
from wengert.core.canonical import entries
from wengert.core.errors import CompilerError
from wengert.core.graph import Graph, Node, has_array, now, recorded_as, recording
from wengert.ops.core import placeholder
from wengert.ops.movement import RESHAPE, SLICE
from wengert.runtime.config import config
from wengert.runtime.program import Interpreter, build, raise_interpreted

STEP_AFTER = 2  # a training step (a flush by `backward`), or one with a loop, is compiled when it comes the third time
LOOK_AFTER = 30  # what is only looked at is small, as a rule, and comes in many forms
BOUND = 128  # structures remembered; the one not used for longest goes first


class SeenStructure:
    """A structure that was seen: how often, and its program once it has one."""

    def __init__(self) -> None:
        self.seen = 0
        self.program: Runnable | None = None


structures: OrderedDict[Hashable, SeenStructure] = OrderedDict()


def run_compiled(order: Sequence[Node], keep: set[Node], is_step: bool) -> bool:
    """Run the nodes as a compiled program if their structure came back often enough; whether that was done."""
    if config.tier == "interpret" or not devices.of(order[-1].device).can_compile():
        if config.invariant:
            raise_interpreted()
        return False
    keep = {node for node in keep if not isinstance(node.dtype, tuple)}  # a program has arrays for its outputs
    order = _with_slices_taken(order)
    key, leaves, kept = _structure(order, keep)
    if not all(has_array(leaf) for leaf in leaves):
        return False  # one that failed, or several results in one
    structure = structures.get(key)
    if structure is None:
        structure = structures[key] = SeenStructure()
        if len(structures) > BOUND:
            structures.popitem(last=False)
    structures.move_to_end(key)
    structure.seen += 1
    always = config.tier == "compile" or config.invariant  # the references round otherwise
    is_long = is_step or any(node.op.kind == "function" for node in order)  # a loop comes back inside itself
    if structure.seen <= (STEP_AFTER if is_long else LOOK_AFTER) and not always:
        return False
    if structure.program is None:
        give_back()  # what interpreting it took
        structure.program = build(_apart(Graph(leaves, kept, 0)))
    if isinstance(structure.program, Interpreter):
        return False
    try:
        arrays = structure.program([leaf.buffer for leaf in leaves])
    except CompilerError:
        raise  # `wg.config.check` found a kernel that is wrong
    except Exception:
        return False  # the interpreter finds the node that failed, and poisons it alone
    for node, array in zip(kept, arrays):
        node.buffer = array
    return True


def _with_slices_taken(order: Sequence[Node]) -> list[Node]:
    """The nodes without the slices of values that are there: a slice is a view, and where it begins is no structure.

    So the batches of an epoch, `images[i : i + 64]`, are inputs of one program.
    """
    rest: list[Node] = []
    taken: set[Node] = set()
    for node in order:
        source = node.sources[0] if node.sources else None
        view = None
        is_slice = node.op is SLICE and source is not None and has_array(source)
        if source is not None and (is_slice or (node.op is RESHAPE and source in taken)):
            array = source.buffer
            view = devices.of(array.device).view(node, array)
        if view is None:
            rest.append(node)
        else:
            node.buffer = view
            taken.add(node)
    return rest


def _structure(order: Sequence[Node], keep: set[Node]) -> tuple[Hashable, list[Node], list[Node]]:
    """The structure of a flush as a key, its leaves, and what is kept, in order."""
    leaves: list[Node] = []

    def place(leaf: Node) -> int:
        leaves.append(leaf)
        return -len(leaves)

    nodes = entries(order, {}, place)
    are_kept = [node in keep for node in order]
    kept = [node for node, is_kept in zip(order, are_kept) if is_kept]
    types = tuple([(leaf.shape, leaf.dtype, leaf.device) for leaf in leaves])
    return (tuple(nodes), tuple(are_kept), types, config.version), leaves, kept


def _apart(graph: Graph) -> Graph:
    """The graph over placeholders and nodes of its own, so that a program that is kept holds on to no values."""
    since = now()
    with recorded_as(recording.location, False):
        inputs = [placeholder(leaf.shape, leaf.dtype, leaf.device) for leaf in graph.inputs]
        return Graph(inputs, graph.inline(*inputs), since)
