"""Conversions that would lose a gradient: a tracked value that becomes a Python number or a NumPy array is a constant.

Inside of what `grad`, `vjp` and `jvp` differentiate, a value that depends on their variables converts to nothing.
Outside, a value that requires grad converts to no array, as in PyTorch, but to a number, which is looked at. Under
`no_grad` and after `detach()` everything converts: there a gradient is not meant.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from wengert.core.errors import GradientError
from wengert.core.graph import RELEASED, Node, recording

_STORE = dis.opmap["STORE_SUBSCR"]


@contextmanager
def differentiating(name: str, variables: Sequence[Node]) -> Iterator[None]:
    """A transform runs a function on its variables."""
    recording.transforms.append((name, variables))
    try:
        yield
    finally:
        recording.transforms.pop()


@contextmanager
def converting() -> Iterator[None]:
    """A context in which every value converts: the derivative is not taken through the graph."""
    before, recording.converts = recording.converts, True
    try:
        yield
    finally:
        recording.converts = before


def require_number(node: Node, what: str) -> None:
    """Raise an error if converting this value to a Python number would lose a gradient; `what` names the conversion."""
    if node.tracked and recording.transforms and recording.grad and not recording.converts:
        _refuse_traced(node, what)


def require_stored(node: Node, what: str) -> None:
    """Like `require_number`, for an assignment `a[0] = x` into an array, which would lose the gradient.

    Python does not say why it wants a number, so for tracked values the calling instruction is inspected.
    """
    if not node.tracked:
        return
    frame = sys._getframe(2)
    if frame.f_code.co_code[frame.f_lasti] == _STORE:
        require_array(node, "a[0] = x")
    require_number(node, what)


def require_array(node: Node, what: str) -> None:
    """Raise an error if converting this value to an array would lose a gradient."""
    if not node.tracked or not recording.grad or recording.converts or node.sources is RELEASED:
        return
    if recording.transforms:
        _refuse_traced(node, what)
    raise GradientError(
        f"{what}: this tensor requires grad, and no gradient passes through an array. Write x.detach().numpy() if "
        "none is needed, or compute with tensors, such as wg.stack([a, b]) instead of np.array([a, b])"
    )


def _refuse_traced(node: Node, what: str) -> None:
    name = _transform_of(node)
    if name is not None:
        raise GradientError(
            f"{what}: {name} differentiates with respect to this value, but converting it here makes a constant, so "
            "its gradient would be lost. Compute with tensors: wg.sin(x) instead of math.sin(x), wg.stack([a, b]) "
            "instead "
            "of np.array([a, b]) or wg.tensor([a, b]). If no gradient is needed, use x.detach()"
        )


def _transform_of(node: Node) -> str | None:
    """The innermost transform with respect to whose variables a value is differentiated, if any."""
    by_variable = {variable: name for name, variables in recording.transforms for variable in variables}
    if not by_variable:
        return None
    first = min(variable.serial for variable in by_variable)
    stack, seen = [node], {node}
    while stack:
        node = stack.pop()
        if node in by_variable:
            return by_variable[node]
        fresh = [s for s in node.sources if s.tracked and s.serial >= first and s not in seen]
        seen.update(fresh)
        stack += fresh
    return None
