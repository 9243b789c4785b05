"""A model's layers as a graph that TensorBoard draws: a node for each call of a layer, an edge for each tensor."""

from __future__ import annotations

from typing import Any

from tensorboard.compat.proto import graph_pb2, node_def_pb2, versions_pb2

import wengert as wg
from wengert.core import tree


def graph_of(model: Any, inputs: Any) -> Any:
    """The graph of one forward pass; layers that hold others are the scopes of their names."""
    given = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    found = _Calls(type(model).__name__)
    for number, x in enumerate(_tensors(given)):
        found.add(f"input_{number}", "IO Node", [], [x])
    leaves = {name: layer for name, layer in model.named_modules() if not any(True for _ in layer.children())}
    handles = [layer.register_forward_hook(found.hook(name)) for name, layer in leaves.items()]
    try:
        with wg.no_grad():
            result = model(*given)
    finally:
        for handle in handles:
            handle.remove()
    found.add("output", "IO Node", _tensors(result), [])
    return graph_pb2.GraphDef(node=found.nodes, versions=versions_pb2.VersionDef(producer=22))


def _tensors(value: Any) -> list[Any]:
    return [x for x in tree.flatten(value)[0] if isinstance(x, wg.Tensor)]


class _Calls:
    """The calls of layers so far, and which of them made each tensor."""

    def __init__(self, root: str) -> None:
        self.nodes: list[Any] = []
        self._root = root
        self._made: dict[Any, list[str]] = {}
        self._names: dict[str, int] = {}

    def hook(self, name: str) -> Any:
        """What is called behind a layer."""

        def called(layer: Any, args: Any, output: Any) -> None:
            self.add(name.replace(".", "/"), type(layer).__name__, _tensors(args), _tensors(output))

        return called

    def add(self, name: str, op: str, read: list[Any], made: list[Any]) -> None:
        """A call that reads some tensors and makes others."""
        count = self._names[name] = self._names.get(name, 0) + 1
        path = "/".join(filter(None, [self._root, name])) + (f"_{count - 1}" if count > 1 else "")
        sources = dict.fromkeys(source for x in read for source in self._origin(x.node))
        self.nodes.append(node_def_pb2.NodeDef(name=path, op=op, input=list(sources)))
        self._made.update({x.node: [path] for x in made})

    def _origin(self, node: Any) -> list[str]:
        """The calls that a value comes from, through what was computed in between."""
        found, seen, waiting = [], set(), [node]
        while waiting:
            each = waiting.pop()
            if each in seen:
                continue
            seen.add(each)
            if each in self._made:
                found += self._made[each]
            else:
                waiting += list(each.sources)
        return found
