"""What hooks return, and `grad_fn`: a node of the graph, as PyTorch shows one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wengert.autodiff.custom import CUSTOM_VJP
from wengert.core.graph import Node, watch
from wengert.ops.core import ALIAS, VARIABLE
from wengert.ops.op import PICK
from wengert.tensor import Tensor as Base
from wengert.torch.tensor import Tensor


class RemovableHandle:
    """The handle returned by registering a hook: `remove()` removes the hook."""

    def __init__(self, remove: Callable[[], Any]) -> None:
        self._remove: Callable[[], Any] | None = remove

    def remove(self) -> None:
        """Remove the hook."""
        if self._remove is not None:
            self._remove()
            self._remove = None

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.remove()


def register_hook(tensor: Tensor, hook: Callable[[Any], Any]) -> RemovableHandle:
    """Call `hook(gradient)` in every backward pass; what it returns replaces the gradient."""
    if not tensor.node.tracked:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    return RemovableHandle(Base.register_hook(tensor, hook))


_NAMES = {
    "multiply": "Mul",
    "subtract": "Sub",
    "divide": "Div",
    "negative": "Neg",
    "matmul": "Mm",
    "absolute": "Abs",
    "power": "Pow",
}
"""PyTorch's names for ops that are called otherwise here."""


class GradFn:
    """A node of the backward graph: how a value was computed."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def name(self) -> str:
        """The op's name in PyTorch's form."""
        if self._node.op is VARIABLE:
            return "torch::autograd::AccumulateGrad"
        node = _computed(self._node)
        rule = node.attrs.get("rule") if node.op is CUSTOM_VJP else None
        if rule is not None and hasattr(rule, "cls"):  # a `torch.autograd.Function`
            return f"{rule.cls.__name__}Backward"
        name = node.op.name
        return f"{_NAMES.get(name) or ''.join(part.capitalize() for part in name.split('_'))}Backward0"

    @property
    def next_functions(self) -> tuple[tuple[GradFn | None, int], ...]:
        """The backward nodes of the values it was computed from."""
        sources = () if self._node.op is VARIABLE else _computed(self._node).sources
        return tuple((_shown(_made(source)) if source.tracked else None, 0) for source in sources)

    @property
    def variable(self) -> Any:
        """The leaf whose `grad` is filled in here."""
        slot = self._node.attrs.get("slot")
        return None if slot is None else slot()

    @property
    def metadata(self) -> dict[str, Any]:
        """A dict for user data on a node; it is not kept."""
        return {}

    def register_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(gradient inputs, gradient outputs)` in every backward pass."""
        return RemovableHandle(watch(self._node, lambda g: hook((Tensor(g),), (Tensor(g),)) and None))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GradFn) and other._node is self._node

    def __hash__(self) -> int:
        return hash(self._node)

    def __repr__(self) -> str:
        return f"<{self.name().rpartition(':')[2]}>"


def _made(node: Node) -> Node:
    while node.op is ALIAS:
        node = node.sources[0]
    return node


def _computed(node: Node) -> Node:
    """What computed a value: of one of several results, what computed them all."""
    while node.op is PICK:
        node = node.sources[0]
    return node


_classes: dict[str, type[GradFn]] = {}


def _shown(node: Node) -> GradFn:
    """A node as an object of a class with its name, which programs print."""
    name = GradFn(node).name().rpartition(":")[2]
    if name not in _classes:
        _classes[name] = type(name, (GradFn,), {})
    return _classes[name](node)


def grad_fn(tensor: Tensor) -> GradFn | None:
    """The backward node of a tensor; None for a leaf."""
    return None if tensor.is_leaf else _shown(_made(tensor.node))
