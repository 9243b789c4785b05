"""Verify: a graph is what a graph must be. Run before and after the passes; after each, to find the one at fault.

In: a graph, and the one a pass made it from. Out: the same graph, or a CompilerError that names the pass, the node and
the user's line. What is checked: sources come first and are known (inputs, nodes, constants); every op's `infer` gives
the recorded type, and what movement and reductions leave to their public functions holds too; devices agree; nothing
reads a graph that was let go; attributes are plain values; inputs and outputs are as before.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from wengert.core.errors import CompilerError, WengertError
from wengert.core.graph import RELEASED, Graph, Node, Shape, describe_type, has_array
from wengert.ops import elementwise as e
from wengert.ops.core import LITERAL, TO_DEVICE
from wengert.ops.movement import BROADCAST, FLIP, PERMUTE, PLACE, RESHAPE, SLICE
from wengert.ops.op import Op
from wengert.ops.recorders import Elementwise
from wengert.ops.reduce import ALL, ANY, MAX, MIN, PROD, SUM


def verify(graph: Graph, name: str = "recording", before: Graph | None = None) -> Graph:
    """The graph, if nothing is wrong with it. `name` is the pass that made it from `before`, which was verified.

    Nodes never change: what was in order stays so.
    """
    known = {*graph.inputs, *(() if before is None else before.captured())}
    verified = frozenset(() if before is None else before.nodes)
    for node in graph.nodes:
        if node in known:
            _fail(name, node, "stands in the graph twice, or is an input of it")
        for source in node.sources:
            if source not in known:
                if not _is_constant(source):
                    _fail(name, node, f"reads {source!r}, which is no input, no constant and not computed before it")
                known.add(source)
        problem = _problem(node) if node not in verified else None
        if problem:
            _fail(name, node, problem)
        known.add(node)
    for node in graph.outputs:
        if node not in known and not _is_constant(node):
            _fail(name, node, "is an output and never computed")
    if before is not None:
        _compare(name, graph, before)
    return graph


def _fail(name: str, node: Node, problem: str) -> NoReturn:
    raise CompilerError(f"after {name}: {node.op.name} {describe_type(node)} {problem}", node.location)


def _is_constant(node: Node) -> bool:
    return node.op is LITERAL or has_array(node) or isinstance(node.buffer, tuple)


def _compare(name: str, graph: Graph, before: Graph) -> None:
    """The inputs are the same nodes, the outputs as many and of the same types."""
    if graph.inputs != before.inputs:
        raise CompilerError(f"after {name}: the graph's inputs are not those it had before")
    if len(graph.outputs) != len(before.outputs):
        raise CompilerError(f"after {name}: there are {len(graph.outputs)} outputs, before {len(before.outputs)}")
    for i, (now, then) in enumerate(zip(graph.outputs, before.outputs)):
        if now.shape != then.shape or now.dtype != then.dtype or now.device != then.device:
            _fail(name, now, f"is output {i}, which was {describe_type(then)} on {then.device} before")


# --- one node -------------------------------------------------------------------------------------------------------


def _problem(node: Node) -> str | None:
    """What is wrong with a node whose sources are in order."""
    if node.sources is RELEASED:
        return "was let go by an earlier backward()"
    for key, value in node.attrs.items():
        if not _is_plain(value):
            return f"has the attribute {key} = {value!r}, which is no plain value"
    for source in node.sources:
        if source.device not in (node.device, "cpu") and node.op is not TO_DEVICE:
            return f"on {node.device} reads {source!r} on {source.device}"
    check = _CHECKS.get(node.op)
    problem = check(node, *node.sources) if check is not None else None
    return problem or _mismatch(node)


def _mismatch(node: Node) -> str | None:
    """Where what the op infers is not what was recorded."""
    if isinstance(node.op, Elementwise):
        dtypes = {source.dtype for source in (node.sources[1:] if node.op is e.where else node.sources)}
        if len(dtypes) > 1:
            return f"has operands of dtypes {sorted(d.name for d in dtypes)}"
    try:
        shape, dtype = node.op.infer(*node.sources, **node.attrs)
    except (WengertError, TypeError, ValueError, IndexError) as error:
        return f"does not fit its sources: {getattr(error, 'message', error)}"
    if shape != node.shape:
        return f"should have shape {shape} by its op's rule"
    return None if dtype == node.dtype else f"should be {dtype} by its op's rule"


_PLAIN = frozenset((int, float, complex, bool, str, type(None)))


def _is_plain(value: Any) -> bool:
    """Numbers, names, dtypes, tuples of them; and graphs, rules, slots, which are themselves."""
    if type(value) in _PLAIN or isinstance(value, np.dtype):
        return True
    if type(value) is tuple:
        return all(type(item) in _PLAIN or _is_plain(item) for item in value)
    return not isinstance(value, (np.ndarray, np.generic, Node, list, dict, set))


# --- what the public functions of movement and reductions check, and infer does not ---------------------------------


def _reshape(node: Node, x: Node) -> str | None:
    return None if math.prod(node.shape) == x.size else f"has not as many elements as its source {list(x.shape)}"


def _broadcast(node: Node, x: Node) -> str | None:
    aligned = (1,) * (len(node.shape) - len(x.shape)) + x.shape
    fits = len(aligned) == len(node.shape) and all(m in (1, n) for m, n in zip(aligned, node.shape))
    return None if fits else f"is nothing that {list(x.shape)} broadcasts to"


def _permute(node: Node, x: Node) -> str | None:
    axes = node.attrs["axes"]
    return None if sorted(axes) == list(range(len(x.shape))) else f"has axes {axes} for shape {list(x.shape)}"


def _outside(whole: Shape, starts: Shape, steps: Shape, sizes: Shape) -> str | None:
    ranks = {len(whole), len(starts), len(steps), len(sizes)}
    inside = len(ranks) == 1 and all(
        s >= 0 and t >= 1 and (n == 0 or s + (n - 1) * t < w) for w, s, t, n in zip(whole, starts, steps, sizes)
    )
    return None if inside else f"from {starts} by {steps} with {sizes} elements goes out of shape {list(whole)}"


def _slice(node: Node, x: Node) -> str | None:
    return _outside(x.shape, node.attrs["starts"], node.attrs["steps"], node.attrs["sizes"])


def _place(node: Node, x: Node) -> str | None:
    return _outside(node.shape, node.attrs["starts"], node.attrs["steps"], x.shape)


def _axes(node: Node, x: Node) -> str | None:
    axes = node.attrs["axes"]
    fits = list(axes) == sorted(set(axes)) and all(0 <= a < len(x.shape) for a in axes)
    return None if fits else f"has axes {axes} for shape {list(x.shape)}"


def _where(node: Node, *sources: Node) -> str | None:
    return None if sources[0].dtype.kind == "b" else f"chooses by {describe_type(sources[0])}, which is no boolean"


_CHECKS: dict[Op, Callable[..., str | None]] = {
    RESHAPE: _reshape,
    BROADCAST: _broadcast,
    PERMUTE: _permute,
    SLICE: _slice,
    PLACE: _place,
    FLIP: _axes,
    **dict.fromkeys((SUM, MAX, MIN, PROD, ALL, ANY), _axes),
    e.where: _where,
}
