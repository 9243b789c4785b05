"""A function's derivative at a point as a linear function: recorded once, applied to any number of vectors.

`linearize` is forward mode in that form, `linear_transpose` the transpose of a function that is linear already. The
curvature-vector products for fitting models (`gnvp`, `fisher_product`) combine both modes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wengert.autodiff import body as bodies
from wengert.autodiff.forward import forward
from wengert.autodiff.reverse import reverse
from wengert.autodiff.transforms import Function, Linearized, grad, jvp, matching, or_zeros, vjp
from wengert.core import tree
from wengert.core.errors import ArgumentError, GradientError, ShapeError
from wengert.core.graph import Graph, Node, dependents, recorded_as, recording
from wengert.ops.core import as_node, placeholder


def linearize(function: Function, *primals: Any) -> tuple[Any, Function]:
    """The result of `function` at a point, and its derivative there: a linear function from argument tangents to result
    tangents.

    The derivative is recorded once. It stores the values of `function` that it reads, so each call only computes the
    linear part.

    >>> import wengert as wg
    >>> out, derivative = wg.linearize(lambda x: x**3, 2.0)
    >>> out.item(), derivative(1.0).item(), derivative(10.0).item()
    (8.0, 12.0, 120.0)
    """
    if not primals:
        raise ArgumentError("linearize takes the function's arguments too, as in wg.linearize(f, x)")
    at = Linearized("linearize", function, range(len(primals)), primals, {}, False)
    structure = tree.Structure(tuple, (), tuple(at.structures))
    with recorded_as(recording.location, True):
        seeds = [placeholder(x.shape, x.dtype, x.device) for x in at.variables]
        moved = or_zeros(forward(at.outputs, at.variables, seeds), at.outputs)
    linear = at.linear(moved, seeds)

    def derivative(*tangents: Any) -> Any:
        if len(tangents) != len(primals):
            raise ArgumentError(f"linearize: {len(tangents)} tangents for {len(primals)} arguments")
        given = matching(tangents, at.variables, structure, "linearize: the tangents")
        return tree.unflatten(at.structure, map(at.family, linear(given)))

    return tree.unflatten(at.structure, at.leave(at.outputs)), derivative


def linear_transpose(function: Function, *examples: Any) -> Function:
    """The transpose of a linear function: it maps a cotangent of the result to a tuple of the arguments' cotangents.

    Only the shapes and dtypes of `examples` matter: the function is recorded on abstract values. A function that is not
    linear raises an error; for an affine one, the linear part is transposed.

    >>> import wengert as wg
    >>> back = wg.linear_transpose(lambda x: x[1:] - x[:-1], wg.zeros(3))
    >>> back(wg.tensor([1.0, 0.0]))[0].tolist()
    [-1.0, 1.0, 0.0]
    """
    if not examples:
        raise ArgumentError("linear_transpose takes examples of the function's arguments, such as wg.zeros(3)")
    recorded = bodies.record("linear_transpose", function, examples)
    graph, structure = recorded.graph, tree.flatten(examples)[1]
    for node in graph.inputs:
        if not bodies.has_tangents(node):
            raise ArgumentError(
                f"linear_transpose: an example has dtype {node.dtype}; only floating-point values have tangents"
            )
    with recorded_as(recording.location, True):
        seeds = [bodies.placeholder_like(node) for node in graph.outputs]
        found = or_zeros(reverse(graph.outputs, seeds, graph.inputs), graph.inputs)
    _require_linear(graph, found)
    transpose = Graph(seeds, found, nodes=dependents(found, seeds))

    def transposed(cotangent: Any) -> Any:
        given = matching(cotangent, seeds, recorded.structure, "linear_transpose: the cotangent")
        return tree.unflatten(structure, map(recorded.family, transpose.inline(*given)))

    return transposed


def _require_linear(graph: Graph, cotangents: Sequence[Node]) -> None:
    """Raise an error if a cotangent depends on the point of recording: only a linear function's does not."""
    nonlinear = dependents(cotangents, graph.inputs)
    if not nonlinear:
        return
    lines = {node.location: node for node in graph.nodes}
    for node in nonlinear:
        at = getattr(node.location, "location", node.location)
        if at in lines:
            raise GradientError(
                f"linear_transpose: the function is not linear; the derivative of {lines[at].op.name} depends on the "
                "point. Transpose its derivative instead: wg.vjp(f, x), or wg.linearize first",
                lines[at].location,
            )
    raise GradientError("linear_transpose: the function is not linear; wg.vjp(f, x) transposes its derivative at x")


def gnvp(model: Function, loss: Callable[[Any], Any], primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """The product of the Gauss-Newton matrix of `loss(model(*primals))` with a vector, without forming the matrix.

    The matrix is J^T H J, with the model's Jacobian J and the Hessian H of the loss with respect to the model's result:
    the Hessian without the model's curvature. It is positive semidefinite where the loss is convex. With the negative
    log-likelihood of an exponential family in its natural parameters (squares, cross-entropy of logits) it is the
    Fisher matrix.

    >>> import wengert as wg
    >>> x, t = wg.tensor([1.0, 2.0]), wg.tensor([1.0, 0.0])
    >>> wg.gnvp(lambda w: w**2, lambda y: (y**2).sum(), (x,), (t,)).tolist()  # (2 w)^2 times 2
    [8.0, 0.0]
    """
    out, moved = jvp(model, primals, tangents)
    curved = jvp(grad(loss), (out,), (moved,))[1]
    found = vjp(model, *primals)[1](curved)
    return found[0] if len(found) == 1 else found


def fisher_product(log_likelihoods: Function, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """The product of the empirical Fisher matrix with a vector, without forming the matrix.

    `log_likelihoods(*primals)` returns the log-likelihood of each example, as a vector; the matrix is the mean of g g^T
    over their gradients g. For the true Fisher matrix, with labels drawn from the model, use `gnvp`.

    >>> import wengert as wg
    >>> examples = wg.tensor([[1.0, 0.0], [0.0, 2.0]])
    >>> wg.fisher_product(lambda w: examples @ w, (wg.zeros(2),), (wg.ones(2),)).tolist()
    [0.5, 2.0]
    """
    scores, moved = jvp(log_likelihoods, primals, tangents)
    if as_node(scores).ndim != 1:
        raise ShapeError(
            "fisher_product: the function must return the log-likelihood of each example, as a vector; it returned "
            "shape "
            f"{as_node(scores).shape}"
        )
    found = vjp(log_likelihoods, *primals)[1](moved / scores.shape[0])
    return found[0] if len(found) == 1 else found
