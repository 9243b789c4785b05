"""Inline: what `checkpoint` computes is part of the graph, not an op that carries a graph.

In: a graph. Out: the graph with the bodies of its checkpoints in their place, to be optimised and fused like all else.
The backward pass has the body a second time already, over `again(x)` in place of each of its inputs x, so the two stay
two.
"""

from __future__ import annotations

from wengert.autodiff.checkpoint import CHECKPOINT
from wengert.compiler.rewrite import made_by, rewrite
from wengert.compiler.target import HOST, Target
from wengert.core.graph import Graph, Node
from wengert.ops.op import PICK


def inline(graph: Graph, target: Target = HOST) -> Graph:
    """The graph without checkpoints.

    >>> import wengert as wg
    >>> from wengert.ops.core import placeholder
    >>> x = placeholder((2, 3), wg.float32)
    >>> y = wg.checkpoint(lambda x: wg.sin(wg.sin(x)))(wg.Tensor(x)).node
    >>> [node.op.name for node in inline(Graph([x], [y])).nodes]
    ['checkpoint', 'sin', 'sin']
    """
    results: dict[Node, list[Node]] = {}

    def rule(node: Node) -> Node | None:
        if node.op is not PICK or not made_by(node.sources[0], CHECKPOINT):
            return None
        whole = node.sources[0]
        if whole not in results:
            results[whole] = _results(whole)
        return results[whole][node.attrs["index"]]

    return rewrite(graph, rule)


def _results(whole: Node) -> list[Node]:
    """What a checkpoint's body gives, recorded over what the checkpoint reads."""
    found: list[Node] = whole.attrs["body"].inline(*whole.sources)
    return found
