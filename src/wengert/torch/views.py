"""Views: tensors that are a part of another one, or all of it in another shape, and change with it.

A view holds the *slot* it is a part of (its root) and the chain of `ViewOp`s that lead to it, but never the root's
node, which could then be neither donated nor overwritten. Its own node is derived on request, and cached weakly as long
as the root names the same value. A write to a view assigns the root a new value, so gradients are right by
construction, and all other views follow.

A *detached* view (`detach()`, `.data`, a view made in `no_grad`) shares the value but not the history. It has a history
of its own if it is a leaf or a tracked value was written to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from weakref import ref

from wengert.autodiff.custom import CUSTOM_VJP
from wengert.core.context import mode
from wengert.core.graph import RELEASED, Node, Shape, now, recorded_as, recording, watchers
from wengert.ops.addressing import PUT_SLICE
from wengert.ops.core import VARIABLE, alias, cast, operand, stop_gradient, to_device, variable
from wengert.ops.op import picks
from wengert.tensor import Tensor as Base
from wengert.torch import dtypes
from wengert.torch.devices import Size
from wengert.torch.tensor import Sizes, Tensor, unseen
from wengert.torch.view_ops import CHANGING, OVERLAP, ViewOp, has_overlap, joined, strided

_NO_GRAD = (
    "A view was created in no_grad mode and is being modified inplace with grad mode enabled. Given that this use case "
    "is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both the view and the inplace "
    "either both inside the no_grad block (if you don't want the inplace to be tracked) or both outside (if you want "
    "the inplace to be tracked)."
)
_MULTIPLE = (
    "Output 0 of a function is a view and is being modified inplace. This view is the output of a function that "
    "returns multiple views. Such functions do not allow the output views to be modified inplace. You should replace "
    "the inplace operation by an out-of-place one."
)


class Geometry(NamedTuple):
    """Where the elements of a tensor lie in the memory that it has in PyTorch: sizes, steps and where it begins."""

    sizes: Shape
    strides: Shape
    offset: int


def contiguous_strides(sizes: Sequence[int]) -> Shape:
    """The steps of a tensor whose elements lie one after another."""
    strides, step = [], 1
    for n in reversed(sizes):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


def geometry_of(x: Any) -> Geometry:
    """Where the elements of a tensor lie."""
    if isinstance(x, View):
        return x._geometry
    sizes = x.node.shape
    return Geometry(sizes, contiguous_strides(sizes), 0)


class ViewOf(NamedTuple):
    """What a view is but for its root: it makes the view of another root."""

    chain: tuple[ViewOp, ...]
    geometry: Geometry
    is_detached: bool

    def __call__(self, root: Tensor) -> View:
        return View(root, self.chain, self.geometry, is_detached=self.is_detached)


class View(Tensor):
    """A tensor that is a part of another one."""

    _is_whole = False  # whether it was given another shape in place: it is said to be no view

    def __init__(
        self,
        root: Tensor,
        chain: tuple[ViewOp, ...],
        geometry: Geometry,
        parent: View | None = None,
        last: tuple[ViewOp, ...] = (),
        is_detached: bool = False,
    ) -> None:
        self._root = root
        self._chain = chain
        self._geometry = geometry
        self._is_detached = is_detached
        self._flaw = ""  # why nothing that is tracked may be written to it
        self._last = last  # the ops that lead here from the view that this one was taken of
        self._parent: Any = None if parent is None else parent if parent._kept is not None else ref(parent)
        self._memo: ref[Node] | None = None
        self._derived_of = self._derived_in = 0
        self._kept: Node | None = None  # its node, where it has hooks
        self._own: Node | None = None  # of a detached view that is a leaf or has a history
        self._holder: Base | None = None  # of a node with a history, so that it is computed with all that is held
        self._of: Any = None  # what it is said to be a view of, where that is not the root
        self._own_of = 0
        self._grad = None
        self._taken_from = None
        self.born = now()
        if is_detached:
            root._looks = [*[look for look in root._looks if look() is not None], ref(self)]

    # --- what it is -------------------------------------------------------------------------------------------------

    @property
    def view_of(self) -> tuple[Tensor, ViewOf | None]:
        """The base tensor and the part of it; None if it is a leaf or has its own history."""
        return self._root, None if self._own is not None else ViewOf(self._chain, self._geometry, self._is_detached)

    @property
    def shape(self) -> Size:
        """The size of each axis."""
        return Size(self._geometry.sizes)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self._geometry.sizes)

    @property
    def size(self) -> Sizes:
        """`size()` is the shape, `size(0)` the size of an axis; as a number, the number of elements."""
        return Sizes.of(self._geometry.sizes)

    @property
    def dtype(self) -> dtypes.dtype:
        """The type of the elements."""
        return dtypes.of(facts_of(self).dtype)

    @property
    def node(self) -> Node:
        """Its value, derived from the root's."""
        root = self._root.node
        trace = recording.trace
        memo = self._memo
        if memo is not None and self._derived_of == root.serial:
            node = memo()
            is_here = self._derived_in == (0 if trace is None else trace.start)
            if is_here and node is not None and node.sources is not RELEASED:
                return node
        return self._derive(root, 0 if trace is None else trace.start)

    @node.setter
    def node(self, node: Node) -> None:
        self._own = node if self._own is not None else None
        self._write(stop_gradient(node) if node.tracked else node, is_data=True)
        self._own_of = self._root.node.serial

    def _derive(self, root: Node, start: int) -> Node:
        if self._is_detached:
            node = self._derive_detached(root)
        else:
            parent = self._parent() if type(self._parent) is ref else self._parent
            is_of_parent = parent is not None and parent._root is self._root and not parent._is_detached
            whole, ops = (parent.node, self._last) if is_of_parent else (root, self._chain)  # type: ignore[union-attr]
            if whole.tracked and not mode().grad:
                with recorded_as(recording.location, True):
                    node = _read(whole, ops)
            else:
                node = _read(whole, ops)
        if self._kept is not None:
            if self._derived_of == root.serial and self._kept in watchers:  # a backward pass let its graph go
                watchers[node] = watchers[self._kept]
            self._kept = node
        self._memo, self._derived_of, self._derived_in = ref(node), root.serial, start
        return node

    def _derive_detached(self, root: Node) -> Node:
        own = self._own
        if own is not None and self._own_of == root.serial:
            return own
        value = _read(stop_gradient(root) if root.tracked else root, self._chain)
        if own is None:
            return value
        if own.op is VARIABLE:
            self._own = variable(value, ref(self))
            self._own.owner = ref(self)
        else:
            self._keep_history(rewritten(own, value))
        self._own_of = root.serial
        return self._own  # type: ignore[return-value]

    def _keep_history(self, node: Node) -> Node:
        self._holder = Base(alias(node) if node.op is VARIABLE else node)
        self._own = self._holder.node
        return self._own

    # --- writing ----------------------------------------------------------------------------------------------------

    def _put(self, node: Node) -> None:
        self._name(node)

    def _name(self, node: Node) -> None:
        """Have the view, and what it is a part of, take a value; a variable makes it a leaf."""
        if node.op is VARIABLE and "slot" in node.attrs:
            is_current = bool(node.sources) and node.sources[0] is self._current()
            self._is_detached = True
            self._own, self._memo = node, None
            node.owner = ref(self)
            if not is_current:
                self._write(stop_gradient(node))
            self._own_of = self._root.node.serial
        elif node.op.name == "stop_gradient" and self._own is not None and node.sources[0] is self._own:
            self._own = self._memo = None  # `requires_grad = False`
        else:
            self._store(node)

    def _current(self) -> Node | None:
        return None if self._memo is None else self._memo()

    def _store(self, node: Node) -> None:
        """Take a value of its shape and dtype."""
        if not self._is_detached:
            self._write(node)
            return
        own = self._own
        if own is not None and own.op is not VARIABLE and not mode().grad:
            own = self._keep_history(rewritten(own, node))
        elif own is None or own.op is not VARIABLE:
            if own is not None and not node.tracked:
                node = over(own, node)
            if node.tracked and mode().grad:
                own = node = self._keep_history(node)
            else:
                own = None
        self._write(stop_gradient(node) if node.tracked else node, is_data=True)
        self._own, self._own_of = own, self._root.node.serial
        if own is not None and own.op is VARIABLE:
            self._own_of = 0

    def _write(self, part: Node, is_data: bool = False) -> None:
        """Replace this part of the root."""
        values = [self._root.node]
        if is_data and values[0].tracked:
            values[0] = stop_gradient(values[0])
        for op in self._chain[:-1]:
            values.append(op.read(values[-1]))
        for op in reversed(self._chain):
            part = op.write(values.pop(), part)
        del values
        store(self._root, part, is_data)

    def assign(self, value: Any) -> Tensor:
        """Assign a new value to it and to its base."""
        node = value.node if isinstance(value, Base) else operand(value, self.node.dtype, self.device)
        if node.shape != self._geometry.sizes:
            raise RuntimeError(f"assign: a slot of shape {self.shape} cannot take a value of shape {node.shape}")
        del value
        store(self, to_device(cast(node, self.node.dtype), self.device))
        return self

    # --- gradients --------------------------------------------------------------------------------------------------

    def retain_grad(self) -> None:
        """Let a backward pass set `grad` of this tensor although it is not a leaf."""
        self._kept = self.node
        super().retain_grad()

    def register_hook(self, hook: Any) -> Any:
        """Call `hook(gradient)` in every backward pass; a tensor it returns replaces the gradient."""
        self._kept = self.node
        return super().register_hook(hook)

    def keep_node(self) -> Node:
        """Its node, which it holds from now on until its value changes: something refers to it."""
        self._kept = self.node
        return self._kept


def _read(x: Node, ops: Sequence[ViewOp]) -> Node:
    node = x
    for op in ops:
        node = op.read(node)
    return alias(node) if node is x else node


def store(slot: Any, node: Node, is_data: bool = False) -> None:
    """Give a slot another value of its shape and dtype.

    `is_data` says that it is none for the gradients: the history stays, as of all writes in `no_grad`.
    """
    slot._writes += 1
    if isinstance(slot, View):
        slot._store(node)
        return
    if slot.node.tracked:
        if slot._is_variable():
            node = variable(stop_gradient(node) if node.tracked else node, ref(slot))
        elif is_data or not mode().grad:
            node = rewritten(slot.node, node)
        elif not node.tracked:
            node = over(slot.node, node)
    elif node.tracked:
        node = unseen(node)
    slot._put(node)


class _PassOn:
    """The rule of a value that was written without being tracked: gradients go to the one before."""

    def __call__(self, needed: Any, cotangents: Sequence[Node]) -> list[Node | None]:
        return [cotangents[0]]

    def over_lanes(self, batched: Any) -> _PassOn:
        return self


_PASS_ON = _PassOn()


def rewritten(history: Node, value: Node) -> Node:
    """A value with the history of another one, in whose memory it was written unseen by gradients."""
    with recorded_as(recording.location, True):
        sources = (stop_gradient(value), history)
        return picks(CUSTOM_VJP(*sources, outputs=1, arguments=1, rule=_PASS_ON))[0]


def over(history: Node, value: Node) -> Node:
    """A value that takes the whole place of a tracked one: tracked, and its gradient is zero."""
    return PUT_SLICE(history, value, starts=(0,) * value.ndim, steps=(1,) * value.ndim)


# --- making them ----------------------------------------------------------------------------------------------------


def view(x: Any, op: ViewOp | tuple[ViewOp, ...] | None, geometry: Geometry) -> View:
    """The part of a tensor that an op reads, or several one after another; all of it, without one."""
    last: tuple[Any, ...] = () if op is None else (op,) if type(op) is ViewOp else op
    is_detached = isinstance(x, View) and x._is_detached and overlaps(x)
    if isinstance(x, View) and (is_detached or not x._is_detached):
        root, before, parent = x._root, x._chain, x
    else:
        root, before, parent = x, (), None
    chain = before
    for one in last:
        chain = joined(chain, one)
    if last and any(part.overlaps for part in before):
        chain = last = _without_overlap(root, chain, geometry)
        parent = None
    made = View(root, chain, geometry, parent, last, is_detached)
    if is_detached:
        made._of = x
    if not mode().grad and root.node.tracked:
        made._is_detached, made._flaw = True, _NO_GRAD
    elif parent is not None:
        made._flaw = parent._flaw
    return made


def _without_overlap(root: Any, chain: tuple[ViewOp, ...], geometry: Geometry) -> tuple[ViewOp, ...]:
    """The chain to a part that has no element twice, of what has: it can be written, wherever it was taken."""
    if has_overlap(geometry.sizes, geometry.strides):
        return chain
    whole = geometry_of(root)
    if whole.strides != contiguous_strides(whole.sizes) or any(op.name in CHANGING for op in chain):
        return chain
    return (strided(geometry.sizes, geometry.strides, geometry.offset - whole.offset),)


def detached(x: Any) -> View:
    """A tensor of the same value, which shares it and not its history."""
    if isinstance(x, View):
        return View(x._root, x._chain, x._geometry, is_detached=True)
    return View(x, (), geometry_of(x), is_detached=True)


def several(views: Sequence[View]) -> tuple[View, ...]:
    """Views that one function made of a tensor at once: none of them may be written what is tracked."""
    for one in views:
        one._flaw = one._flaw or _MULTIPLE
    return tuple(views)


def leave_memory(x: Any) -> None:
    """Let the detached views of a tensor keep its memory, because it is about to share another's."""
    looks = [look() for look in x._looks]
    staying = [one for one in looks if one is not None and one._root is x]
    if not staying or isinstance(x, View):
        return
    before = x.node.serial
    memory = Tensor(stop_gradient(x.node) if x.node.tracked else x.node)
    memory._looks = [ref(one) for one in staying]
    for one in staying:
        if one._own_of == before:
            one._own_of = memory.node.serial
        one._root, one._memo, one._parent = memory, None, None
    x._looks = ()


def root_of(x: Any) -> Any:
    """The tensor whose memory this one is in."""
    while isinstance(x, View):
        x = x._root
    return x


def overlaps(x: Any) -> bool:
    """Whether elements of a tensor share memory, so that it can only be filled."""
    return isinstance(x, View) and any(op.overlaps for op in x._chain)


class Facts(NamedTuple):
    """What a write has to know of a tensor; a view's node is not derived for it."""

    shape: Shape
    dtype: Any
    device: str


def facts_of(x: Any) -> Facts:
    """Shape, dtype and place of a tensor."""
    if isinstance(x, View) and not any(op.name in CHANGING for op in x._chain):
        root = facts_of(x._root)
        return Facts(x._geometry.sizes, root.dtype, root.device)
    node = x.node
    return Facts(node.shape, node.dtype, node.device)


def is_tracked(x: Any) -> bool:
    """Whether a tensor requires grad."""
    if not isinstance(x, View):
        return bool(x.node.tracked)
    return x._own is not None if x._is_detached else is_tracked(x._root)


def check_write(x: Tensor, tracked: bool, is_fill: bool) -> None:
    """Raise an error for in-place writes that PyTorch refuses."""
    if not is_fill and overlaps(x):
        raise RuntimeError(OVERLAP)
    if not mode().grad:
        return
    if isinstance(x, View):
        if not x._is_detached and x._root.node.tracked and x._root._is_variable():
            raise RuntimeError("a view of a leaf Variable that requires grad is being used in an in-place operation.")
        if x._flaw and (tracked or is_tracked(x) or (x._flaw is _NO_GRAD and x._root.node.tracked)):
            raise RuntimeError(x._flaw)
    if is_tracked(x) and x._is_variable():
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
