"""Tiers: a graph structure is interpreted the first times it occurs, and compiled when it recurs.

In: the nodes of a flush in order, and those whose values must exist afterwards. What two flushes have in common is
their *structure*: ops, attributes, shapes, dtypes, connections. Leaves count by position, so a changing learning rate
is an argument of one program. The switch depends on counts, never on the clock.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Hashable, Sequence

from wengert.backends.cpu.recycle import give_back
from wengert.backends.protocol import Runnable
from wengert.core import devices
from wengert.core.canonical import entries
from wengert.core.errors import CompilerError
from wengert.core.graph import Graph, Node, has_array, now, recorded_as, recording
from wengert.core.ownership import ownership
from wengert.ops.core import placeholder
from wengert.ops.movement import RESHAPE, SLICE
from wengert.runtime.config import config
from wengert.runtime.program import Interpreter, build, raise_interpreted

STEP_AFTER = 2  # a training step (a flush by `backward`), or one with a loop, is compiled when it comes the third time
LOOK_AFTER = 30  # a flush that only reads a value is usually small, and varies
MANY, SMALL = 4000, 1 << 15  # nodes, and FLOPs of a node: of many small ones a program takes the C compiler minutes
MANY_AFTER = 60  # so such a step is compiled when it has come back often, as the unrolled steps of an RNN do
LONG, VERY_LONG = 1 << 28, 1 << 32  # FLOPs: what references take tenths of a second for, and seconds
BOUND = 128  # structures remembered; the one not used for longest goes first


class SeenStructure:
    """A graph structure that was seen: how often, after how many times to compile it, and its program once compiled."""

    def __init__(self, after: int, step_after: int) -> None:
        self.seen = 0
        self.after, self.step_after = after, step_after
        self.pairs: list[tuple[int, int]] = []  # leaves that the program may overwrite, and the outputs they become
        self.program: Runnable | None = None


structures: OrderedDict[Hashable, SeenStructure] = OrderedDict()


def run_compiled(order: Sequence[Node], keep: set[Node], is_step: bool) -> bool:
    """Run the nodes as a compiled program if their structure has recurred often enough; returns whether it did."""
    if config.tier == "interpret" or not devices.of(order[-1].device).can_compile():
        if config.invariant:
            raise_interpreted()
        return False
    keep = {node for node in keep if not isinstance(node.dtype, tuple)}  # a program has arrays for its outputs
    order = _with_slices_taken(order)
    if not order:
        return True
    key, leaves, kept = _structure(order, keep)
    if not all(has_array(leaf) for leaf in leaves):
        return False  # one that failed, or several results in one
    structure = structures.get(key)
    if structure is None:
        structure = structures[key] = SeenStructure(*_patience(order))
        if len(structures) > BOUND:
            structures.popitem(last=False)
    structures.move_to_end(key)
    structure.seen += 1
    always = config.tier == "compile" or config.invariant  # the references round otherwise
    if structure.seen <= (structure.step_after if is_step else structure.after) and not always:
        return False
    if structure.program is None:
        give_back()  # what interpreting it took
        may_fail = any(node.op.can_fail or node.op.checks(node) for node in order)  # which the interpreter would redo
        if not may_fail and devices.is_host(order[-1].device):
            structure.pairs = _pairs(leaves, kept)
        structure.program = build(_apart(Graph(leaves, kept, 0)), structure.pairs)
    if isinstance(structure.program, Interpreter):
        return False
    owned = _owned(order, leaves, structure.pairs) if structure.pairs else []
    try:
        arrays = structure.program([leaf.buffer for leaf in leaves], owned)
    except CompilerError:
        raise  # `wg.config.check` found a kernel that is wrong
    except Exception:
        return False  # the interpreter finds the node that failed, and poisons it alone
    for node, array in zip(kept, arrays):
        node.buffer = array
    for number in owned:
        leaves[number].buffer = None
    return True


def _patience(order: Sequence[Node]) -> tuple[int, int]:
    """How often a structure is interpreted before it is compiled, and how often if it is a training step."""
    is_on_host = devices.is_host(order[-1].device)
    work = sum(node.op.flops(node) for node in order) if is_on_host else 0
    if work >= VERY_LONG:
        return 0, 0
    has_loop = any(node.op.kind == "function" for node in order)  # which comes back inside itself
    after = STEP_AFTER if work >= LONG or has_loop else LOOK_AFTER
    is_many = is_on_host and len(order) > MANY and work < SMALL * len(order)
    return (MANY_AFTER, MANY_AFTER) if is_many else (after, STEP_AFTER)


def _pairs(leaves: Sequence[Node], kept: Sequence[Node]) -> list[tuple[int, int]]:
    """The leaves that are written in some elements, by number, and what is kept that they become."""
    numbers = {leaf: i for i, leaf in enumerate(leaves)}
    found: dict[int, int] = {}
    for k, node in enumerate(kept):
        while node.op.overwrites and node not in numbers:
            node = node.sources[0]
        if node in numbers and node is not kept[k]:
            found.setdefault(numbers[node], k)
    return list(found.items())


def _owned(order: Sequence[Node], leaves: list[Node], pairs: Sequence[tuple[int, int]]) -> list[int]:
    """Those of the leaves that only nodes of the flush refer to: they may be overwritten."""
    asked = [number for number, k in pairs]
    readers = Counter([id(source) for node in order for source in node.sources])
    others = ownership.others(leaves)
    arrays = ownership.others([leaf.buffer for leaf in leaves])
    return [
        n for n in asked if others[n] == readers[id(leaves[n])] and arrays[n] == 1 and not _is_kept(order, leaves[n])
    ]


def _is_kept(order: Sequence[Node], leaf: Node) -> bool:
    """Whether a later backward pass may read a leaf."""
    return leaf.tracked or any(node.tracked for node in order if leaf in node.sources)


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
