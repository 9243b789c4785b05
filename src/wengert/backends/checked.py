"""A program that checks itself: every kernel is compared with its references, step by step (`wg.config.check`).

Before a step, the memory it reads must still hold what was stored there. After it, the stored values must match what
the NumPy references compute from that memory. References run four times: as they are, in float64, and twice in float64
with every value perturbed by its rounding error. The spread shows how much rounding affects each element, so kernels
that round differently pass and wrong ones do not. The first difference raises an error with the kernel, the node, the
user's line and the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from wengert.backends.cpu.program import CpuProgram
from wengert.compiler.memory import storage
from wengert.core.dtypes import FLOATING, HALF, bfloat16, float32, float64
from wengert.core.errors import CompilerError
from wengert.core.graph import Graph, Node, describe_type
from wengert.ops.core import CAST
from wengert.ops.decompose import FACTOR_EIG, FACTOR_EIGH, FACTOR_SVD
from wengert.ops.op import PICK
from wengert.ops.recorders import Elementwise
from wengert.plan.plan import Step

Array = np.ndarray[Any, Any]


class CheckedCpuProgram(CpuProgram):
    """A compiled graph whose kernels are compared with their references on every call."""

    apart = True

    def _connect(self) -> None:
        super()._connect()
        self.calls = [self._checking(step, call, n) for n, (step, call) in enumerate(zip(self.steps, self.calls))]

    def _checking(self, step: Step, call: Callable[..., None], number: int) -> Callable[..., None]:
        def run(pointers: Any, arena: Any, table: Sequence[Any], results: dict[Node, Any]) -> None:
            if number == 0:
                self.memory = StoredSums(lambda node: self._view(node, table))
            self.memory.require_unchanged(self._in_memory(step.reads), f"step {number}, {kernel_name(step)}, reads")
            expected = [] if step.host_op is not None or step.flight is not None else references(step, self.memory.view)
            call(pointers, arena, table, results)
            if self.error.value:
                return
            for node, reference in expected:
                problem = difference(self.memory.view(node), reference)
                if problem:
                    raise wrong(f"step {number}, {kernel_name(step)} (piece{number} of the C),", node, problem)
            self.memory.note(step.writes)
            if number == len(self.steps) - 1:
                self.memory.require_unchanged(self._in_memory(self.graph.outputs), "the program returns")

        return run

    def _in_memory(self, nodes: Iterable[Node]) -> list[Node]:
        return [node for node in map(storage, nodes) if node in self.slots or node in self.plan.arena.offsets]


class StoredSums:
    """Checksums of the values in a program's memory, taken when they were stored or first read."""

    def __init__(self, view: Callable[[Node], Array]) -> None:
        self.view = view
        self.sums: dict[Node, int] = {}

    def note(self, nodes: Iterable[Node]) -> None:
        """Take the checksums of these values."""
        self.sums |= {node: _sum(self.view(node)) for node in nodes if not isinstance(node.dtype, tuple)}

    def require_unchanged(self, nodes: Iterable[Node], who: str) -> None:
        """Raise an error if a value has changed."""
        for node in (node for node in nodes if not isinstance(node.dtype, tuple)):
            now = _sum(self.view(node))
            if self.sums.setdefault(node, now) != now:
                raise CompilerError(
                    f"check: {who} {node.op.name} {describe_type(node)}, but another step overwrote it after it was "
                    "stored",
                    node.location,
                )


def _sum(array: Array) -> int:
    return crc32(np.ascontiguousarray(array).view(np.uint8).data) if array.size else 0


def kernel_name(step: Step) -> str:
    """The C function of a step, or the op that its reference computes."""
    if step.host_op is not None:
        return f"the reference of {step.host_op.op.name}"
    if step.loop is not None:
        return f"the graph of {step.loop.node.op.name}"
    if step.code is None:
        return "nothing"
    if step.code.call is not None:
        return step.code.call.name
    if step.code.loop:
        return step.code.text.partition("(")[0]
    return "a copy" if step.code.carried_out_by is None else str(step.code.carried_out_by)


def wrong(who: str, node: Node, problem: str) -> CompilerError:
    """The error for a kernel whose result differs from its reference."""
    stored = f"{node.op.name} {describe_type(node)}"
    return CompilerError(f"check: {who} stores {stored} and differs from its reference: {problem}", node.location)


DRAWS = 2  # of rounding errors

# --- references -----------------------------------------------------------------------------------------------------


class Reference(NamedTuple):
    """The expected value: by the references as they are, in float64, and in float64 with rounding errors.

    Errors are drawn more than once, because those of two ops may cancel.
    """

    value: Any
    wide: Any
    shaken: tuple[Any, ...]


_FREE = {FACTOR_SVD: (0, 2), FACTOR_EIGH: (1,), FACTOR_EIG: (1,)}
"""Results that are not unique: vectors have any sign, and those of equal values are any basis."""


def has_reference(node: Node) -> bool:
    """Whether the host can compute it: not a user's own CUDA kernels, and no vectors whose sign is arbitrary."""
    if node.op is PICK and node.attrs["index"] in _FREE.get(node.sources[0].op, ()):
        return False
    return node.op.on_host


def references(step: Any, view: Callable[[Node], Array]) -> list[tuple[Node, Reference]]:
    """The expected results of a step, from the memory that it reads."""
    if step.writes and step.writes[0].op is PICK and step.reads == [r for r in step.reads if r.op is PICK]:
        return [(node, _read(view(step.reads[0]))) for node in step.writes if step.reads]
    reads, found = set(step.reads), dict[Node, Reference]()
    needed: set[Node] = set()
    agenda = list(step.writes)
    while agenda:
        node = agenda.pop()
        if node in needed or node in found:
            continue
        if node not in step.writes and (storage(node) in reads or isinstance(node.buffer, np.ndarray)):
            found[node] = _read(node.buffer if isinstance(node.buffer, np.ndarray) else view(node))
            continue
        needed.add(node)
        agenda.extend(node.sources)
    for node in sorted(needed, key=lambda node: node.serial):
        found[node] = _computed(node, [found[source] for source in node.sources])
    return [(node, found[node]) for node in step.writes]


def references_of(
    graph: Graph, arrays: Sequence[Array], on_host: Callable[[Any], Array] = np.asarray
) -> list[Reference]:
    """The expected results of a whole graph; `on_host` copies its constants to the host."""
    found = {node: _read(array) for node, array in zip(graph.inputs, arrays)}
    found.update((node, _read(on_host(node.buffer))) for node in graph.captured() if node not in found)
    with np.errstate(all="ignore"):
        for node in graph.nodes:
            found[node] = _computed(node, [found[source] for source in node.sources])
    return [found[node] for node in graph.outputs]


def reference_of(node: Node, arrays: Sequence[Array]) -> Reference:
    """The expected value of a node, from the arrays of its sources."""
    with np.errstate(all="ignore"):
        return _computed(node, [_read(array) for array in arrays])


def _read(array: Array) -> Reference:
    copy = array.copy()  # the step may overwrite its operands
    wide = copy.astype(float64) if copy.dtype in FLOATING else copy
    return Reference(copy, wide, (wide,) * DRAWS)


def _computed(node: Node, sources: Sequence[Reference]) -> Reference:
    value = node.op.run([source.value for source in sources], node)
    if node.op is CAST and node.dtype in FLOATING:
        _, exact, errors = sources[0]
        return Reference(value, np.asarray(exact, float64), tuple(np.asarray(each, float64) for each in errors))
    try:
        wide = node.op.numpy(*[source.wide for source in sources], **_with_bodies(node, None))
        shaken = [
            node.op.numpy(*[source.shaken[k] for source in sources], **_with_bodies(node, k)) for k in range(DRAWS)
        ]
    except Exception:  # one that insists on its dtypes
        wide, shaken = value, [value] * DRAWS
    if not node.op.moves:
        inputs = [source.wide for source in sources]
        shaken = [_shaken(node, node.dtype, wide, each, inputs, draw) for draw, each in enumerate(shaken)]
    return Reference(value, wide, tuple(shaken))


class _LikeOutput(NamedTuple):
    """The part of a body's output that the reference of a loop needs."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class _WideBody:
    """The graph of a loop's body for its reference: in float64, with rounding errors if a draw is given."""

    def __init__(self, graph: Graph, draw: int | None) -> None:
        self.graph, self.draw = graph, draw
        wide = [(node.shape, float64 if node.dtype in FLOATING else node.dtype) for node in graph.outputs]
        self.outputs = [_LikeOutput(*one) for one in wide]

    def __call__(self, *arrays: Any) -> list[Any]:
        values: dict[Node, Any] = dict(zip(self.graph.inputs, arrays))
        for node in self.graph.nodes:
            inputs = [values.get(source, source.buffer) for source in node.sources]
            value = node.op.numpy(*inputs, **_with_bodies(node, self.draw))
            if self.draw is not None and not node.op.moves:
                value = _shaken(node, node.dtype, value, value, inputs, self.draw)
            values[node] = value
        return [values.get(node, node.buffer) for node in self.graph.outputs]


def _with_bodies(node: Node, draw: int | None) -> dict[str, Any]:
    """The attributes of a node, with its graphs in float64."""
    if node.op.kind != "function":
        return node.attrs

    def wide(value: Any) -> Any:
        if type(value) is tuple:
            return tuple(map(wide, value))
        return _WideBody(value, draw) if isinstance(value, Graph) else value

    return {name: wide(value) for name, value in node.attrs.items()}


def _shaken(node: Node, dtype: Any, wide: Any, shaken: Any, sources: Sequence[Any], draw: int) -> Any:
    """The result (or results) of a node, perturbed by rounding errors."""
    if isinstance(dtype, tuple):
        return tuple(_shaken(node, *parts, sources, draw) for parts in zip(dtype, wide, shaken))
    return shaken + _rounding(node, dtype, np.asarray(wide), sources, draw) if dtype in FLOATING else shaken


def _rounding(node: Node, dtype: np.dtype[Any], wide: Array, sources: Sequence[Any], draw: int) -> Array:
    """An error of the size of rounding: of the result, and for sums also of the terms.

    No error is near 0: a small one would say nothing about what later ops make of it. The errors of the first draw all
    point upwards, so that those of factors add up; the others have random signs.
    """
    drawn = np.random.default_rng((node.serial, draw)).uniform(-1, 1, wide.shape)
    noise = (drawn + np.copysign(1, drawn)) / 2 if draw else (np.abs(drawn) + 1) / 2
    size = np.abs(wide)
    if not isinstance(node.op, Elementwise):
        terms = [_largest(source) * (source.size / max(wide.size, 1)) ** 0.5 for source in sources if np.ndim(source)]
        size = size + max(terms, default=0)
    return np.asarray(np.nan_to_num(2 * _epsilon(dtype) * size, nan=0, posinf=0) * noise)


def _largest(array: Any) -> float:
    if not isinstance(array, np.ndarray) or array.dtype.kind != "f":
        return 0.0
    return float(np.abs(array[np.isfinite(array)]).max(initial=0))


def _epsilon(dtype: np.dtype[Any]) -> float:
    """Half precision is computed in float32 and rounded at the end."""
    return float(np.finfo(float64 if dtype is float64 else float32).eps)


def difference(found: Array, reference: Reference, precision: float | None = None) -> str | None:
    """How a stored value differs from its reference, in words; None if rounding explains it.

    `precision` is that of the operands, if they are rounded to less than the dtype provides.
    """
    value, wide, *shaken = map(np.asarray, (reference.value, reference.wide, *reference.shaken))
    if found.dtype not in FLOATING:
        wrong = np.all([found != right for right in (value, wide, *shaken)], axis=0)
        if not wrong.any():
            return None
        at = np.unravel_index(int(wrong.argmax()), wrong.shape)
        return f"{int(wrong.sum())} of {wrong.size} elements differ, {found[at]} instead of {value[at]} first"
    if not found.size:
        return None
    f, v, w, allowed = _with_allowed(found, reference, precision)
    wrong = ~(_agree(f, v, allowed) | _agree(f, w, allowed))
    if not wrong.any():
        return None
    apart = np.nan_to_num(np.where(wrong, np.abs(f - v), 0), nan=np.inf)
    at = np.unravel_index(int(apart.argmax()), apart.shape)
    largest = f"the largest difference is {apart[at]:.3g} (allowed is {allowed[at]:.3g})"
    return f"{int(wrong.sum())} of {wrong.size} elements differ; {largest}, {f[at]:g} instead of {v[at]:g}"


def _with_allowed(found: Array, reference: Reference, precision: float | None) -> tuple[Array, Array, Array, Array]:
    """The stored value, its reference and the float64 reference, all as float64, with the tolerance."""
    parts = (found, reference.value, reference.wide, *reference.shaken)
    f, v, w, *shaken = (np.asarray(part).astype(float64) for part in parts)
    errors = [np.nan_to_num(np.abs(v - w) + np.abs(s - w), nan=0, posinf=0) for s in shaken]
    rounding = np.max(errors, axis=0)
    return f, v, w, (precision or _unit(found.dtype)) * _largest(v) + 16 * (rounding + rounding.mean())


def error_of(found: Array, reference: Reference, precision: float | None = None) -> tuple[float, float]:
    """The difference from the nearer reference, and its tolerance, for the element closest to failing.

    Numbers that are not finite are ignored.
    """
    if found.dtype not in FLOATING or not found.size:
        return 0.0, 0.0
    f, v, w, allowed = _with_allowed(found, reference, precision)
    apart = np.minimum(np.abs(f - w), np.abs(f - v))
    share = np.divide(apart, allowed, out=np.zeros_like(apart), where=(allowed > 0) & np.isfinite(apart))
    at = np.unravel_index(int(share.argmax()), share.shape)
    return float(np.nan_to_num(apart[at], posinf=0)), float(allowed[at])


def _agree(a: Array, b: Array, allowed: Array) -> Array:
    return np.asarray((np.abs(a - b) <= allowed) | (a == b) | (np.isnan(a) & np.isnan(b)))


def _unit(dtype: np.dtype[Any]) -> float:
    """The rounding error of storing a value, plus a few units in the last place for the function itself."""
    precision = 2.0**-8 if dtype is bfloat16 else float(np.finfo(dtype).eps)
    return (2 if dtype in HALF else 8) * precision
