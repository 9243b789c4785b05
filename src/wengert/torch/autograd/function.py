"""`torch.autograd.Function`: a function with derivative rules of the user's own.

A call is recorded as the op of `wg.custom_vjp`: its sources are the results, the tensors among the arguments and those
that were saved, so that the rule holds wherever the graph is recorded again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import wengert as wg
from wengert.autodiff.custom import CUSTOM_VJP
from wengert.autodiff.reverse import zero_like
from wengert.core.context import mode
from wengert.core.graph import Node
from wengert.ops.core import stop_gradient
from wengert.ops.op import picks
from wengert.torch.tensor import Base, Tensor, write


class FunctionCtx:
    """The context that `forward` fills for `backward`: saved tensors and the user's own attributes."""

    def __init__(self) -> None:
        self.saved: tuple[Any, ...] = ()
        self.saved_for_forward: tuple[Any, ...] = ()
        self.needs_input_grad: tuple[bool, ...] = ()
        self.dirty: tuple[Any, ...] = ()
        self.without_gradient: tuple[Any, ...] = ()
        self.materializes = True

    def save_for_backward(self, *tensors: Any) -> None:
        """Save tensors for `backward`, which reads them from `saved_tensors`."""
        self.saved = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Save tensors for `jvp`."""
        self.saved_for_forward = tensors

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The tensors passed to `save_for_backward`."""
        return self.saved

    def mark_dirty(self, *tensors: Any) -> None:
        """Declare which arguments were modified in place."""
        self.dirty = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Declare which results have no derivative."""
        self.without_gradient = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Set whether `backward` receives zeros or None for results that nothing depends on."""
        self.materializes = value


class Function:
    """The base class for functions with their own derivative: define `forward(ctx, *args)` and `backward(ctx, *grads)`,
    call `apply`.

    >>> import wengert.torch as torch
    >>> class Cube(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x * x
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         (x,) = ctx.saved_tensors
    ...         return g * 3 * x * x
    >>> x = torch.Tensor([2.0]).requires_grad_()
    >>> Cube.apply(x).backward()
    >>> x.grad.item()
    12.0
    """

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """The function's results; a subclass defines it."""
        raise RuntimeError("a torch.autograd.Function defines forward(ctx, *args) as a static method")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """The gradients of the arguments, given those of the results; a subclass defines it."""
        raise RuntimeError("this torch.autograd.Function has no backward, but it is needed here")

    vjp = backward

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Call the function; returns its results."""
        ctx = FunctionCtx()
        tensors = [arg for arg in args if isinstance(arg, Base)]
        ctx.needs_input_grad = tuple(isinstance(arg, Base) and arg.node.tracked for arg in args)
        tracked = mode().grad and any(ctx.needs_input_grad)
        before = [x.node for x in tensors]
        with wg.no_grad():
            result = _forward(cls, ctx, args, kwargs)
        single = not isinstance(result, (tuple, list))
        results = (result,) if single else tuple(result)
        if tracked:
            results = _recorded(cls, ctx, args, before, results)
        return results[0] if single else results


def _forward(cls: type[Function], ctx: FunctionCtx, args: Any, kwargs: Any) -> Any:
    """The results, and what `backward` needs in the context: either style of defining a Function."""
    setup: Callable[..., None] | None = getattr(cls, "setup_context", None)
    if setup is None:
        return cls.forward(ctx, *args, **kwargs)
    result = cls.forward(*args, **kwargs)
    setup(ctx, args, result)
    return result


def _recorded(cls: type[Function], ctx: FunctionCtx, args: Any, before: Sequence[Node], results: Any) -> Any:
    """The results, with a graph behind them that ends in the rule."""
    without = {id(x) for x in ctx.without_gradient}
    differentiable = [
        i for i, x in enumerate(results) if isinstance(x, Base) and id(x) not in without and x.node.dtype.kind in "fcV"
    ]
    if not differentiable:
        return results
    outputs = [stop_gradient(results[i].node) for i in differentiable]
    saved = [_saved_node(x, args, before) for x in ctx.saved]
    rule = _Rule(cls, ctx, args, [x is not None for x in saved])
    needed = [node for node in saved if node is not None]
    node = CUSTOM_VJP(*outputs, *before, *needed, outputs=len(outputs), arguments=len(before), rule=rule)
    made = list(results)
    for i, part in zip(differentiable, picks(node)):
        if any(results[i] is x for x in ctx.dirty):
            made[i] = _written(results[i], part)
        else:
            made[i] = Tensor(part)
    return tuple(made)


def _written(x: Tensor, node: Node) -> Tensor:
    """An argument that was written in place, which names the result from now on."""
    return write(x, Tensor(node))


def _saved_node(x: Any, args: Any, before: Sequence[Node]) -> Node | None:
    """The value of a saved tensor: an argument's as it was, so that a second derivative goes through it."""
    if x is None:
        return None
    tensors = [arg for arg in args if isinstance(arg, Base)]
    for arg, node in zip(tensors, before):
        if x is arg:
            return node
    return x.node


class _Rule:
    """`backward` as a function of nodes, in the form that the op wants."""

    def __init__(self, cls: type[Function], ctx: FunctionCtx, args: Any, is_saved: list[bool]) -> None:
        self.cls, self.ctx, self.is_saved = cls, ctx, is_saved
        self.takes_gradient = [isinstance(arg, Base) for arg in args]

    def __call__(self, needed: Sequence[Node], cotangents: Sequence[Node]) -> list[Node | None]:
        rest = iter(needed)
        self.ctx.saved = tuple(Tensor(next(rest)) if there else None for there in self.is_saved)
        backward = self.cls.vjp if self.cls.backward is Function.backward else self.cls.backward
        found = backward(self.ctx, *[Tensor(g) for g in cotangents])
        found = found if isinstance(found, (tuple, list)) else (found,)
        if len(found) < len(self.takes_gradient) or any(g is not None for g in found[len(self.takes_gradient) :]):
            count = len(self.takes_gradient)
            raise RuntimeError(
                f"function {self.cls.__name__}Backward returned an incorrect number of gradients (expected {count}, "
                f"got {len(found)})"
            )
        return [None if g is None else g.node for g, takes in zip(found, self.takes_gradient) if takes]

    def over_lanes(self, needed_batched: Sequence[bool]) -> Any:
        """The rule for all lanes at once."""
        from wengert.autodiff.custom import _OverLanes

        return _OverLanes(self, needed_batched)


def once_differentiable(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator for a `backward` whose result cannot be differentiated again."""

    @functools.wraps(function)
    def once(ctx: Any, *grads: Any) -> Any:
        with wg.no_grad():
            return function(ctx, *grads)

    return once


def zeros_for(node: Node) -> Tensor:
    """Zeros of a node's shape."""
    return Tensor(zero_like(node))
