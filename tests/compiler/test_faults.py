"""Seeded faults: each pass, each lowering rule and each part of the C is broken once, and something must notice.

FAULTS lists what notices which: `verify` (the graph is malformed), `check` (a kernel is not its reference, a value was
written over, the outputs are not what was recorded), `build` (the compiler of C, or fusion itself, refuses).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest

import wengert as wg
from wengert.autodiff.reverse import reverse
from wengert.backends.cpu import toolchain
from wengert.compiler import (
    align,
    attention_layout,
    cleanup,
    join_matmul,
    layout,
    loop_fusion,
    loop_lanes,
    loop_motion,
    loop_sums,
    loops,
    matmul,
    passes,
    reductions,
    remat,
    simplify,
)
from wengert.compiler import contiguous_collectives as contiguous
from wengert.compiler.memory import Life
from wengert.compiler.passes import optimize
from wengert.core import canonical
from wengert.core.devices import HOST_TARGET, Target
from wengert.core.dtypes import HALF
from wengert.core.errors import CompilerError
from wengert.core.graph import Graph, Node, now
from wengert.kernels import c
from wengert.kernels.c_ops import CCall, c_kernels
from wengert.kernels.ir import index, transforms
from wengert.kernels.ir import loops as ir_loops
from wengert.kernels.ir.loops import Guard, IndexMap, Let
from wengert.kernels.launch import H200
from wengert.kernels.loops import elements, slots
from wengert.kernels.matmul import c as matmul_c
from wengert.kernels.matmul import product as matmul_product
from wengert.ops import elementwise as e
from wengert.ops import movement as m
from wengert.ops import registry
from wengert.ops.collective import ALL_GATHER
from wengert.ops.core import cast, data, literal, placeholder
from wengert.ops.fixed_order import FIXED, TREE_MIN
from wengert.ops.linalg import MATMUL
from wengert.ops.random import from_zero, random_bits
from wengert.ops.reduce import MAX
from wengert.plan import fuse, groups, lower, memory, outputs
from wengert.plan import loops as plan_loops
from wengert.plan.c_codegen import CCodegen
from wengert.plan.pipeline import planned
from wengert.runtime.certificate.proofs import prove
from wengert.runtime.debug.checking import CheckedProgram

pytestmark = [
    pytest.mark.skipif(toolchain.compiler() is None, reason="there is no C compiler to build kernels with"),
    pytest.mark.usefixtures("quick_builds"),
]

Patch = pytest.MonkeyPatch
N = 12


INVARIANT = Target(invariant=True)


class Fault(NamedTuple):
    """What is broken and how, on which values it shows, and what notices."""

    name: str
    breaks: Callable[[Patch], None]
    probe: Callable[..., Any]  # the outputs, from x[N, N], y[N, N] and row[N] of float32
    notices: str
    pairs: tuple[tuple[int, int], ...] = ()
    target: Target = HOST_TARGET


def caught_by(fault: Fault) -> str | None:
    """What notices that the compiled outputs of a fault's probe are wrong, if anything does."""
    since = now()
    inputs = [placeholder(shape, wg.float32) for shape in ((N, N), (N, N), (N,))]
    outputs = fault.probe(*map(wg.Tensor, inputs))
    outputs = [out.node for out in (outputs if isinstance(outputs, (list, tuple)) else [outputs])]
    graph = Graph(inputs, outputs, since)
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=node.shape).astype(np.float32) for node in inputs]
    try:
        optimized, _ = optimize(graph, target=fault.target)
    except CompilerError as error:
        return "verify" if "after" in str(error) else str(error)
    try:
        off = {"host_outputs", "parallel_regions"}
        here = replace(fault.target, properties=None)  # the passes may be those for a GPU; the program is C
        program = CheckedProgram(graph, planned(optimized, here, CCodegen, fault.pairs, off, check=False))
    except (toolchain.CompilerError, AssertionError, KeyError):
        return "build"
    try:
        program(arrays)
    except CompilerError as error:
        return "check" if "check:" in str(error) else str(error)
    return None


# --- ways to break things -------------------------------------------------------------------------------------------


def nothing(patch: Patch) -> None:
    """No fault at all."""


def rule(op: Any, instead: Callable[[Node], Node | None]) -> Callable[[Patch], None]:
    """`simplify` has this rule for an op."""
    return lambda patch: patch.setitem(simplify._table, op, (instead,))


def attribute(where: Any, name: str, instead: Any) -> Callable[[Patch], None]:
    """A function, method or constant is another."""
    return lambda patch: patch.setattr(where, name, instead)


def around(where: Any, name: str, change: Callable[..., Any]) -> Callable[[Patch], None]:
    """A function gives `change(what it gave, *its arguments)`."""
    original = getattr(where, name)
    return lambda patch: patch.setattr(where, name, lambda *args: change(original(*args), *args))


def text(old: str, new: str) -> Callable[[Patch], None]:
    """The C has something else in a line."""
    line = c.source.Writer.line
    return lambda patch: patch.setattr(c.source.Writer, "line", lambda self, text: line(self, re.sub(old, new, text)))


def rematerialised_from(wrong: Callable[[Node], Node]) -> Callable[[Patch], None]:
    """Values of any size are computed again, from something wrong."""

    def apply(patch: Patch) -> None:
        patch.setattr(remat, "SMALL", 0)
        patch.setattr(remat, "recompute_barrier", wrong)

    return apply


def relus_everywhere(patch: Patch) -> None:
    """Any number passes for 0 where signs of results are to serve for those of arguments."""
    patch.setattr(remat, "SMALL", 0)
    patch.setattr(remat, "_is_zero", lambda node: True)


def donated_too_early(patch: Patch) -> None:
    """Outputs are written over inputs that others still read."""
    patch.setattr(groups, "ordered", lambda graph, groups, *_: list(groups))
    patch.setattr(outputs, "donations", lambda graph, grouping, pairs, *_: {output: source for source, output in pairs})


def moved(name: str) -> Callable[[Patch], None]:
    """A movement op reads the element that the loops are at."""

    def wrong(node: Node, place: IndexMap) -> IndexMap:
        if node.op.name != name:
            return original(node, place)
        rank = len(node.sources[0].shape)
        indices = place.along(node.shape)[-rank:] if rank else ()
        return IndexMap(tuple(indices), None, place.guards)

    original = ir_loops.moved_place

    def apply(patch: Patch) -> None:
        for module in (fuse, lower):
            patch.setattr(module, "moved_place", wrong)

    return apply


def call_is_zeros(name: str) -> Callable[[Patch], None]:
    """An op that is a kernel of its own gives zeros."""

    def zeros(node: Node, pointer: Any, results: Any = ()) -> CCall:
        several = isinstance(node.dtype, tuple)
        made = [one for one in results if one is not None] if several else [node]
        return CCall(" ".join(f"memset({pointer(n)}, 0, {n.size * n.dtype.itemsize});" for n in made))

    op = registry[name]
    return lambda patch: patch.setitem(c_kernels(), op, replace(c_kernels()[op], call=zeros))


def ungathered(kind: str) -> Callable[[Patch], None]:
    """A reduction stays at what it starts from."""
    return around(c.source.Writer, "_accumulation", lambda lines, self, total, *a: [] if total.kind == kind else lines)


def overlapping(alive: Any, sizes: Any) -> tuple[dict[Any, int], int]:
    return dict.fromkeys(alive, 0), max(sizes.values(), default=0)


def swapped(value: Let, *parts: Any) -> Let:
    return replace(value, operands=value.operands[::-1]) if value.op is e.subtract else value


random_number = lower._Lowering._random


def one_number(self: Any, name: str, node: Node, place: IndexMap, once: bool) -> str:
    return random_number(self, name, node, IndexMap((index.ZERO,) * node.ndim), once)


def guards(change: Callable[[Guard], Guard]) -> Callable[[Patch], None]:
    """The conditions outside of which a value is 0 are others."""
    return around(ir_loops, "Guard", lambda guard, *parts: change(guard))


def axes_not_renamed(patch: Patch) -> None:
    """Convolutions on the CPU have their channels last as well, and reductions of them go over the axes they did."""
    patch.setattr(layout, "_can_be_last", lambda node: True)
    patch.setattr(layout, "_by_tensor_cores", lambda node, target: True)
    patch.setattr(layout, "_renamed", lambda node: node.attrs)


def joined_in_another_order(patch: Patch) -> None:
    """Products on the CPU are joined as well, but the left operands the other way round."""
    patch.setattr(join_matmul, "_is_narrow", lambda node: node.op is MATMUL and node.ndim == 2)
    patch.setattr(join_matmul, "_pays_to_sum", lambda products: len(products) > 1)
    patch.setattr(join_matmul, "_side_by_side", lambda x, axis, _: m.concat(x[::-1] if axis else x, axis=axis))


def unmasked_padding(patch: Patch) -> None:
    """Products on the CPU are padded as well, and a maximum sees the zeros."""
    patch.setattr(align, "_unaligned", lambda product: {n for n in product.shape[-1:] if n % align.ALIGNED})
    patch.setitem(align._NEUTRAL, MAX, 0.0)


def other_heads(patch: Patch) -> None:
    """Attention on the CPU reads its heads out of one value as well, and not those it should."""
    patch.setattr(
        attention_layout,
        "_is_chosen",
        lambda node: node.op in (attention_layout.ATTENTION, attention_layout.ATTENTION_BACKWARD),
    )
    around(attention_layout._Heads, "_view", lambda view, self, *_: self._add(e.negative(view)))(patch)


def reversed_broadcast(patch: Patch) -> None:
    """A value of another shape is read along the wrong axes."""
    original = ir_loops.broadcast_place

    def wrong(place: IndexMap, shape: Any, source: Any) -> IndexMap:
        found = original(place, shape, source)
        return found if source == shape else IndexMap(tuple(reversed(found.indices or ())), None, found.guards)

    for module in (fuse, lower):
        patch.setattr(module, "broadcast_place", wrong)


def one_by_one(self: Any, nodes: Any, variables: Any, values: Any) -> None:
    """Variables are given their next values one after the other, which a later one then reads."""
    for names, new in zip(variables, values):
        for name, value in zip(names.ravel(), new.ravel()):
            self.page.line(f"{name} = {value};")


class OtherSteps(loops.Stacked):
    """What a step computes outside of its loop is that of another step."""

    def record(self, nodes: Any) -> None:
        self.whole = {node: m.flip(value, axis=0) for node, value in self.whole.items()}
        super().record(nodes)


# --- probes: small graphs in which a fault shows --------------------------------------------------------------------


def softmax(x: Any, y: Any, row: Any) -> Any:
    return wg.softmax(x * y, axis=1)


def layernorm(x: Any, y: Any, row: Any) -> Any:
    centred = wg.exp(x) - wg.exp(x).mean(axis=1, keepdims=True)
    return centred / wg.sqrt((centred * centred).mean(axis=1, keepdims=True) + 0.1)


def down_columns(x: Any, y: Any, row: Any) -> Any:
    return wg.sum(x * y + row, axis=0)


def wide_columns(x: Any, y: Any, row: Any) -> Any:
    return wg.sum(wg.stack([wg.reshape(x, (N * N,)), wg.reshape(y, (N * N,))]) * 2.0, axis=0)


def tall_columns(x: Any, y: Any, row: Any) -> Any:
    both = wg.reshape(wg.stack([x, y]), (2, N * N))
    tall = both.T @ both
    return wg.sum(wg.sin(tall) + wg.cos(tall) + wg.tanh(tall) + wg.exp(tall), axis=0)


def scaled_by_sums(x: Any, y: Any, row: Any) -> Any:
    return wg.sum(wg.exp(x) * wg.sum(y, axis=1, keepdims=True), axis=1, keepdims=True)


def large_total(x: Any, y: Any, row: Any) -> Any:
    wide = wg.reshape(x, (N * N, 1, 1)) * wg.reshape(y, (1, N * N, 1)) + row
    return wg.sum(wg.sin(wide) + wg.cos(wide))


def extreme(x: Any, y: Any, row: Any) -> Any:
    return wg.max(-wg.abs(x) - 1.0, axis=1)


def not_a_number(x: Any, y: Any, row: Any) -> Any:
    return wg.max(wg.sqrt(x), axis=1)


def position(x: Any, y: Any, row: Any) -> Any:
    return wg.argmax(x, axis=1)


def reduced(kind: str) -> Callable[..., Any]:
    def probe(x: Any, y: Any, row: Any) -> Any:
        with wg.no_grad():  # a product that is tracked is made of pairs
            return getattr(wg, kind)(x * y > 0 if kind in ("all", "any") else x * y, axis=1)

    return probe


def pointwise(x: Any, y: Any, row: Any) -> Any:
    return wg.where(x > 0, x - y * row, wg.tanh(y) - 3.0)


def across_rows(x: Any, y: Any, row: Any) -> Any:
    return wg.sum(wg.exp(x), axis=1) * x  # the sum of row j, at column j


def through(move: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda x, y, row: move(x) * 2.0


def in_a_sum(move: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda x, y, row: wg.sum(wg.exp(move(x)), axis=1) + row


def broadcast_down(x: Any, y: Any, row: Any) -> Any:
    return wg.broadcast_to(wg.reshape(row, (N, 1)), (N, N)) + x


def padded(x: Any, y: Any, row: Any) -> Any:
    return wg.Tensor(m.place(x.node, (N + 3, N + 5), (1, 2), (1, 1))) * 2.0


def spread(x: Any, y: Any, row: Any) -> Any:
    return wg.Tensor(m.place(x.node, (2 * N, N), (0, 0), (2, 1))) * 2.0


def halves(x: Any, y: Any, row: Any) -> Any:
    return wg.sin(x).astype(wg.bfloat16), wg.sin(y).astype(wg.float16)


def counted(x: Any, y: Any, row: Any) -> Any:
    return wg.arange(N) * 2 + (x > 0).sum(axis=0)


def drawn(x: Any, y: Any, row: Any) -> Any:
    key, counter = data(np.array([1, 2], np.uint32)), cast(wg.round(wg.abs(row[0]) + 5).node, wg.uint64)
    return wg.Tensor(from_zero(random_bits(key, counter, (N, N)))) + x


def products(x: Any, y: Any, row: Any) -> Any:
    return wg.tanh(x) @ y, x @ wg.cos(y), (x * y) @ x


def transposed(x: Any, y: Any, row: Any) -> Any:
    return wg.sin(x) @ y.T


def turned_product(x: Any, y: Any, row: Any) -> Any:
    return wg.exp((x @ y).T)


def thin_product(x: Any, y: Any, row: Any) -> Any:
    return x @ wg.reshape(row, (N, 1))


def chain(x: Any, y: Any, row: Any) -> Any:
    a = wg.cumsum(x, axis=0)
    b = wg.cumsum(y, axis=1)
    return wg.cumsum(a * 2, axis=1) + b, wg.cumsum(b + 1, axis=0) * wg.cumsum(a, axis=1)


def around_the_product(x: Any, y: Any, row: Any) -> Any:
    a = wg.sum(wg.exp(x), axis=1, keepdims=True)
    return ((a * y) @ y).sum(axis=1, keepdims=True) * wg.exp(x) + a


def several_sums(x: Any, y: Any, row: Any) -> Any:
    z = wg.exp(x) * y
    return z.sum(axis=0), z.sum(axis=1), x[0:4, 1:5] * 2, x[1:5, 0:4] * 2


def differences(x: Any, y: Any, row: Any) -> Any:
    return wg.exp(x - y), wg.exp(y - x)


def constants(x: Any, y: Any, row: Any) -> Any:
    return x * (wg.tensor(2.0) * wg.tensor(3.0)) + wg.tensor([1.0] * N)


def negated(x: Any, y: Any, row: Any) -> Any:
    return wg.exp(-x) + y


def late(x: Any, y: Any, row: Any) -> Any:
    """A cheap value that is read before and after a product."""
    hidden = wg.sigmoid(x * 2)
    return wg.tanh(hidden @ y) @ y + hidden


def cut_off(x: Any, y: Any, row: Any) -> Any:
    """A value that is 1 where it was not positive, and whether it was, which is asked after two products."""
    total = x + wg.erf(x @ y)
    hidden = wg.where(total <= 0, 1, total)
    return wg.where(total <= 0, 0, wg.erf(hidden @ y) @ hidden)


def checkpointed(x: Any, y: Any, row: Any) -> Any:
    first, second = wg.checkpoint(lambda x: (x * 2, x + 1))(x)
    return first - second


def two_carries(x: Any, y: Any, row: Any) -> Any:
    """A carry that another one reads, a dead one, and what does not change."""

    def step(carry: Any, item: Any) -> Any:
        a, b, dead = carry
        return (a + b, wg.tanh(b * item) * wg.exp(row), dead * item), None

    return wg.scan(step, (row, row * 2, row), x)[0][0]


def called_loop(x: Any, y: Any, row: Any) -> Any:
    """A loop whose body is called: carries that change places, one that is stacked as it is, steps that differ."""

    def step(carry: Any, item: Any) -> Any:
        a, b = carry
        return (b, wg.tanh(a @ b.T / 9 + a.T * item)), (a, a + item)

    return wg.tree.flatten(wg.scan(step, (x, y), row[:11]))[0]


def small_loop(x: Any, y: Any, row: Any) -> Any:
    """A loop over variables, with carries that change places."""

    def step(carry: Any, item: Any) -> Any:
        a, b, c = carry
        return (b, a, wg.sin(c + a) + item), c

    return wg.tree.flatten(wg.scan(step, (row[:3], row[3:6], row[6:9]), row[:11]))[0]


def lanes(x: Any, y: Any, row: Any) -> Any:
    """A loop over lanes, which are columns; an axis that is reduced is none."""
    many = wg.concat([x] * 4, axis=0)

    def step(c: Any, item: Any) -> Any:
        return wg.tanh(c * item) + wg.sum(c, axis=0, keepdims=True) / 9, c

    return wg.scan(step, many, row)


def two_scans(x: Any, y: Any, row: Any) -> Any:
    """Two scans, of which the second needs what the first gives."""
    first, _ = wg.scan(lambda c, item: (c * 0.5 + item, None), row, x)
    return wg.scan(lambda c, item: (wg.sin(c) + item, c), first, x)


def ended(x: Any, y: Any, row: Any) -> Any:
    """Lanes that take different numbers of steps, and their cotangents."""
    many = wg.exp(x.flatten()) * 4
    halved = wg.vmap(lambda x, by: wg.while_loop(lambda x: x > 1.0, lambda x: x * by, x), (0, None))
    return wg.grad(lambda x: (halved(x, wg.sigmoid(row[0])) ** 2).sum())(many), halved(many, 0.7)


def recurrent(x: Any, y: Any, row: Any) -> Any:
    """Products of what steps read, products that no carry depends on, and sums of products over steps."""
    wide = wg.concat([y] * 4, axis=1)

    def step(carry: Any, item: Any) -> Any:
        h, total = carry
        h = wg.tanh(item @ wide.T + h)
        return (h, total + item.T @ h), h @ wide

    xs = wg.concat([x] * 4, axis=1).reshape(3, 4, 4 * N)
    (h, total), ys = wg.scan(step, (wg.zeros((4, N)), wg.ones((4 * N, N))), xs)
    return h, total, ys


def cond(x: Any, y: Any, row: Any) -> Any:
    first, _, third = wg.cond(row[0] > 0, lambda: (x * 1, y + 1, x - y), lambda: (y * 2, x, y))
    return first * 2 + third


def updated(x: Any, y: Any, row: Any) -> Any:
    return wg.cumsum(x, axis=1) + y, x - 0.1 * y


def picked(x: Any, y: Any, row: Any) -> Any:
    return wg.take_along_axis(wg.log_softmax(x, axis=1), wg.argmax(y, axis=1, keepdims=True), axis=1)


def convolved(x: Any, y: Any, row: Any) -> Any:
    image, filters = wg.reshape(x, (1, 1, N, N)), wg.reshape(y[:3, :3], (1, 1, 3, 3))
    result = wg.conv2d(image, filters, padding=1)
    return [result, *_gradients(result, [image, filters])]


def summed_channels(x: Any, y: Any, row: Any) -> Any:
    return wg.conv2d(x.reshape(1, 4, 6, 6), y.reshape(4, 4, 3, 3)).sum(1)


def largest_of_products(x: Any, y: Any, row: Any) -> Any:
    return wg.max(-(wg.exp(x).to(wg.bfloat16) @ wg.exp(y).to(wg.bfloat16)), axis=1)


def summed_products(x: Any, y: Any, row: Any) -> Any:
    x, y = x.to(wg.float32), y.to(wg.float32)
    return wg.sin(x) @ y + x[:, :3] @ wg.cos(y[:3])


def detached_products(x: Any, y: Any, row: Any) -> Any:
    """A running product is an op of its own where nothing is differentiated."""
    return wg.cumprod(1 + wg.sin(x).detach(), axis=1)


def attended_heads(x: Any, y: Any, row: Any) -> Any:
    parts = [x[:, i : i + N // 3].reshape(1, N, 1, N // 3) for i in range(0, N, N // 3)]
    return wg.scaled_dot_product_attention(*(wg.permute_dims(part, (0, 2, 1, 3)).to(wg.float64) for part in parts))


def pooled(x: Any, y: Any, row: Any) -> Any:
    image = wg.reshape(x, (1, 1, N, N))
    return wg.max_pool2d(image, 2) + wg.avg_pool2d(image, 2)


def attended(x: Any, y: Any, row: Any) -> Any:
    q, k = wg.reshape(x, (1, 1, N, N)), wg.reshape(y, (1, 1, N, N))
    result = wg.scaled_dot_product_attention(q, k, k)
    return [result, *_gradients(result, [q])]


def addressed(name: str) -> Callable[..., Any]:
    where = wg.tensor([[3], [0], [11]] * 4)

    def probe(x: Any, y: Any, row: Any) -> Any:
        if name == "gather":
            return wg.take(x, wg.tensor([2, 5, 5]), axis=0)
        if name == "take_along":
            return wg.take_along_axis(x, wg.concat([where, where], axis=1), axis=1)
        if name in ("put_along", "add_along"):
            op = wg.scatter if name == "put_along" else wg.scatter_add
            return op(x, 1, wg.concat([where, where], axis=1), y[:, :2])
        if name == "put_slice":
            return wg.Tensor(x.node).at[2:5].set(1.0) if hasattr(x, "at") else _with_slice(x, y)
        op = wg.index_add if name == "scatter_add" else None
        return op(x, 0, wg.tensor([2, 5, 5]), y[:3]) if op else wg.index_put(x, (wg.tensor([2, 5]),), y[:2])

    return probe


def _with_slice(x: Any, y: Any) -> Any:
    from wengert.ops.addressing import put_slice

    return wg.Tensor(put_slice(x.node, y[:3, :2].node, (1, 4), (2, 3)))


def _gradients(result: Any, inputs: Any) -> list[Any]:
    found = reverse([result.node], [wg.cos(result).node], [x.node for x in inputs])
    return [wg.Tensor(node) for node in found if node is not None]


# --- the table ------------------------------------------------------------------------------------------------------


def _drop_one(graph: Graph) -> Graph:
    return Graph(graph.inputs, graph.outputs, nodes=graph.nodes[:-2] + graph.nodes[-1:])


def _fewer(operands: Any) -> Any:
    return m.stack(operands[::-1]) if any(o is not operands[0] for o in operands) else operands[0]


FAULTS = [
    # passes
    Fault("loop_dce: a carry is needed only where its result is",
          attribute(loop_motion, "_needed_carries", lambda loop, picked: {i for i in picked if i < len(loop.next)}),
          two_carries, "verify"),
    Fault("loop_invariants: what changes is taken for the same",
          around(loop_motion, "invariants", lambda found, nodes, fixed: found.union(nodes)), two_carries, "verify"),
    Fault("loop_inputs: products of other steps", attribute(loop_motion, "Stacked", OtherSteps), recurrent, "check"),
    Fault("loop_outputs: products of other steps", attribute(loop_motion, "Stacked", OtherSteps), recurrent, "check"),
    Fault("loop_fusion: what needs the first does not wait", around(loop_fusion, "depending", lambda found, nodes, on:
          set(on)), two_scans, "verify"),
    Fault("loop_sums: sums begin with 0", attribute(loop_sums, "is_zero", lambda node: True), recurrent, "check"),
    Fault("simplify: a minus is dropped", rule(e.negative, lambda n: n.sources[0]), negated, "check"),
    Fault("simplify: a sum takes one operand", rule(e.add, lambda n: n.sources[0]), negated, "check"),
    Fault("simplify: constants are not multiplied", rule(e.multiply, lambda n: n.sources[0]), constants, "check"),
    Fault("simplify: a transpose is dropped", rule(m.PERMUTE, lambda n: n.sources[0]), transposed, "check"),
    Fault("cse: attributes do not count", attribute(cleanup, "frozen_attributes", lambda attrs: None), several_sums,
          "check"),
    Fault("cse: x - y is y - x", attribute(cleanup, "COMMUTATIVE", {e.subtract}), differences, "check"),
    Fault("batch_matmul: products in another order", attribute(matmul, "_joined", _fewer), products, "check"),
    Fault("transpose_matmul: operands stay in their order", around(matmul, "_product_of_transposes", lambda nodes, _: [
          *nodes[:2], MATMUL(nodes[1], nodes[0])]), turned_product, "check"),
    Fault("layout: axes keep their names", axes_not_renamed, summed_channels, "check"),
    Fault("join_matmul: operands in another order", joined_in_another_order, summed_products, "check",
          (), Target(properties=H200)),
    Fault("align: padding counts", unmasked_padding, largest_of_products, "check"),
    Fault("attention_layout: others are read", other_heads, attended_heads, "check"),
    Fault("gemv_to_reduction: the sum is lost", around(matmul, "_rule", lambda found, node: found and
          m.reshape(node.sources[1], node.shape)), thin_product, "check"),
    Fault("fixed_order: the largest is the smallest", lambda patch: patch.setitem(FIXED, MAX, TREE_MIN),
          reduced("max"), "check", (), INVARIANT),
    Fault("factor: the factor is lost", around(reductions, "_factored", lambda found, node: found and found.sources[0]),
          scaled_by_sums, "check"),
    Fault("dce: a node too many goes", around(cleanup, "live", lambda g, _: _drop_one(g)), cond, "verify"),
    Fault("dce: other results are picked", around(cleanup, "with_attrs", lambda copy, node, attrs: type(copy)(
          copy.op, copy.sources, {"index": 0}, copy.shape, copy.dtype, copy.device, False, None)), cond, "check"),
    Fault("onehot: places are not counted", attribute(reductions, "iota", lambda n, dtype: m.broadcast_to(
          literal(0, dtype), (n,))), picked, "check"),
    Fault("inline: results in another order", around(cleanup, "_results", lambda nodes, _: nodes[::-1]),
          checkpointed, "check"),
    Fault("remat: computed again from something else", rematerialised_from(lambda x: e.negative(x)), late, "check"),
    Fault("remat: computed again from what is not there", rematerialised_from(lambda x: placeholder(
          x.shape, x.dtype)), late, "verify"),
    Fault("remat: the sign of what is no relu", relus_everywhere, cut_off, "check"),
    # fusion
    Fault("fuse: merged across a transpose", attribute(fuse._Fusion, "_reads_own_element", lambda *a: True),
          across_rows, "check"),
    Fault("fuse: merged around a product", attribute(fuse._Fusion, "_way_around", lambda *a: False),
          around_the_product, "build"),
    Fault("fuse: a value is not stored", around(fuse, "grouped", lambda found, *a: found.groups[0].stored.clear() or
          found), lambda x, y, row: wg.exp(wg.sum(x, axis=1)) @ y, "check"),
    Fault("schedule: the last comes first", around(groups, "ordered", lambda order, *a: order[::-1]), chain, "check"),
    # memory
    Fault("memory: values lie over each other", attribute(memory, "best_fit", overlapping), chain, "check"),
    Fault("memory: lives end too early", around(memory, "lives", lambda found, _: {
          v: Life(life.first, life.first) for v, life in found.items()}), chain, "check"),
    Fault("memory: an input is written over too early", donated_too_early,
          lambda x, y, row: (wg.cumsum(y, axis=0), wg.cumsum(x, axis=1) + y),
          "check", ((0, 0),)),
    # lowering
    Fault("lower: operands swapped", around(lower, "Let", swapped), pointwise, "check"),
    Fault("lower: all in one stage", attribute(lower._Lowering, "level", lambda *a: 0), softmax, "build"),
    Fault("lower: everything once a row", attribute(lower._Lowering, "_is_once", lambda self, n, p: bool(
          self.group.axes)), softmax, "build"),
    Fault("lower: kept rows at one place", attribute(lower._Lowering, "_row_position", lambda self: index.ZERO),
          softmax, "check"),
    # loops
    Fault("loops: carries do not take turns", attribute(plan_loops._Carries, "after", lambda self: None),
          called_loop, "check"),
    Fault("loops: a carry is not where its result belongs", attribute(plan_loops._Carries, "finish", lambda self: None),
          called_loop, "check"),
    Fault("loops: what a body returns as it is is not copied", attribute(plan_loops, "_copy", lambda *a: ";"),
          called_loop, "check"),
    Fault("loops: carries are assigned one after the other", attribute(elements.Straight, "assign", one_by_one),
          small_loop, "check"),
    Fault("loops: the steps run the other way", attribute(elements, "steps_text", lambda node, t, counter="long":
          f"for (long {t} = {node.attrs['steps'] - 1}; {t} >= 0; {t}--)"), small_loop, "check"),
    Fault("loops: a reduced axis is a lane", attribute(loop_lanes, "_join_reduced", lambda node, joined: None),
          lanes, "build"),
    Fault("loops: lanes lie at one place", attribute(loop_lanes.LaneAxes, "stride", lambda self, node: 0),
          lanes, "check"),
    Fault("loops: a slot keeps its lane", attribute(slots._Slots, "store", lambda self: self.page.line(
          "const long lane = now.lanes[0];") or self.keep(self.values[self.c :])), ended, "check"),
    Fault("loops: cotangents of lanes are not stored", attribute(slots._Backwards, "_store_mine", lambda self: None),
          ended, "check"),
    Fault("lower: literals are 1", around(lower, "literal", lambda made, value, dtype: ir_loops.literal(1, dtype)),
          pointwise, "check"),
    Fault("lower: positions start at 1", around(lower, "Position", lambda p, name, dtype, i: type(p)(
          name, dtype, index.add(i, index.number(1)))), counted, "check"),
    Fault("lower: one random number for all", attribute(lower._Lowering, "_random", one_number), drawn, "check"),
    Fault("lower: place: guards too wide", guards(lambda guard: replace(guard, high=guard.high + 1)), padded, "check"),
    Fault("lower: place: guards without step", guards(lambda guard: replace(guard, step=1)), spread, "check"),
    Fault("lower: permute_dims: reads its element", moved("permute_dims"), through(lambda x: x.T), "check"),
    Fault("lower: flip: reads its element", moved("flip"), through(wg.flip), "check"),
    Fault("lower: slice: begins at 0", moved("slice"), through(lambda x: x[2:8, 1:7]), "check"),
    Fault("lower: reshape: reads its element", moved("reshape"), through(lambda x: wg.reshape(x.T, (N // 2, 2, N))),
          "check"),
    Fault("lower: broadcast_to: along another axis", reversed_broadcast, broadcast_down, "check"),
    Fault("lower: permute_dims: inside a sum", moved("permute_dims"), in_a_sum(lambda x: x.T), "check"),
    Fault("lower: flip: inside a sum", moved("flip"), in_a_sum(lambda x: wg.flip(x, axis=0)), "check"),
    # the C
    Fault("c: a step of a loop is dropped", text(r"(for \(long i\w+ = 0; i\w+ < \d+)", r"\1 - 1"), pointwise, "check"),
    Fault("c: a step of a row is dropped", text(r"(for \(long i1 = 0; i1 < \d+)", r"\1 - 1"), softmax, "check"),
    Fault("c: sums begin at 1", lambda patch: patch.setitem(c.source.START, "sum", "1"), softmax, "check"),
    Fault("c: maxima begin at 0", around(c.source.Writer, "_start", lambda t, self, total: "0"), extreme, "check"),
    Fault("c: maxima are minima", around(c.source.Writer, "_combine", lambda t, *a: t.replace(">", "<")), extreme,
          "check"),
    Fault("c: maxima do not see NaN", text(r"= NAN", "= 0"), not_a_number, "check"),
    Fault("c: the first maximum is the last", text(r"(v\d+) > (\w+_best)", r"\1 >= 0 * \2"), position, "check"),
    Fault("c: loops merged that are not one", attribute(transforms, "_mergeable", lambda *a: True),
          through(lambda x: x.T), "check"),
    Fault("c: lanes at one column", text(r"= start \+ lane;", "= start;"), down_columns, "check"),
    Fault("c: a part of the columns' sums twice", text(r"= part \* \d+L; (i\w+) < stop", r"= 0; \1 < stop"),
          tall_columns, "check"),
    Fault("c: blocks of lanes at one place", text(r"long start = block \* \d+L;", "long start = 0;"), wide_columns,
          "check"),
    Fault("c: most parts are left out", text(r"part < 32;", "part < 3;"), large_total, "check"),
    Fault("c: half precision is cut off", attribute(c.source, "narrowed", lambda dtype, v: f"(uint16_t)({v})"
          if dtype in HALF else v), halves, "check"),
    *[Fault(f"c: {kind}: nothing is gathered", ungathered(kind), reduced(kind), "check") for kind in (
        "sum", "prod", "max", "min", "all", "any", "argmax", "argmin")],
    # kernels of their own
    Fault("opaque: transposes do not count", around(matmul_product, "untransposed", lambda found, x: (found[0], False)),
          transposed, "check"),
    Fault("opaque: batches start at the first", around(matmul_c, "_by_blas", lambda t, *a: re.sub(r"(\d+), (\d+)\);",
          "0, 0);", t)), lambda x, y, row: wg.reshape(x, (3, 4, N)) @ wg.reshape(wg.sin(y), (3, N, 4)), "check"),
    *[Fault(f"opaque: {name} gives zeros", call_is_zeros(name), probe, "check") for name, probe in (
        ("matmul", transposed), ("concat", lambda x, y, row: wg.concat([x, y])), ("convolve", convolved),
        ("convolve_input", convolved), ("convolve_weight", convolved), ("max_pool", pooled), ("sum_pool", pooled),
        ("cumsum", chain), ("cumprod", detached_products), ("attention", attended), ("attention_backward", attended),
        *((name, addressed(name)) for name in (
            "gather", "scatter", "scatter_add", "take_along", "put_along", "add_along", "put_slice")))],
    *[Fault(f"opaque: tree_{name} gives zeros", call_is_zeros(f"tree_{name}"), probe, "check", (), INVARIANT)
      for name, probe in (
        *((kind, reduced(kind)) for kind in ("sum", "prod", "max", "min")), ("matmul", transposed),
        ("convolve", convolved), ("convolve_input", convolved), ("convolve_weight", convolved),
        ("scatter_add", addressed("scatter_add")))],
]  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_fault_is_noticed(fault: Fault, monkeypatch: Patch) -> None:
    fault.breaks(monkeypatch)
    assert caught_by(fault) == fault.notices


PROBES = list(dict.fromkeys((fault.probe, fault.pairs, fault.target) for fault in FAULTS))


@pytest.mark.parametrize(
    "start", [pytest.param(i, marks=pytest.mark.slow) if i >= 24 else i for i in range(0, len(PROBES), 8)]
)
def test_without_a_fault_nothing_is_noticed(start: int) -> None:
    for probe, pairs, target in PROBES[start : start + 8]:
        assert caught_by(Fault("none", nothing, probe, "", pairs, target)) is None, probe


def test_every_pass_every_rule_of_lowering_and_every_kernel_of_its_own_has_a_fault() -> None:
    both = dict.fromkeys((*passes.PASSES, *passes.INVARIANT))
    wanted = [f"{one.__name__}: " for one in both if one is not contiguous.contiguous_collectives]  # see the next test
    wanted += [f"lower: {name}: " for name, op in registry.items() if op.kind == "movement"]
    wanted += [f"c: {kind}: " for kind, op in registry.items() if op.kind == "reduction"]
    wanted += [f"opaque: {op.name} gives zeros" for op in c_kernels()]
    assert [start for start in wanted if not any(fault.name.startswith(start) for fault in FAULTS)] == []


def test_a_fault_of_collectives_is_noticed(monkeypatch: Patch) -> None:
    """They need ranks, which lanes stand for where rules are proved."""
    target, rule = Target("cuda:0", H200, overlaps=True), ("contiguous_collectives", "")
    whole = contiguous._RULES[ALL_GATHER]
    monkeypatch.setitem(contiguous._RULES, ALL_GATHER, lambda n, t: (y := whole(n, t)) and m.flip(y, axis=1))
    assert "differ" in (prove(rule, target).problem or "")


def test_two_structures_taken_for_one_are_noticed(monkeypatch: Patch) -> None:
    """Programs that are right, run for another graph: only comparing with the interpreted values tells."""
    from wengert.runtime.dynamic import tiers

    monkeypatch.setattr(canonical, "frozen_attributes", lambda attrs, depth=0, without="": ())
    monkeypatch.setattr(tiers, "structures", type(tiers.structures)())
    wg.synchronize()  # what earlier tests left pending would be part of the first structure
    wg.config.tier = "compile"
    try:
        x = wg.tensor([1.0, 2.0, 3.0])
        doubled, trebled = (x * 2).tolist(), (x * 3).tolist()
        assert doubled == [2.0, 4.0, 6.0] and trebled != [3.0, 6.0, 9.0]
    finally:
        wg.config.tier = "auto"
