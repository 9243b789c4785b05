"""Op: a primitive with all its rules side by side, and the registry of them.

An op is recorded by calling it on nodes. Its rules:

    infer(*sources, **attrs) -> (shape, dtype)     checked while recording; tuples of both for several results
    numpy(*arrays, **attrs) -> array               the reference: what the op means
    vjp   one function a source, rule(g, y, *sources) -> cotangent of that source; or one for all of them,
          rule(g, y) -> list. `g` is the cotangent of the node `y` (a list, with Nones, where it has several results)
    jvp   rule(tangents, y, *sources) -> tangent; a tangent is None where it is zero
    linear        positions of the sources in which the op is jointly linear: its tangent is itself
    multilinear   positions of the sources in each of which it is linear: its tangent is a sum over them
    composition(*sources, **attrs) -> node(s)      the same value in smaller ops, to be differentiated in its place
    batch(y, sources, batched) -> node             the op over lanes: sources[i] has them as axis 0 where batched[i]
    precision     what `autocast` makes of floating sources: "low" (its own dtype, bfloat16 or float16), "full" (float32
                  instead of those two) or None (nothing: the op is computed in the dtype its operands meet in)

One of vjp and jvp is enough: `autodiff` derives the other by transposition. `differentiable=False` says that the
derivative is zero wherever it exists; an op with no rule and without that flag raises an error when it is
differentiated.

Other properties of an op (its kind, its cost, whether it can fail, ...) are the facts in `facts`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Any, Literal, Unpack

import numpy as np

from wengert.core.code import here
from wengert.core.context import mode
from wengert.core.devices import HOST
from wengert.core.dtypes import COMPLEX, HALF, INEXACT, float32, float64
from wengert.core.errors import ComputationError, DeviceError, ShapeError
from wengert.core.graph import Node, recording
from wengert.ops.factors import packing, picking
from wengert.ops.facts import FUNCTION, Facts, Kind, Template, cost_of, flops_of, no_checks

registry: dict[str, Op] = {}
Precision = Literal["low", "full"] | None


class Op:
    """A primitive. Calling it on nodes records a node."""

    def __init__(
        self,
        name: str,
        *,
        infer: Callable[..., tuple[Any, Any]],
        numpy: Callable[..., Any],
        vjp: Any = None,
        jvp: Callable[..., Any] | None = None,
        linear: Container[int] = (),
        multilinear: tuple[int, ...] = (),
        composition: Callable[..., Any] | None = None,
        batch: Callable[..., Node] | None = None,
        differentiable: bool = True,
        expensive: bool = False,
        moves: bool = False,
        c: Template = None,
        precision: Precision = None,
        **facts: Unpack[Facts],
    ) -> None:
        self.name = name
        self.infer = infer
        self.numpy = numpy
        self.vjp = vjp
        self.jvp = jvp
        self.linear = linear
        self.multilinear = multilinear
        self.composition = composition
        self.batch = batch
        self.differentiable = differentiable
        self.expensive = expensive  # its value is kept for a later backward rather than computed again
        self.moves = moves  # it does no arithmetic: half precision needs no detour through float32
        self.c = c  # one element of it in C, for elementwise ops; see kernels/writer.py
        self.precision = precision  # under autocast; the table is in docs/mixed-precision.md
        self._state(facts)
        if name in registry:
            raise ValueError(f"there is already an op named {name}")
        registry[name] = self

    def _state(self, facts: Facts) -> None:
        """Note what is known of the op; see `facts`."""
        self.kind: Kind = facts.get("kind", "opaque")
        self.cost = facts.get("cost", cost_of(self.kind, self.c))
        self.long = facts.get("long", False)
        self.flops = facts.get("flops", flops_of(self.kind, self.cost))
        self.can_fail = facts.get("can_fail", self.kind in ("opaque", "function"))
        self.checks = facts.get("checks", no_checks)
        self.failure = facts.get("failure")
        self.on_host = facts.get("on_host", True)
        self.overwrites = facts.get("overwrites", False)
        self.aliases = facts.get("aliases", False)
        self.free = facts.get("free", False)
        self.factors = facts.get("factors")
        self.collective = facts.get("collective", False)
        self.into = facts.get("into", False)
        self.complex = facts.get("complex", self.moves or self.kind == "function")
        self.symbolic = facts.get("symbolic")
        self.ulp = facts.get("ulp", 4 if self.cost == FUNCTION else 0)
        self.terms = facts.get("terms")
        self.domain = facts.get("domain", ())
        self.samples = facts.get("samples")

    def __call__(self, *sources: Node, **attrs: Any) -> Node:
        if self.precision is not None and mode().autocast is not None:
            sources = tuple(at_precision(self.precision, sources))
        shape, dtype = self.infer(*sources, **attrs)
        if not sources or shape is not sources[0].shape or dtype is not sources[0].dtype:
            check_size(self.name, shape, dtype)
        tracked = False
        for source in sources:
            if source.tracked:
                tracked = mode().grad and self.differentiable and _inexact(dtype)
                break
        device = sources[0].device if len(sources) == 1 else _device_of(self, sources)
        return Node(self, sources, attrs, shape, dtype, device, tracked, recording.location or here())

    def run(self, arrays: Sequence[Any], node: Node) -> Any:
        """Apply the reference to arrays. Half precision is computed in float32 and rounded once, at the end."""
        if not self.moves:
            for array in arrays:
                if type(array) is np.ndarray and array.dtype in HALF:
                    arrays = [a.astype(float32) if type(a) is np.ndarray and a.dtype in HALF else a for a in arrays]
                    break
        result = self.numpy(*arrays, **node.attrs)
        if type(result) is tuple:
            return tuple(_as(part, dtype) for part, dtype in zip(result, node.dtype))
        return _as(result, node.dtype)

    def __repr__(self) -> str:
        return f"<op {self.name}>"


def _as(result: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    if type(result) is np.ndarray and result.dtype is dtype:
        return result
    array = np.asarray(result)
    if array.dtype in COMPLEX and dtype not in COMPLEX:  # NumPy would warn, and drop the imaginary part
        raise ComputationError(f"a reference gave complex numbers where {dtype} was inferred")
    return np.asarray(array, dtype)


_MOST = 2**63 - 1  # bytes, and elements, that a 64-bit number counts
_SAFE = 2**59  # elements that fit whatever their dtype


def check_size(name: str, shape: Any, dtype: Any) -> None:
    """Raise an error if a value's size in bytes does not fit into 64 bits; sizes beside an empty axis count too."""
    if type(dtype) is tuple:
        for one, other in zip(shape, dtype):
            check_size(name, one, other)
        return
    size = 1
    for n in shape:
        size *= n or 1
    if size > _SAFE and size * dtype.itemsize > _MOST:
        raise ShapeError(
            f"{name}: a value of shape {tuple(shape)} and dtype {dtype} would have {size * dtype.itemsize} bytes, more "
            "than a 64-bit number counts"
        )


def _inexact(dtype: Any) -> bool:
    return any(part in INEXACT for part in dtype) if type(dtype) is tuple else dtype in INEXACT


def common_device(name: str, sources: Sequence[Node]) -> str:
    """The common device of all sources. Constants that no Tensor holds, such as those in our own rules, follow."""
    if not sources:
        return HOST
    device = sources[0].device
    for source in sources:
        if source.device != device:
            if source.device == HOST and _is_unnamed(source):
                continue
            if device == HOST and all(_is_unnamed(s) for s in sources if s.device == HOST):
                device = source.device
                continue
            raise DeviceError(f"{name}: values on {device} and on {source.device}; move one with .to({device!r})")
    return device


def _device_of(op: Op, sources: Sequence[Node]) -> str:
    """Where an op is carried out: a loop where the device's values are. What is on the host, such as a generator's
    counter, goes along: the body says what it needs of it where.
    """
    elsewhere = [source for source in sources if source.device != HOST] if op.kind == "function" else ()
    return common_device(op.name, elsewhere or sources)


def _is_unnamed(node: Node) -> bool:
    return node.owner is None or node.owner() is None


# --- mixed precision ------------------------------------------------------------------------------------------------

_SHORT = HALF | {float32}
_WIDE = frozenset((float64, *COMPLEX))


def at_precision(precision: Precision, sources: Sequence[Any]) -> Sequence[Any]:
    """Convert the sources of an op as autocast requires; anything that is not a node is returned unchanged.

    With a float64 (or complex) source none is lowered: the op is computed in float64, and lowering would only round.
    """
    low = recording.autocast
    if precision == "full":
        return [_recast(x, float32) if type(x) is Node and x.dtype in HALF else x for x in sources]
    if low is None or any(type(x) is Node and x.dtype in _WIDE for x in sources):
        return sources
    return [_recast(x, low) if type(x) is Node and x.dtype in _SHORT else x for x in sources]


def _recast(x: Node, dtype: np.dtype[Any]) -> Node:
    if x.dtype is dtype:
        return x
    cast = registry["cast"]
    if x.op is cast and x.dtype is float32 and x.sources and x.sources[0].dtype is dtype:
        return x.sources[0]  # it was widened to meet another operand, which is exact
    return cast(x, dtype=dtype)


# --- several results ------------------------------------------------------------------------------------------------


def _pick_vjp(g: Node, y: Node) -> list[Any]:
    cotangents: list[Node | None] = [None] * len(y.sources[0].shape)
    cotangents[y.attrs["index"]] = g
    return [cotangents]


PICK: Op = Op(
    "pick",
    infer=lambda x, index: (x.shape[index], x.dtype[index]),
    numpy=lambda results, index: results[index],
    vjp=_pick_vjp,
    jvp=lambda tangents, y, x: tangents[0][y.attrs["index"]],
    batch=lambda y, sources, batched: pick(sources[0], **y.attrs),
    moves=True,
    kind="tuple",
    factors=picking,
    free=True,
)
PACK: Op = Op(
    "pack",
    infer=lambda *xs: (tuple(x.shape for x in xs), tuple(x.dtype for x in xs)),
    numpy=lambda *xs: xs,
    vjp=lambda g, y: g,
    jvp=lambda tangents, y, *xs: list(tangents),
    batch=lambda y, sources, batched: PACK(*each_batched(sources, batched)),
    moves=True,
    kind="tuple",
    factors=packing,
    free=True,
)


def pick(node: Node, index: int) -> Node:
    """One result of a node that has several."""
    return node.sources[index] if node.op is PACK else PICK(node, index=index)


def picks(node: Node) -> tuple[Node, ...]:
    """The results of a node that has several."""
    return tuple(pick(node, i) for i in range(len(node.shape)))


# --- what batching rules are made of --------------------------------------------------------------------------------


def count_lanes(sources: Sequence[Node], batched: Sequence[bool]) -> int:
    """The number of lanes of an op under vmap."""
    return next(source.shape[0] for source, b in zip(sources, batched) if b)


def each_batched(sources: Sequence[Node], batched: Sequence[bool], lanes: int | None = None) -> list[Node]:
    """The sources of an op under vmap, with unbatched ones broadcast over the lanes.

    `lanes` gives their number if none of these sources is batched.
    """
    broadcast_to = registry["broadcast_to"]
    lanes = count_lanes(sources, batched) if lanes is None else lanes
    return [s if b else broadcast_to(s, shape=(lanes, *s.shape)) for s, b in zip(sources, batched)]


def behind_lanes(y: Node, sources: Sequence[Node], batched: Sequence[bool]) -> Node:
    """The batching rule of an op with axis attributes: behind the lanes, each axis is one higher."""
    attrs = y.attrs
    moved = {"axis": attrs["axis"] + 1} if "axis" in attrs else {"axes": tuple(axis + 1 for axis in attrs["axes"])}
    return y.op(*sources, **{**attrs, **moved})
