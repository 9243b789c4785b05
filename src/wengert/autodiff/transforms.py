"""The transforms users call: `grad`, `vjp`, `jvp`, `hvp`, over nested containers, to any order; `jacobian` has others.

Each runs the function on *variables*: nodes of their own on the arguments' values. So levels never mix: an inner
transform differentiates with respect to a node that no outer one knows. Values are there while the function runs, and
it may branch on them.

Derivatives with respect to complex values follow PyTorch: the gradient of a real function is the derivative with
respect to the real part plus i times that with respect to the imaginary part. A complex function of complex values has
one derivative only if it is holomorphic, which `holomorphic=True` promises. docs/complex.md says more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wengert.api.creation import tensor
from wengert.autodiff.forward import forward
from wengert.autodiff.reverse import or_zero, reverse
from wengert.autodiff.transformed import transformed
from wengert.core import tree
from wengert.core.conversion import differentiating
from wengert.core.dtypes import COMPLEX, FLOATING, INEXACT
from wengert.core.errors import ArgumentError, DTypeError, GradientError, ShapeError
from wengert.core.graph import Graph, Node, ancestors, dependents, recorded_as, recording
from wengert.ops.core import VARIABLE, as_node, cast, literal, placeholder, stop_gradient, variable
from wengert.ops.elementwise import conj
from wengert.tensor import Tensor, family_of, other_families

Function = Callable[..., Any]


def _variables(argument: Any, name: str, position: int) -> tuple[Any, list[Node]]:
    """An argument with each leaf replaced by a Tensor on a variable of its value, and those variables."""
    leaves, structure = tree.flatten(argument)
    nodes = []
    for leaf in leaves:
        if not hasattr(leaf, "__array__") and not isinstance(leaf, (int, float, complex)):
            raise DTypeError(
                f"{name}: argument {position} has a leaf of type {type(leaf).__name__}, but only tensors, arrays and "
                "numbers can be differentiated. Pass it in another argument; a module's parameters get their "
                "gradients from backward()"
            )
        node = leaf.node if isinstance(leaf, Tensor) else tensor(leaf).node
        if node.dtype not in INEXACT:
            raise DTypeError(
                f"{name}: argument {position} has a leaf of dtype {node.dtype}; only floating-point and complex values "
                "have derivatives. Pass 2.0 instead of 2, cast with astype, or choose other argnums"
            )
        nodes.append(variable(node))
    return tree.unflatten(structure, [family_of((leaf,))(node) for leaf, node in zip(leaves, nodes)]), nodes


def _output_nodes(output: Any, name: str) -> tuple[list[Node], tree.Structure]:
    leaves, structure = tree.flatten(output)
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise GradientError(f"{name}: the function returned {leaf!r}, which is not a tensor")
    return [leaf.node for leaf in leaves], structure


def _outside(outputs: Sequence[Node], variables: Sequence[Node]) -> list[Node]:
    """The outputs as seen outside a transform: untracked, unless they depend on something tracked out there."""
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
    for source in node.sources:  # a loop, not any(): this runs for every node of a gradient
        if source.tracked and source.serial < since:
            return True
    return node.op is VARIABLE and "slot" in node.attrs


class Linearized:
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
                raise ArgumentError(f"{name}: with has_aux the function must return (value, auxiliary), not {result!r}")
            result, self.aux = result
        self.outputs, self.structure = _output_nodes(result, name)
        self.family = family_of((*tree.flatten((args, result))[0],)) if other_families else Tensor

    def per_argument(self, leaves: Sequence[Any]) -> list[Any]:
        """One container for each differentiated argument, with the argument's structure."""
        rest = iter(leaves)
        return [tree.unflatten(structure, rest) for structure in self.structures]

    def leave(self, nodes: Sequence[Node]) -> list[Tensor]:
        """Wrap the results as Tensors that outer transforms can track."""
        return [self.family(node) for node in _outside(nodes, self.variables)]

    def linear(self, results: Sequence[Node], seeds: Sequence[Node]) -> Callable[[Sequence[Node]], list[Node]]:
        """Results that are linear in some placeholders, as a function of the values that replace them.

        Tensors hold the values it reads, so that they are computed once and kept. For gradients they belong to the
        outer context, as the function's arguments do.
        """
        graph = Graph(seeds, results, nodes=dependents(results, seeds))
        captured = graph.captured()
        kept = self.leave(captured)
        return lambda given: graph.inline(*given, captured=[(c, slot.node) for c, slot in zip(captured, kept)])

    def leave_aux(self) -> Any:
        """The auxiliary output, for the caller."""
        leaves, structure = tree.flatten(self.aux)
        return tree.unflatten(
            structure, [self.leave([leaf.node])[0] if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        )


def or_zeros(cotangents: Sequence[Node | None], nodes: Sequence[Node]) -> list[Node]:
    """Derivatives with zeros where there are none."""
    return [or_zero(c, node) for c, node in zip(cotangents, nodes)]


def positions(argnums: int | Sequence[int]) -> tuple[int, ...]:
    """The positions that `argnums` names, as a tuple."""
    return (argnums,) if isinstance(argnums, int) else tuple(argnums)


def require_holomorphic(name: str, at: Linearized) -> None:
    """Raise an error unless arguments and results are complex, as those of a holomorphic function are."""
    for what, nodes in (("argument", at.variables), ("result", at.outputs)):
        for node in nodes:
            if node.dtype not in COMPLEX:
                raise DTypeError(
                    f"{name}: with holomorphic=True every argument and result must be complex; this {what} is "
                    f"{node.dtype}. "
                    "Cast it with astype(wg.complex64), or leave holomorphic out"
                )


def value_and_grad(
    function: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False
) -> Function:
    """A function that returns the value of `function` and its gradient with respect to some of its arguments.

    With respect to a complex argument the gradient is the derivative with respect to the real part plus i times that
    with respect to the imaginary part, as in PyTorch (JAX gives its conjugate). With `holomorphic`, which promises that
    `function` is holomorphic, the result is complex, and the derivative is that of complex analysis.

    >>> import wengert as wg
    >>> value, slope = wg.value_and_grad(lambda x: x**2)(3.0)
    >>> value.item(), slope.item()
    (9.0, 6.0)
    """

    @transformed(value_and_grad, function, argnums, has_aux, holomorphic)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        at = Linearized("grad", function, positions(argnums), args, kwargs, has_aux)
        if len(at.outputs) != 1 or at.outputs[0].shape != ():
            shapes = ", ".join(str(node.shape) for node in at.outputs)
            gave = f"shape {shapes}" if shapes else "none"
            raise ShapeError(
                f"grad: the function must return one number; it returned {gave}. Reduce it with sum() or mean(), or "
                "use wg.jacobian or wg.vjp"
            )
        root = at.outputs[0]
        if holomorphic:
            require_holomorphic("grad", at)
        elif root.dtype not in FLOATING:
            raise DTypeError(f"grad: the function returned {root.dtype}; {_hint(root)}")
        cotangents = or_zeros(reverse([root], [literal(1, root.dtype, root.device)], at.variables), at.variables)
        value, *gradients = at.leave([root, *(map(conj, cotangents) if holomorphic else cotangents)])
        by_argument = at.per_argument(gradients)
        gradient = by_argument[0] if isinstance(argnums, int) else tuple(by_argument)
        return ((value, at.leave_aux()) if has_aux else value), gradient

    return differentiated


def _hint(root: Node) -> str:
    if root.dtype in COMPLEX:
        return (
            "a gradient needs a real result. Take real(), imag() or abs() of it, or pass holomorphic=True if the "
            "function is holomorphic"
        )
    return "a derivative needs a floating-point result"


def grad(
    function: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False
) -> Function:
    """A function that returns the gradient of `function` with respect to some of its arguments, in their structure.

    Complex arguments and `holomorphic` are as in `value_and_grad`.

    >>> import wengert as wg
    >>> wg.grad(wg.grad(lambda x: x**3))(2.0).item()
    12.0
    >>> wg.grad(lambda z: z**3, holomorphic=True)(1j).item()
    (-3+0j)
    """
    both = value_and_grad(function, argnums, has_aux, holomorphic)

    @transformed(grad, function, argnums, has_aux, holomorphic)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return differentiated


def vjp(function: Function, *primals: Any, has_aux: bool = False) -> Any:
    """The result of `function` and its pullback, which maps a cotangent of the result to a tuple of the arguments'
    cotangents.

    >>> import wengert as wg
    >>> out, pullback = wg.vjp(wg.sin, wg.tensor([0.0, 1.0]))
    >>> pullback(wg.ones(2))[0].tolist()[0]
    1.0
    """
    if not primals:
        raise ArgumentError("vjp takes the function's arguments too, as in wg.vjp(f, x)")
    at = Linearized("vjp", function, range(len(primals)), primals, {}, has_aux)

    def pullback(cotangent: Any) -> tuple[Any, ...]:
        seeds = matching(cotangent, at.outputs, at.structure, "vjp: the cotangent")
        if any(seed.tracked for seed in seeds):  # it may be differentiated with respect to its cotangent
            with recorded_as(recording.location, True):
                places = [placeholder(y.shape, y.dtype, y.device) for y in at.outputs]
                found = or_zeros(reverse(at.outputs, places, at.variables), at.variables)
            return tuple(at.per_argument([at.family(node) for node in at.linear(found, places)(seeds)]))
        found = or_zeros(reverse(at.outputs, seeds, at.variables), at.variables)
        return tuple(at.per_argument(at.leave(found)))

    out = tree.unflatten(at.structure, at.leave(at.outputs))
    return (out, pullback, at.leave_aux()) if has_aux else (out, pullback)


def jvp(function: Function, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """The result of `function`, and its directional derivative along the tangents of the arguments.

    >>> import wengert as wg
    >>> out, tangent = wg.jvp(lambda x: x * x, (3.0,), (1.0,))
    >>> tangent.item()
    6.0
    """
    primals, tangents = _as_tuple(primals, "primals"), _as_tuple(tangents, "tangents")
    if len(primals) != len(tangents):
        raise ArgumentError(f"jvp: got {len(primals)} primals but {len(tangents)} tangents")
    at = Linearized("jvp", function, range(len(primals)), primals, {}, False)
    structure = tree.Structure(tuple, (), tuple(at.structures))
    seeds = matching(tuple(tangents), at.variables, structure, "jvp: the tangents")
    moved = or_zeros(forward(at.outputs, at.variables, seeds), at.outputs)
    outside = at.leave([*at.outputs, *moved])
    n = len(at.outputs)
    return tree.unflatten(at.structure, outside[:n]), tree.unflatten(at.structure, outside[n:])


def _as_tuple(values: Any, what: str, name: str = "jvp") -> tuple[Any, ...]:
    if not isinstance(values, (tuple, list)):
        raise ArgumentError(
            f"{name}: {what} must be a tuple with one entry for each argument, such as (x,), not a "
            f"{type(values).__name__}"
        )
    return tuple(values)


def matching(values: Any, nodes: Sequence[Node], structure: tree.Structure, what: str) -> list[Node]:
    """The leaves of `values` as nodes, checked against the structure, shapes and dtypes of the given nodes."""
    leaves, found = tree.flatten(values)
    if found != structure and len(leaves) != len(nodes):
        raise ArgumentError(f"{what} has the structure {found}, expected {structure}")
    result = []
    for leaf, node in zip(leaves, nodes):
        seed = as_node(leaf)
        if seed.dtype in COMPLEX and node.dtype not in COMPLEX:
            raise DTypeError(
                f"{what}: dtype {seed.dtype}, but the value is {node.dtype}; for real values they must be real"
            )
        seed = cast(seed, node.dtype)
        if seed.shape != node.shape:
            raise ShapeError(f"{what} has shape {seed.shape}, but the value has shape {node.shape}")
        result.append(seed)
    return result


def hvp(function: Function, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """The product of a scalar function's Hessian with a vector, without forming the Hessian: forward over reverse mode.

    >>> import wengert as wg
    >>> wg.hvp(lambda x: (x**3).sum(), (wg.tensor([1.0, 2.0]),), (wg.tensor([1.0, 1.0]),)).tolist()
    [6.0, 12.0]
    """
    primals, tangents = _as_tuple(primals, "primals", "hvp"), _as_tuple(tangents, "tangents", "hvp")
    if len(primals) == 1:
        return jvp(grad(function), primals, tangents)[1]
    return jvp(grad(function, tuple(range(len(primals)))), primals, tangents)[1]
