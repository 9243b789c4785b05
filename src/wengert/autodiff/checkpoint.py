"""`checkpoint`: a part of a computation whose inner values are recomputed for the backward pass instead of being
stored.

The part is one op that carries its graph. Its cotangents come from recording that graph anew; random numbers are
functions of their counters, so they are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wengert.autodiff import body as bodies
from wengert.autodiff.forward import forward
from wengert.autodiff.reverse import reverse
from wengert.autodiff.transformed import transformed
from wengert.core import tree
from wengert.core.graph import Graph, Node, now, recorded_as, recording
from wengert.ops.core import as_node, recompute_barrier, variable
from wengert.ops.op import Op, count_lanes, picks
from wengert.tensor import Tensor, family_of


def checkpoint(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, storing only its arguments for the backward pass, which recomputes everything else.

    >>> import wengert as wg
    >>> wg.grad(wg.checkpoint(lambda x: wg.sin(wg.sin(x))))(0.0).item()
    1.0
    """

    @transformed(checkpoint, function)
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = tree.flatten(args)
        is_value = [isinstance(leaf, Tensor) for leaf in leaves]
        nodes = [leaf.node for leaf in leaves if isinstance(leaf, Tensor)]
        since = now()
        inside = [variable(node) if bodies.has_tangents(node) else node for node in nodes]
        rest = iter(inside)
        seen = [leaf.family(next(rest)) if value else leaf for leaf, value in zip(leaves, is_value)]
        result = function(*tree.unflatten(structure, seen), **kwargs)
        outputs, shape = tree.flatten(result)
        graph = Graph(inside, [as_node(leaf) for leaf in outputs], since)
        body, constants = bodies.close(graph)
        family = family_of(outputs)
        return tree.unflatten(shape, map(family, picks(CHECKPOINT(*constants, *nodes, body=body))))

    return checkpointed


def _infer(*sources: Node, body: Graph) -> Any:
    return tuple(n.shape for n in body.outputs), tuple(n.dtype for n in body.outputs)


def _again(y: Node) -> tuple[list[Node], list[Node]]:
    """The body recorded anew: its inputs as variables, and its outputs."""
    with recorded_as(recording.location, True):
        sources = map(recompute_barrier, y.sources)
        inputs = [variable(s) if bodies.has_tangents(s) else s for s in sources]
        return inputs, y.attrs["body"].inline(*inputs)


def _vjp(g: Sequence[Node | None], y: Node) -> list[Any]:
    inputs, outputs = _again(y)
    return reverse(outputs, g, inputs)


def _jvp(tangents: Sequence[Node | None], y: Node, *sources: Node) -> list[Any]:
    inputs, outputs = _again(y)
    return forward(outputs, inputs, tangents)


def _batch(y: Node, sources: Sequence[Node], batched: Sequence[bool]) -> Node:
    lanes = count_lanes(sources, batched)
    body, _ = bodies.batched_body(y.attrs["body"], lanes, batched, [True] * len(y.shape))
    return CHECKPOINT(*sources, body=body)


CHECKPOINT = Op(
    "checkpoint",
    infer=_infer,
    numpy=lambda *arrays, body: tuple(body(*arrays)),
    vjp=_vjp,
    jvp=_jvp,
    batch=_batch,
    expensive=True,
    kind="function",
)
