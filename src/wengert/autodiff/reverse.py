"""Reverse mode: one walk back through the graph, adding up cotangents and applying each op's rule.

In: outputs with their cotangents, and the nodes to differentiate with respect to. Out: a cotangent for each of those,
or None where nothing depends on it. Rules are made of recorded ops, so the result can be differentiated again. Sums
over broadcast axes are done here, once, and not in the rules.

The cotangent of a complex value is the derivative with respect to its real part plus i times that with respect to its
imaginary part, as in PyTorch: a rule is the adjoint of the tangent rule under the real part of `conj(g) * t`. So
transposing a tangent rule by walking back through it, and a cotangent rule likewise, is right for complex values too.

`backward()` is reverse mode from one value to all leaves behind it, into their `grad` slots. It is also the step's
flush: gradients, pending updates and every live value are computed together, and the graph is freed.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from wengert.core.code import Backward
from wengert.core.context import Setting
from wengert.core.dtypes import COMPLEX, bool_
from wengert.core.errors import GradientError, ShapeError
from wengert.core.graph import RELEASED, Node, ancestors, recorded_as, recording, watchers
from wengert.ops.core import STOP_GRADIENT, VARIABLE, as_node, cast, literal, placeholder, variable
from wengert.ops.elementwise import add, real
from wengert.ops.movement import broadcast_to
from wengert.ops.reduce import sum_to
from wengert.tensor import Tensor, engine

_new_tuple = tuple.__new__  # half the time of calling the named tuple, once for every node

Cotangent = Any  # a Node; for a node with several results a list of Nodes and Nones


def reverse(
    outputs: Sequence[Node], cotangents: Sequence[Node | None], inputs: Sequence[Node]
) -> list[Cotangent | None]:
    """Reverse mode: the cotangents of the inputs, given those of the outputs."""
    order = differentiable_path(outputs, inputs)
    return walk(order, zip(outputs, cotangents), inputs)


def differentiable_path(outputs: Iterable[Node], inputs: Sequence[Node]) -> list[Node]:
    """The tracked nodes on a path from the inputs to the outputs, inputs included, in topological order."""
    reached = set(inputs)
    path = []
    for node in ancestors(outputs, since=min((node.serial for node in inputs), default=0)):
        if node in reached:
            path.append(node)
        elif node.tracked and not reached.isdisjoint(node.sources):
            reached.add(node)
            path.append(node)
        elif node.tracked and node.sources is RELEASED:
            raise_released(node)
    return path


def raise_released(node: Node) -> None:
    """Raise the error for a node whose graph was freed."""
    raise GradientError(
        f"the graph behind this value was freed by an earlier backward() (it ends at {node!r}). Call that one with "
        "retain_graph=True to differentiate twice"
    )


def walk(order: Sequence[Node], seeds: Iterable[tuple[Node, Any]], inputs: Iterable[Node]) -> list[Cotangent | None]:
    """Walk `order` backwards from the seeds; returns the cotangents that reach the inputs."""
    wanted = set(order)
    sums: dict[Node, Cotangent] = {}
    for node, cotangent in seeds:
        if cotangent is not None and node in wanted:
            _accumulate(sums, node, cotangent)
    kept = set(inputs)
    found: dict[Node, Cotangent] = {}
    watched = len(watchers) > 0
    observer = recording.observer
    with recorded_as(recording.location, recording.grad):
        for node in reversed(order):
            g = sums.pop(node, None)
            if g is None:
                continue
            recording.location = _new_tuple(Backward, (node.op.name, node.location, node.serial))
            if watched and node in watchers:
                g = _watched(node, g)
            if observer is not None:
                observer(node, g)
            if node in kept:
                found[node] = g
            if wanted.isdisjoint(node.sources):
                continue
            for source, cotangent in zip(node.sources, pull_back(node, g, wanted)):
                if cotangent is not None and source in wanted:
                    _accumulate(sums, source, cotangent)
    return [found.get(node) for node in inputs]


def _accumulate(sums: dict[Node, Cotangent], node: Node, cotangent: Cotangent) -> None:
    """Add a cotangent to a node's sum, summed over the axes along which the node was broadcast."""
    if type(cotangent) is list:
        sums[node] = _add_parts(sums.get(node), cotangent)
        return
    if cotangent.dtype is not node.dtype:
        cotangent = of_kind(cotangent, node.dtype)
    if cotangent.shape != node.shape:
        cotangent = sum_to(cotangent, node.shape)
    before = sums.get(node)
    sums[node] = cotangent if before is None else add(before, cotangent)


def of_kind(cotangent: Node, dtype: Any) -> Node:
    """A real value that met complex ones gets the real part of its cotangent; a complex value's is always complex."""
    if cotangent.dtype in COMPLEX:
        return cotangent if dtype in COMPLEX else cast(real(cotangent), dtype)
    return cast(cotangent, dtype) if dtype in COMPLEX else cotangent


def _add_parts(before: list[Any] | None, more: list[Any]) -> list[Any]:
    if before is None:
        return more
    return [b if a is None else a if b is None else add(a, b) for a, b in zip(before, more)]


def _watched(node: Node, g: Node) -> Node:
    for callback in list(watchers[node]):
        replaced = callback(g)
        g = g if replaced is None else replaced
    return g


def pull_back(node: Node, g: Cotangent, wanted: Iterable[Node]) -> Sequence[Cotangent | None]:
    """The cotangents of a node's sources, by its op's rule."""
    rule = node.op.vjp
    if not node.op.complex:
        require_real(node)
    if type(rule) is tuple:
        sources = node.sources
        return [r(g, node, *sources) if s in wanted else None for r, s in zip(rule, sources)]
    if rule is not None:
        return rule(g, node)
    if node.op.jvp is not None:
        return _transposed_jvp(node, g, wanted)
    if node.op.composition is not None:
        return _through_composition(node, g)
    raise GradientError(f"{node.op.name} has no derivative, but one is needed here", node.location)


def require_real(node: Node) -> None:
    """Raise an error if an op has complex values but its derivative rules are only valid for real ones."""
    for value in (node, *node.sources):
        dtypes = value.dtype if isinstance(value.dtype, tuple) else (value.dtype,)
        if any(dtype in COMPLEX for dtype in dtypes):
            raise GradientError(
                f"{node.op.name} has no derivative for complex values, but one is needed here: its rules are for real "
                "values. Compute with real(x) and imag(x), or use stop_gradient(x)",
                node.location,
            )


def _transposed_jvp(node: Node, g: Cotangent, wanted: Any) -> Sequence[Cotangent | None]:
    """The cotangents from the tangent rule: it is linear in the tangents, and walking back through it transposes it."""
    with recorded_as(recording.location, True):
        tangents = [placeholder(s.shape, s.dtype, s.device) if s in wanted else None for s in node.sources]
        image = node.op.jvp(tangents, node, *node.sources)  # type: ignore[misc]
    live = [t for t in tangents if t is not None]
    images = list(image) if isinstance(image, (list, tuple)) else [image]
    seeds = list(g) if isinstance(g, list) else [g]
    pairs = [(i, s) for i, s in zip(images, seeds) if i is not None and s is not None]
    results = dict(zip(live, reverse([i for i, _ in pairs], [s for _, s in pairs], live)))
    return [None if t is None else results[t] for t in tangents]


def _through_composition(node: Node, g: Cotangent) -> Sequence[Cotangent | None]:
    """The cotangents through the smaller ops that the op consists of, recorded on variables where the walk stops."""
    with recorded_as(recording.location, True):
        inputs = [variable(source) if source.tracked else source for source in node.sources]
        made = node.op.composition(*inputs, **node.attrs)  # type: ignore[misc]
    results, seeds = (list(made), list(g)) if isinstance(g, list) else ([made], [g])
    variables = [node for node, source in zip(inputs, node.sources) if node is not source]
    found = dict(zip(variables, reverse(results, seeds, variables)))
    return [found.get(node) for node in inputs]


def or_zero(value: Node | None, like: Node) -> Node:
    """A tangent or cotangent, or zeros where there is none."""
    return zero_like(like) if value is None else value


def zero_like(node: Node) -> Node:
    """Zeros of a node's shape."""
    return broadcast_to(literal(0, node.dtype, node.device), node.shape)


def leaves_of(order: Sequence[Node]) -> list[Node]:
    """The variables with a slot, which a backward pass fills in, in order of their first use."""
    leaves = {node: None for node in order if node.op is VARIABLE and "slot" in node.attrs}
    used = dict.fromkeys([source for node in order for source in node.sources if source in leaves])
    return list(used | leaves)


# --- backward -------------------------------------------------------------------------------------------------------


def backward(tensor: Tensor, gradient: Any, *, retain_graph: bool, create_graph: bool) -> None:
    """Add the gradient of a value to `grad` of every leaf it was computed from, and compute all of them."""
    root = tensor.node
    order = _tracked_history(root)
    leaves = leaves_of(order)
    with recorded_as(recording.location, create_graph):
        seed = _seed(root, gradient)
        cotangents = walk(order, [(root, seed)], leaves)
        for leaf, cotangent in zip(leaves, cotangents):
            slot = leaf.attrs["slot"]()
            if slot is not None:
                accumulate_grad(slot, or_zero(cotangent, leaf), in_place=not create_graph)
        for leaf in _leaves_behind_constants(order, leaves):
            slot = leaf.attrs["slot"]()
            if slot is not None and slot.grad is None:
                slot.grad = Tensor(zero_like(leaf))
    recording.cut = len(recording.pending)
    if recording.trace is None:  # abstract values cannot be computed, and what records them lets go of them
        engine.flush(frozenset() if retain_graph else frozenset(order))
        if not retain_graph:
            release(order)
    elif recording.trace.static is not None and not retain_graph:
        recording.trace.static.let_go.update(order)


def accumulate_grad(slot: Tensor, cotangent: Node, in_place: bool = True) -> None:
    """Add a cotangent to a slot's `grad`, in place as in PyTorch, unless that `grad` may be differentiated."""
    if slot.grad is None:
        slot.grad = slot.family(cotangent)
    elif in_place:
        slot.grad.assign(slot.family(slot.grad.node + cotangent))
    else:
        slot.grad = slot.family(slot.grad.node + cotangent)
    if accumulated:
        for hook in accumulated.get(id(slot), ()):
            hook(slot)


accumulated: dict[int, tuple[Callable[[Tensor], Any], ...]] = {}
"""By the identity of a leaf, what is called when its gradient has been added to: an entry goes when the leaf does."""


def on_accumulated(slot: Tensor, hook: Callable[[Tensor], Any]) -> Callable[[], None]:
    """Call `hook(slot)` whenever a backward pass has added to its gradient. The result removes the hook."""
    key = id(slot)
    if key not in accumulated:
        weakref.finalize(slot, accumulated.pop, key, None)
    accumulated[key] = (*accumulated.get(key, ()), hook)
    engine.changed()

    def remove() -> None:
        accumulated[key] = tuple(one for one in accumulated.get(key, ()) if one is not hook)
        engine.changed()

    return remove


def _leaves_behind_constants(order: Sequence[Node], known: Sequence[Node]) -> list[Node]:
    """The other leaves on which recorded derivatives depend, but only through constants."""
    is_constant = _is_constant_of_derivative
    stack = [s for node in order if type(node.location) is Backward for s in node.sources if is_constant(s)]
    seen: set[Node] = set(order)
    found: dict[Node, None] = {}
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.op is VARIABLE and "slot" in node.attrs:
            found[node] = None
        elif node.sources is not RELEASED:
            stack.extend([s for s in node.sources if s.tracked or is_constant(s)])
    return [leaf for leaf in found if leaf not in known]


def _is_constant_of_derivative(node: Node) -> bool:
    """Whether a node is a truth value, or was recorded for a derivative, without being tracked itself."""
    if node.tracked or node.op is STOP_GRADIENT:
        return False
    return node.dtype is bool_ or type(node.location) is Backward


def _tracked_history(root: Node) -> list[Node]:
    """The tracked nodes that a value was made from, in topological order."""
    if not root.tracked:
        raise GradientError(
            "backward: this value was not computed from any tensor that requires grad (or it was under no_grad). "
            "Make one with wg.tensor(..., requires_grad=True), or set x.requires_grad = True before computing"
        )
    found: set[Node] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        if node.tracked and node not in found:
            if node.sources is RELEASED:
                raise_released(node)
            found.add(node)
            stack.extend(node.sources)
    return sorted(found, key=lambda node: node.serial)


def _seed(root: Node, gradient: Any) -> Node:
    if gradient is None:
        if root.size != 1:
            raise ShapeError(
                f"backward: the value has shape {root.shape}, but a gradient starts from one number. "
                "Reduce it with sum() or mean(), or pass backward(gradient) of that shape"
            )
        if root.dtype in COMPLEX:
            raise GradientError(
                f"backward: the value is {root.dtype}, but a gradient starts from one real number. Take real(), "
                "imag() or "
                "abs() of it first, or pass backward(gradient)"
            )
        return broadcast_to(literal(1, root.dtype, root.device), root.shape)
    seed = cast(as_node(gradient), root.dtype)
    if seed.shape != root.shape:
        raise ShapeError(f"backward: the gradient has shape {seed.shape}, but the value has shape {root.shape}")
    return seed


def release(order: Sequence[Node]) -> None:
    """Free a graph: nodes held elsewhere keep their values and lose their history."""
    kept = set(leaves_of(order))
    for node in order:
        if node not in kept:
            node.sources = RELEASED


def no_grad() -> AbstractContextManager[None]:
    """A context in which nothing is tracked for gradients, per thread and task. It also works as a decorator.

    >>> import wengert as wg
    >>> x = wg.tensor(2.0, requires_grad=True)
    >>> with wg.no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """
    return Setting("grad", False)


def enable_grad() -> AbstractContextManager[None]:
    """A context in which values are tracked for gradients again, even within `no_grad`.

    >>> import wengert as wg
    >>> w = wg.tensor(2.0, requires_grad=True)
    >>> with wg.no_grad(), wg.enable_grad():
    ...     y = w * w
    >>> y.backward()
    >>> w.grad.item()
    4.0
    """
    return Setting("grad", True)


engine.backward = backward
engine.on_accumulated = on_accumulated
