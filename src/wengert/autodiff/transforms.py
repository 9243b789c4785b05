"""The transforms users call: `grad`, `vjp`, `jvp`, `jacobian`, `hessian`, `hvp`, over nested containers, to any order.

Each runs the function on *variables*: nodes of their own on the arguments' values. So levels never mix: what an inner
transform differentiates by is a node no outer one knows. Values are real while the function runs, and it may branch on
them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wengert.api.creation import tensor
from wengert.autodiff.batching import batch
from wengert.autodiff.forward import forward, or_zero
from wengert.autodiff.reverse import reverse
from wengert.core import tree
from wengert.core.conversion import differentiating
from wengert.core.dtypes import FLOATING
from wengert.core.errors import ArgumentError, DTypeError, GradientError, ShapeError
from wengert.core.graph import Node, ancestors, recorded_as, recording
from wengert.ops.core import VARIABLE, as_node, cast, data, literal, placeholder, stop_gradient, variable
from wengert.ops.movement import broadcast_to, moveaxis, reshape
from wengert.tensor import Tensor

Function = Callable[..., Any]


def _variables(argument: Any, name: str, position: int) -> tuple[Any, list[Node]]:
    """An argument with each leaf replaced by a Tensor on a variable of its value, and those variables."""
    leaves, structure = tree.flatten(argument)
    nodes = []
    for leaf in leaves:
        if not hasattr(leaf, "__array__") and not isinstance(leaf, (int, float, complex)):
            raise DTypeError(
                f"{name}: argument {position} has a leaf of type {type(leaf).__name__}, where tensors, arrays and "
                "numbers are to be differentiated by. Pass it in another argument; a module's parameters get their "
                "gradients from backward()"
            )
        node = leaf.node if isinstance(leaf, Tensor) else tensor(leaf).node
        if node.dtype not in FLOATING:
            raise DTypeError(
                f"{name}: argument {position} has a leaf of dtype {node.dtype}; only floating-point values have "
                "derivatives. Pass 2.0 instead of 2, cast with astype, or choose other argnums"
            )
        nodes.append(variable(node))
    return tree.unflatten(structure, map(Tensor, nodes)), nodes


def _output_nodes(output: Any, name: str) -> tuple[list[Node], tree.Structure]:
    leaves, structure = tree.flatten(output)
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise GradientError(f"{name}: the function returned {leaf!r}, which is not a tensor")
    return [leaf.node for leaf in leaves], structure


def _outside(outputs: Sequence[Node], variables: Sequence[Node]) -> list[Node]:
    """The outputs for the world outside a transform: untracked, unless something tracked out there is behind them.

    So a loss kept from `value_and_grad` does not keep its graph.
    """
    since = min(node.serial for node in variables) if variables else 0
    reached: set[Node] = set()
    for node in ancestors(outputs, since=since):
        if node.tracked and (not reached.isdisjoint(node.sources) or _is_entered(node, since)):
            reached.add(node)
    return [node if node in reached or not node.tracked else stop_gradient(node) for node in outputs]


def _run(function: Function, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    with recorded_as(recording.location, True, recording.autocast):
        return function(*args, **kwargs)


def _is_entered(node: Node, since: int) -> bool:
    """Whether a node is a leaf, or made directly from something tracked before serial `since`."""
    for source in node.sources:  # a loop, not any(): this is asked of every node of a gradient
        if source.tracked and source.serial < since:
            return True
    return node.op is VARIABLE and "slot" in node.attrs


class _Linearized:
    """A function's result at some arguments, with the variables it was recorded on."""

    def __init__(
        self, name: str, function: Function, argnums: Sequence[int], args: Sequence[Any], kwargs: Any, has_aux: bool
    ) -> None:
        replaced = list(args)
        self.variables: list[Node] = []
        self.structures: list[tree.Structure] = []
        for position in argnums:
            if not -len(args) <= position < len(args):
                raise ArgumentError(f"{name}: argnums {position}, but {len(args)} positional arguments were given")
            replaced[position], nodes = _variables(args[position], name, position)
            self.variables += nodes
            self.structures.append(tree.flatten(args[position])[1])
        with differentiating(name, self.variables):
            result = _run(function, replaced, kwargs)
        self.aux = None
        if has_aux:
            if not isinstance(result, tuple) or len(result) != 2:
                raise ArgumentError(f"{name}: with has_aux the function returns (value, auxiliary), not {result!r}")
            result, self.aux = result
        self.outputs, self.structure = _output_nodes(result, name)

    def per_argument(self, leaves: Sequence[Any]) -> list[Any]:
        """One container for each differentiated argument, of its structure."""
        rest = iter(leaves)
        return [tree.unflatten(structure, rest) for structure in self.structures]

    def leave(self, nodes: Sequence[Node]) -> list[Tensor]:
        """Tensors for the world outside."""
        return [Tensor(node) for node in _outside(nodes, self.variables)]

    def leave_aux(self) -> Any:
        """The auxiliary output for the world outside."""
        leaves, structure = tree.flatten(self.aux)
        return tree.unflatten(
            structure, [self.leave([leaf.node])[0] if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        )


def _or_zeros(cotangents: Sequence[Node | None], nodes: Sequence[Node]) -> list[Node]:
    return [or_zero(c, node) for c, node in zip(cotangents, nodes)]


def _positions(argnums: int | Sequence[int]) -> tuple[int, ...]:
    return (argnums,) if isinstance(argnums, int) else tuple(argnums)


def value_and_grad(function: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Function:
    """A function that gives the value of `function` and its gradient by some of its arguments.

    >>> import wengert as wg
    >>> value, slope = wg.value_and_grad(lambda x: x**2)(3.0)
    >>> value.item(), slope.item()
    (9.0, 6.0)
    """

    @functools.wraps(function)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        at = _Linearized("grad", function, _positions(argnums), args, kwargs, has_aux)
        if len(at.outputs) != 1 or at.outputs[0].shape != ():
            shapes = ", ".join(str(node.shape) for node in at.outputs)
            gave = f"shape {shapes}" if shapes else "none"
            raise ShapeError(
                f"grad: the function must give one number; it gave {gave}. Reduce it with sum() or mean(), "
                "or take wg.jacobian or wg.vjp"
            )
        root = at.outputs[0]
        if root.dtype not in FLOATING:
            raise DTypeError(f"grad: the function gave {root.dtype}; a derivative needs a floating-point result")
        cotangents = reverse([root], [literal(1, root.dtype, root.device)], at.variables)
        value, *gradients = at.leave([root, *_or_zeros(cotangents, at.variables)])
        by_argument = at.per_argument(gradients)
        gradient = by_argument[0] if isinstance(argnums, int) else tuple(by_argument)
        return ((value, at.leave_aux()) if has_aux else value), gradient

    return differentiated


def grad(function: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Function:
    """A function that gives the gradient of `function` by some of its arguments, in their structure.

    >>> import wengert as wg
    >>> wg.grad(wg.grad(lambda x: x**3))(2.0).item()
    12.0
    """
    both = value_and_grad(function, argnums, has_aux)

    @functools.wraps(function)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return differentiated


def vjp(function: Function, *primals: Any, has_aux: bool = False) -> Any:
    """The result of `function`, and its pullback: from a cotangent of the result to those of the arguments, a tuple.

    >>> import wengert as wg
    >>> out, pullback = wg.vjp(wg.sin, wg.tensor([0.0, 1.0]))
    >>> pullback(wg.ones(2))[0].tolist()[0]
    1.0
    """
    if not primals:
        raise ArgumentError("vjp: it takes the function's arguments too, such as wg.vjp(f, x)")
    at = _Linearized("vjp", function, range(len(primals)), primals, {}, has_aux)

    def pullback(cotangent: Any) -> tuple[Any, ...]:
        seeds = _matching(cotangent, at.outputs, at.structure, "vjp: the cotangent")
        found = reverse(at.outputs, seeds, at.variables)
        return tuple(at.per_argument(at.leave(_or_zeros(found, at.variables))))

    out = tree.unflatten(at.structure, at.leave(at.outputs))
    return (out, pullback, at.leave_aux()) if has_aux else (out, pullback)


def jvp(function: Function, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """The result of `function`, and how it moves when the arguments move along the tangents.

    >>> import wengert as wg
    >>> out, tangent = wg.jvp(lambda x: x * x, (3.0,), (1.0,))
    >>> tangent.item()
    6.0
    """
    primals, tangents = _as_tuple(primals, "primals"), _as_tuple(tangents, "tangents")
    if len(primals) != len(tangents):
        raise ArgumentError(f"jvp: {len(primals)} primals and {len(tangents)} tangents")
    at = _Linearized("jvp", function, range(len(primals)), primals, {}, False)
    structure = tree.Structure(tuple, (), tuple(at.structures))
    seeds = _matching(tuple(tangents), at.variables, structure, "jvp: the tangents")
    moved = _or_zeros(forward(at.outputs, at.variables, seeds), at.outputs)
    outside = at.leave([*at.outputs, *moved])
    n = len(at.outputs)
    return tree.unflatten(at.structure, outside[:n]), tree.unflatten(at.structure, outside[n:])


def _as_tuple(values: Any, what: str, name: str = "jvp") -> tuple[Any, ...]:
    if not isinstance(values, (tuple, list)):
        raise ArgumentError(
            f"{name}: {what} is a tuple with one entry for each argument, such as (x,), not a {type(values).__name__}"
        )
    return tuple(values)


def _matching(values: Any, nodes: Sequence[Node], structure: tree.Structure, what: str) -> list[Node]:
    """The leaves of `values` as nodes, checked to be of the given nodes' structure, shapes and dtypes."""
    leaves, found = tree.flatten(values)
    if found != structure and len(leaves) != len(nodes):
        raise ArgumentError(f"{what} has the structure {found}, expected {structure}")
    result = []
    for leaf, node in zip(leaves, nodes):
        seed = cast(as_node(leaf), node.dtype)
        if seed.shape != node.shape:
            raise ShapeError(f"{what} has shape {seed.shape} where the value has {node.shape}")
        result.append(seed)
    return result


def jacobian(function: Function, argnums: int | Sequence[int] = 0, mode: str = "reverse") -> Function:
    """A function that gives all derivatives of `function`'s outputs by its arguments' elements.

    For an output of shape S and an argument of shape A it has shape S + A. `mode` is "reverse" (a walk for each output
    element) or "forward" (one for each argument element); all walks are one batched graph.

    >>> import wengert as wg
    >>> wg.jacobian(lambda x: x * x)(wg.tensor([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """
    if mode not in ("reverse", "forward"):
        raise ArgumentError(f'jacobian: mode is "reverse" or "forward", not {mode!r}')

    @functools.wraps(function)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        at = _Linearized("jacobian", function, _positions(argnums), args, kwargs, False)
        table = (_rows if mode == "reverse" else _columns)(at)
        blocks = []
        for row in table:
            by_argument = at.per_argument(at.leave(row))
            blocks.append(by_argument[0] if isinstance(argnums, int) else tuple(by_argument))
        return tree.unflatten(at.structure, blocks)

    return differentiated


def _basis(node: Node) -> Node:
    return data(np.eye(node.size, dtype=node.dtype).reshape(node.size, *node.shape), node.device)


def _rows(at: _Linearized) -> list[list[Node]]:
    """For each output, the derivatives by each variable, a batched pullback."""
    table = []
    for y in at.outputs:
        seed = placeholder(y.shape, y.dtype, y.device)
        pulled = _or_zeros(reverse([y], [seed], at.variables), at.variables)
        over = batch(pulled, {seed: _basis(y)})
        table.append(
            [_block(o, p, y.shape, x.shape, (y.size, *x.shape)) for o, p, x in zip(over, pulled, at.variables)]
        )
    return table


def _columns(at: _Linearized) -> list[list[Node]]:
    """For each output, the derivatives by each variable, a batched pushforward."""
    columns = []
    for x in at.variables:
        seed = placeholder(x.shape, x.dtype, x.device)
        pushed = _or_zeros(forward(at.outputs, [x], [seed]), at.outputs)
        over = batch(pushed, {seed: _basis(x)})
        columns.append([_column(o, p, y.shape, x.shape, x.size) for o, p, y in zip(over, pushed, at.outputs)])
    return [list(row) for row in zip(*columns)]


def _block(over: Node | None, one: Node, outer: Any, inner: Any, lanes: Any) -> Node:
    full = broadcast_to(one, lanes) if over is None else over
    return reshape(full, (*outer, *inner))


def _column(over: Node | None, one: Node, outer: Any, inner: Any, size: int) -> Node:
    full = broadcast_to(one, (size, *outer)) if over is None else over
    return reshape(moveaxis(full, 0, -1), (*outer, *inner))


def hessian(function: Function, argnums: int | Sequence[int] = 0) -> Function:
    """A function that gives the second derivatives of a scalar `function`, by forward over reverse mode.

    >>> import wengert as wg
    >>> wg.hessian(lambda x: (x**3).sum())(wg.tensor([1.0, 2.0])).tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """
    return jacobian(grad(function, argnums), argnums, mode="forward")


def hvp(function: Function, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """The product of a scalar function's Hessian with a vector, without the Hessian: forward over reverse mode.

    >>> import wengert as wg
    >>> wg.hvp(lambda x: (x**3).sum(), (wg.tensor([1.0, 2.0]),), (wg.tensor([1.0, 1.0]),)).tolist()
    [6.0, 12.0]
    """
    primals, tangents = _as_tuple(primals, "primals", "hvp"), _as_tuple(tangents, "tangents", "hvp")
    if len(primals) == 1:
        return jvp(grad(function), primals, tangents)[1]
    return jvp(grad(function, tuple(range(len(primals)))), primals, tangents)[1]
