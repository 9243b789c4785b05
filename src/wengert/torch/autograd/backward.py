"""`torch.autograd.backward` and `grad`: reverse mode from some tensors, into `grad` slots or as values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import wengert as wg
from wengert.autodiff.reverse import accumulate_grad, differentiable_path, release, reverse, zero_like
from wengert.core.dtypes import COMPLEX
from wengert.core.graph import RELEASED, Node, recorded_as, recording
from wengert.ops.core import cast, literal
from wengert.ops.movement import broadcast_to
from wengert.tensor import Tensor as Base
from wengert.tensor import engine
from wengert.torch.tensor import Tensor


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Add the gradients of the tensors to `grad` of every leaf they depend on, or only of the `inputs`."""
    roots = _as_tuple(tensors)
    seeds = _as_tuple(grad_tensors if grad_tensors is not None else grad_variables, len(roots))
    if len(seeds) != len(roots):
        raise RuntimeError(f"got {len(roots)} tensors and {len(seeds)} gradients")
    retain = create_graph if retain_graph is None else retain_graph
    if inputs is not None:
        _into(roots, seeds, _as_tuple(inputs), retain, create_graph)
        return
    for root in roots:
        _require_tracked(root)
    if len(roots) == 1:
        root, seed = roots[0], seeds[0]
        if seed is None and root.node.size != 1:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        engine.backward(root, seed, retain_graph=retain, create_graph=create_graph)
        return
    for i, (root, seed) in enumerate(zip(roots, seeds)):
        keeps = retain or i + 1 < len(roots)
        engine.backward(root, seed, retain_graph=keeps, create_graph=create_graph)


def _into(roots: Any, seeds: Any, inputs: Sequence[Tensor], retain: bool, create_graph: bool) -> None:
    """Add gradients to `grad` of these tensors alone."""
    if not inputs:
        raise RuntimeError("`inputs` argument to `backward` cannot be empty.")
    found = grad(roots, inputs, seeds, retain_graph=retain, create_graph=create_graph, allow_unused=True)
    for slot, gradient in zip(inputs, found):
        if gradient is not None:
            with recorded_as(recording.location, create_graph):
                accumulate_grad(slot, gradient.node)


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """The gradients of the sum of `outputs` with respect to `inputs`, a tuple, without touching any `grad`."""
    if materialize_grads and allow_unused is False:
        raise ValueError("Expected allow_unused to be True or not passed when materialize_grads=True")
    roots, wanted = _as_tuple(outputs), _as_tuple(inputs)
    seeds = _as_tuple(grad_outputs, len(roots))
    for tensor in (*roots, *wanted):
        _require_tracked(tensor)
    retain = create_graph if retain_graph is None else retain_graph
    if is_grads_batched:
        found = _batched(roots, wanted, seeds, create_graph)
    else:
        found = _gradients(roots, wanted, seeds, create_graph)
    given = tuple(_given(x, g, bool(allow_unused), materialize_grads) for x, g in zip(wanted, found))
    if not retain and not is_grads_batched:
        _let_go(roots, wanted)  # which computes what is given
    return given


def _gradients(roots: Any, wanted: Any, seeds: Any, create_graph: bool) -> list[Node | None]:
    with recorded_as(recording.location, create_graph):
        nodes = [_seed(root, seed) for root, seed in zip(roots, seeds)]
        return reverse([root.node for root in roots], nodes, [x.node for x in wanted])


def _batched(roots: Any, wanted: Any, seeds: Any, create_graph: bool) -> list[Node | None]:
    """The gradients for each of a batch of seeds."""
    there: list[bool] = []

    def one(*given: Any) -> Any:
        found = _gradients(roots, wanted, given, create_graph)
        there[:] = [g is not None for g in found]
        return [Base(g) for g in found if g is not None]

    rest = iter(wg.vmap(one)(*seeds))
    return [next(rest).node if is_there else None for is_there in there]


def _seed(root: Any, seed: Any) -> Node:
    node = root.node
    if seed is None:
        if node.size != 1:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        if node.dtype in COMPLEX:
            raise RuntimeError("grad can be implicitly created only for real scalar outputs but got " + str(root.dtype))
        return broadcast_to(literal(1, node.dtype, node.device), node.shape)
    if seed.node.shape != node.shape:
        raise RuntimeError(f"Mismatch in shape: grad_output has a shape of {seed.shape} and output of {root.shape}.")
    return cast(seed.node, node.dtype)


def _let_go(roots: Any, wanted: Any) -> None:
    """Let go of the graph between outputs and inputs."""
    kept = {x.node for x in wanted}
    order = [node for node in differentiable_path([root.node for root in roots], list(kept)) if node not in kept]
    trace = recording.trace
    if trace is None:
        recording.cut = len(recording.pending)
        engine.flush(frozenset(order))
        release(order)
    elif trace.static is not None:
        trace.static.let_go.update(order)


def _given(x: Any, gradient: Node | None, allow_unused: bool, materialize: bool) -> Any:
    if gradient is None:
        if materialize:
            return Tensor(zero_like(x.node))
        if not allow_unused:
            raise RuntimeError(
                "One of the differentiated Tensors appears to not have been used in the graph. "
                "Set allow_unused=True if this is the desired behavior."
            )
        return None
    return Tensor(gradient)


def _require_tracked(x: Any) -> None:
    if not isinstance(x, Base):
        raise TypeError(f"expected a tensor, not {type(x).__name__}")
    if not x.node.tracked or (x.node.sources is RELEASED and not x._is_variable()):
        if x.node.tracked:
            raise RuntimeError(
                "Trying to backward through the graph a second time (or directly access saved tensors after they have "
                "already been freed). Specify retain_graph=True if you need to backward through the graph a second time"
            )
        raise RuntimeError("element 0 of tensors does not require grad and does not have a grad_fn")


def _as_tuple(values: Any, count: int = 0) -> tuple[Any, ...]:
    if values is None:
        return (None,) * count
    return (values,) if isinstance(values, Base) else tuple(values)
