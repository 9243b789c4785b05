"""Every rule of `simplify` by name: the graph after it, and values equal to the reference's, bit for bit or as said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.autodiff.custom import custom_vjp
from wengert.compiler.cleanup import dce
from wengert.compiler.passes import verify
from wengert.compiler.simplify import simplify
from wengert.core.graph import Graph, Node, now
from wengert.ops import elementwise as e
from wengert.ops import movement as m
from wengert.ops import reduce as r
from wengert.ops.core import cast, data, literal, placeholder, stop_gradient, variable
from wengert.ops.op import PACK

F32, F64, I32, B = wg.float32, wg.float64, wg.int32, wg.dtypes.bool_

NASTY = np.array([0.0, -0.0, 1.5, -2.5, np.inf, -np.inf, np.nan, 1e-40, 3e38, -1.0, 7.0, 1e-3])


def values(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    """Values of a dtype that try a rule's exactness: signed zeros, infinities, NaN, subnormal and huge numbers."""
    rng = np.random.default_rng(seed)
    size = int(np.prod(shape))
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        return rng.integers(-100, 100, shape).astype(dtype)
    with np.errstate(all="ignore"):
        return np.resize(rng.permutation(NASTY), size).reshape(shape).astype(dtype)


def simplified(
    function: Callable[..., Any], *shapes: tuple[int, ...], dtypes: Any = None, exact: bool = True, arrays: Any = None
) -> str:
    """The ops that `simplify` leaves of a function, as text; the values are compared on the way."""
    since = now()
    types = dtypes if dtypes is not None else [F32] * len(shapes)
    inputs = [placeholder(shape, dtype) for shape, dtype in zip(shapes, types)]
    result = function(*inputs)
    graph = Graph(inputs, list(result) if isinstance(result, (list, tuple)) else [result], since)
    after = dce(verify(simplify(graph), "simplify", graph))
    if arrays is None:
        arrays = [values(x.shape, x.dtype, i) for i, x in enumerate(inputs)]
    with np.errstate(all="ignore"):
        for found, expected in zip(after(*arrays), graph(*arrays), strict=True):
            assert found.dtype == expected.dtype and found.shape == expected.shape
            if exact:
                nan = np.isnan(expected) if expected.dtype.kind == "f" else np.zeros(expected.shape, bool)
                assert found[~nan].tobytes() == expected[~nan].tobytes() and np.isnan(found[nan]).all()
            else:
                np.testing.assert_allclose(found, expected, rtol=1e-6)
    return " ".join(_shown(node) for node in after.nodes if node.op.name != "literal")


def _shown(node: Node) -> str:
    numbers = [repr(s.attrs["value"]) for s in node.sources if s.op.name == "literal"]
    return node.op.name + (f"({', '.join(numbers)})" if numbers else "")


RULES: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]], Any, str]] = {
    # --- plus and minus ---
    "x + -0.0": (lambda x: x + -0.0, [(12,)], None, ""),
    "x + 0.0 stays": (lambda x: x + 0.0, [(12,)], None, "add(0.0)"),
    "x + 0": (lambda x: x + 0, [(12,)], [I32], ""),
    "0 + x": (lambda x: 0 + x, [(12,)], [I32], ""),
    "exp(x) + 0.0": (lambda x: e.exp(x) + 0.0, [(12,)], None, "exp"),
    "x + 0.0 + 0.0": (lambda x: x + 0.0 + 0.0, [(12,)], None, "add(0.0)"),
    "x - 0.0": (lambda x: x - 0.0, [(12,)], None, ""),
    "x - -0.0 stays": (lambda x: x - -0.0, [(12,)], None, "subtract(-0.0)"),
    "0.0 - x stays": (lambda x: 0.0 - x, [(12,)], None, "subtract(0.0)"),
    "a + -b": (lambda a, b: a + -b, [(12,), (12,)], None, "subtract"),
    "-a + b": (lambda a, b: -a + b, [(12,), (12,)], None, "subtract"),
    "a - -b": (lambda a, b: a - -b, [(12,), (12,)], None, "add"),
    "-(-x)": (lambda x: e.negative(-x), [(12,)], None, ""),
    "-(x * 3)": (lambda x: -(x * 3.0), [(12,)], None, "multiply(-3.0)"),
    # --- times and over ---
    "x * 1": (lambda x: x * 1.0, [(12,)], None, ""),
    "1 * x": (lambda x: 1 * x, [(12,)], [I32], ""),
    "x * -1": (lambda x: x * -1.0, [(12,)], None, "negative"),
    "x * 0 stays": (lambda x: x * 0.0, [(12,)], None, "multiply(0.0)"),
    "-a * -b": (lambda a, b: -a * -b, [(12,), (12,)], None, "multiply"),
    "x * x": (lambda x: x * x, [(12,)], None, "square"),
    "x / 1": (lambda x: x / 1.0, [(12,)], None, ""),
    "x / -1": (lambda x: x / -1.0, [(12,)], None, "negative"),
    "x / 8": (lambda x: x / 8.0, [(12,)], None, "multiply(0.125)"),
    "x / -0.5": (lambda x: x / -0.5, [(12,)], None, "multiply(-2.0)"),
    "x / 8 in half precision": (lambda x: x / 8.0, [(12,)], [wg.float16], "multiply(0.125)"),
    "x / 3 stays": (lambda x: x / 3.0, [(12,)], None, "divide(3.0)"),
    "x / 0 stays": (lambda x: x / 0.0, [(12,)], None, "divide(0.0)"),
    "x / 2**120 stays": (lambda x: x / 2.0**120, [(12,)], None, f"divide({2.0**120!r})"),
    "1 * x broadcast": (lambda x: x * m.broadcast_to(literal(1.0, F32), (2, 3)), [(3,)], None, "broadcast_to"),
    "complex x * 1 stays": (lambda x: x * 1.0, [(12,)], [wg.complex64], "multiply(1.0)"),
    # --- powers, squares ---
    "x ** 0": (lambda x: e.power(x, 0.0), [(12,)], None, "broadcast_to(1)"),
    "x ** 1": (lambda x: e.power(x, 1.0), [(12,)], None, ""),
    "x ** 2": (lambda x: e.power(x, 2.0), [(12,)], None, "square"),
    "n ** 3": (lambda x: e.power(x, 3), [(12,)], [I32], "square multiply"),
    "x ** 3 in half precision stays": (lambda x: e.power(x, 3.0), [(12,)], [wg.float16], "pow(3.0)"),
    "x ** 2.5 stays": (lambda x: e.power(x, 2.5), [(12,)], None, "pow(2.5)"),
    "square(-x)": (lambda x: e.square(-x), [(12,)], None, "square"),
    "square(abs(x))": (lambda x: e.square(e.absolute(x)), [(12,)], None, "square"),
    "abs(-x)": (lambda x: e.absolute(-x), [(12,)], None, "abs"),
    # --- the same value ---
    "+x": (lambda x: e.positive(x), [(12,)], None, ""),
    "variable": (lambda x: variable(x) + x, [(12,)], None, "add"),
    "stop_gradient": (lambda x: e.exp(stop_gradient(x)), [(12,)], None, "exp"),
    "real of a real": (lambda x: e.real(x), [(12,)], None, ""),
    "conj of a real": (lambda x: e.conj(x), [(12,)], None, ""),
    "maximum(x, x)": (lambda x: e.maximum(x, x), [(12,)], None, ""),
    "minimum(x, x)": (lambda x: e.minimum(x, x), [(12,)], None, ""),
    "x | x": (lambda x: e.bitwise_or(x, x), [(12,)], [I32], ""),
    # --- choices and logic ---
    "where(true)": (lambda a, b: e.where(True, a, b), [(12,), (12,)], None, ""),
    "where(false)": (lambda a, b: e.where(False, a, b), [(12,), (1,)], None, "broadcast_to"),
    "where(c, a, a)": (lambda c, a: e.where(c, a, a), [(12,), (12,)], [B, F32], ""),
    "where(not c)": (lambda c, a, b: e.where(e.logical_not(c), a, b), [(12,)] * 3, [B, F32, F32], "where"),
    "where in where": (lambda c, a, b: e.where(c, e.where(c, a, b), b + b), [(12,)] * 3, [B, F32, F32], "add where"),
    "where in else": (lambda c, a, b: e.where(c, a, e.where(c, b, -b)), [(12,)] * 3, [B, F32, F32], "negative where"),
    "not not c": (lambda c: e.logical_not(e.logical_not(c)), [(12,)], [B], ""),
    "c and True": (lambda c: e.logical_and(c, literal(True, B)), [(12,)], [B], ""),
    "c and False": (lambda c: e.logical_and(c, literal(False, B)), [(12,)], [B], "broadcast_to(False)"),
    "c or True": (lambda c: e.logical_or(literal(True, B), c), [(12,)], [B], "broadcast_to(True)"),
    "c or c": (lambda c: e.logical_or(c, c), [(12,)], [B], ""),
    "2.0 and 3.0 is a truth": (lambda x: e.logical_and(x, x), [(12,)], [F32], "logical_and"),
    # --- casts ---
    "wider and back": (lambda x: cast(cast(x, F64), F32), [(12,)], None, ""),
    "half, wider, half": (lambda x: cast(cast(x, F32), wg.float16), [(12,)], [wg.float16], ""),
    "narrower and back stays": (lambda x: cast(cast(x, wg.bfloat16), F32), [(12,)], None, "cast cast"),
    "bool, float, bool": (lambda x: cast(cast(x, F32), B), [(12,)], [B], ""),
    "int32, float64, int32": (lambda x: cast(cast(x, F64), I32), [(12,)], [I32], ""),
    "int8, bfloat16, uint16 stays": (lambda x: cast(cast(x, wg.bfloat16), wg.uint16), [(12,)], [wg.int8], "cast cast"),
    "int32, float64, int64": (lambda x: cast(cast(x, F64), wg.int64), [(12,)], [I32], "cast"),
    "int32, float32 stays": (lambda x: cast(cast(x, F32), I32), [(12,)], [I32], "cast cast"),
    "int32, int8, int32 stays": (lambda x: cast(cast(x, wg.int8), I32), [(12,)], [I32], "cast cast"),
    "int32, uint32, int32 stays": (lambda x: cast(cast(x, wg.uint32), I32), [(12,)], [I32], "cast cast"),
    "wider to wider": (lambda x: cast(cast(x, F32), F64), [(12,)], [wg.float16], "cast"),
    "float to integer by float stays": (lambda x: cast(cast(x, F64), wg.int64), [(3,)], [F32], "cast cast"),
    # --- constants ---
    "number op number": (lambda x: x * (literal(2.0, F32) + 1.5), [(12,)], None, "multiply(3.5)"),
    "full op full": (lambda x: x + (wgfull(2.0) + wgfull(3.0)), [(2, 3)], None, "add(5.0)"),
    "compare numbers": (lambda x: e.where(e.less(literal(1, I32), 2), x, -x), [(12,)], None, ""),
    "cast of a number": (lambda x: x * cast(literal(3, I32), F32), [(12,)], None, "multiply(3.0)"),
    "reshape of a full": (lambda x: x + m.reshape(wgfull(2.0), (6,)), [(6,)], None, "add(2.0)"),
    "sum of a full": (lambda x: x * r.sum(wgfull(2.0)), [(6,)], None, "multiply(12.0)"),
    "place of a number stays small": (
        lambda x: x + m.place(wgfull(1.0), (4, 3), (1, 0), (1, 1)),
        [(4, 3)],
        None,
        "add",
    ),
    "array op array": (lambda x: x * (data(np.float32([1, 2, 3])) + 1.0), [(3,)], None, "multiply"),
    "array op large array stays": (lambda x: x + (data(np.ones(5000, "f")) + 1.0), [(5000,)], None, "add(1.0) add"),
    "0-d array": (lambda x: x * data(np.array(3, "f")), [(12,)], None, "multiply(3.0)"),
    "a ramp stays": (lambda x: x + wg.arange(12, dtype=F32).node * 2.0, [(12,)], None, "iota multiply(2.0) add"),
    # --- movement ---
    "reshape of reshape": (lambda x: m.reshape(m.reshape(x, (3, 4)), (2, 6)), [(12,)], None, "reshape"),
    "reshape and back": (lambda x: m.reshape(m.reshape(x, (3, 4)), (12,)), [(12,)], None, ""),
    "transposed twice": (lambda x: m.matrix_transpose(m.matrix_transpose(x)), [(3, 4)], None, ""),
    "permuted twice": (
        lambda x: m.permute_dims(m.permute_dims(x, (1, 2, 0)), (0, 2, 1)),
        [(2, 3, 4)],
        None,
        "permute_dims",
    ),
    "permutation of size 1": (lambda x: m.matrix_transpose(x), [(1, 12)], None, "reshape"),
    "broadcast of broadcast": (
        lambda x: m.broadcast_to(m.broadcast_to(x, (4, 3)), (2, 4, 3)),
        [(3,)],
        None,
        "broadcast_to",
    ),
    "broadcast that adds axes": (lambda x: m.broadcast_to(x, (1, 1, 12)), [(12,)], None, "reshape"),
    "broadcast after expand_dims": (
        lambda x: m.broadcast_to(m.reshape(x, (1, 3)), (4, 3)),
        [(3,)],
        None,
        "broadcast_to",
    ),
    "broadcast beside a whole": (lambda x, y: x + m.broadcast_to(y, (4, 3)), [(4, 3), (3,)], None, "add"),
    "broadcast beside a part stays": (
        lambda x, y: x + m.broadcast_to(y, (4, 3)),
        [(3,), (3,)],
        None,
        "broadcast_to add",
    ),
    "slice of slice": (lambda x: x_slice(x_slice(x, 1, 12, 2), 1, 6, 2), [(12,)], None, "slice"),
    "slice of all": (lambda x: m.SLICE(x, starts=(0,), steps=(1,), sizes=(12,)), [(12,)], None, ""),
    "slice of place": (lambda x: m.take_slice(m.place(x, (9,), (2,), (2,)), (2,), (2,), (3,)), [(3,)], None, ""),
    "slice of place by other steps stays": (
        lambda x: m.take_slice(m.place(x, (9,), (2,), (2,)), (2,), (1,), (3,)),
        [(3,)],
        None,
        "place slice",
    ),
    "place of place": (lambda x: m.place(m.place(x, (8,), (1,), (2,)), (20,), (2,), (2,)), [(3,)], None, "place"),
    "flip twice": (lambda x: m.flip(m.flip(x)), [(3, 4)], None, ""),
    "flip of flip": (lambda x: m.flip(m.flip(x, axis=0), axis=1), [(3, 4)], None, "flip"),
    "flip of size 1": (lambda x: m.flip(x, axis=0), [(1, 12)], None, ""),
    "parts joined": (lambda x: m.concat([x_slice(x, 0, 5), x_slice(x, 5, 12)]), [(12,)], None, ""),
    "some parts joined": (lambda x: m.concat([x_slice(x, 2, 5), x_slice(x, 5, 9)]), [(12,)], None, "slice"),
    "parts exchanged stay": (
        lambda x: m.concat([x_slice(x, 5, 12), x_slice(x, 0, 5)]),
        [(12,)],
        None,
        "slice slice concat",
    ),
    "nothing joined": (lambda x: m.concat([x, x_slice(x, 0, 0)]), [(12,)], None, ""),
    # --- reductions ---
    "reduction, axes back": (
        lambda x: m.reshape(r.max(x, axis=1), (4, 1, 3)),
        [(4, 2, 3)],
        None,
        "max",
    ),
    "reduction, axes gone": (
        lambda x: m.reshape(r.max(x, axis=1, keepdims=True), (4, 3)),
        [(4, 2, 3)],
        None,
        "max",
    ),
    "reduction, other axes": (
        lambda x: m.reshape(r.max(x, axis=1), (3, 4)),
        [(4, 2, 3)],
        None,
        "max reshape",
    ),
    "safe_multiply of 0": (lambda x: e.safe_multiply(literal(0.0, F32), x), [(12,)], None, "broadcast_to(0)"),
    "max of size 1": (lambda x: r.MAX(x, axes=(0,), keepdims=False), [(1, 12)], None, "reshape"),
    "any of size 1": (lambda x: r.ANY(x, axes=(0,), keepdims=True), [(1, 12)], [F32], "cast"),
    "sum of nothing": (lambda x: r.sum(x, axis=0), [(0, 3)], None, "broadcast_to(0)"),
    "sum over no axes": (lambda x: r.SUM(x, axes=(), keepdims=False), [(12,)], [I32], ""),
    "max of max": (lambda x: r.max(r.max(x, axis=1), axis=1), [(2, 3, 2)], None, "max"),
    "max of broadcast": (lambda x: r.max(m.broadcast_to(x, (4, 12)), axis=0), [(12,)], None, ""),
    "sum of broadcast, integers": (
        lambda x: r.sum(m.broadcast_to(x, (5, 12)), axis=0),
        [(12,)],
        [wg.int64],
        "multiply(5)",
    ),
    "sum of broadcast and more": (
        lambda x: r.sum(m.broadcast_to(x, (2, 4, 3))),
        [(4, 1)],
        [wg.int64],
        "sum multiply(6) reshape",
    ),
    "sum of what stays broadcast": (
        lambda x: r.sum(m.broadcast_to(x, (2, 4, 3)), axis=0),
        [(4, 1)],
        [wg.int64],
        "multiply(2) broadcast_to",
    ),
    # --- several results ---
    "pick of pack": (lambda a, b: pick_again(PACK(a, b), 1), [(3,), (4,)], None, ""),
}


def wgfull(value: float) -> Node:
    return m.broadcast_to(literal(value, F32), (2, 3))


def x_slice(x: Node, start: int, stop: int, step: int = 1) -> Node:
    return m.slice_axis(x, 0, start, stop, step)


def pick_again(node: Node, index: int) -> Node:
    from wengert.ops.op import PICK

    return PICK(node, index=index)


@pytest.mark.parametrize("name", RULES)
def test_rule(name):
    function, shapes, dtypes, expected = RULES[name]
    with np.errstate(all="ignore"):
        assert simplified(function, *shapes, dtypes=dtypes) == expected


ROUNDED: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]], str]] = {
    "x ** 3": (lambda x: e.power(x, 3.0), [(12,)], "square multiply"),
    "x ** 4": (lambda x: e.power(x, 4.0), [(12,)], "square square"),
    "x ** -1": (lambda x: e.power(x, -1.0), [(12,)], "reciprocal"),
    "sum of broadcast": (lambda x: r.sum(m.broadcast_to(x, (7, 12)), axis=0), [(12,)], "multiply(7)"),
    "sum of sum": (lambda x: r.sum(r.sum(x, axis=2), axis=0), [(3, 4, 5)], "sum"),
    "sum of sum, one kept": (lambda x: r.sum(r.sum(x, axis=2, keepdims=True), axis=0), [(3, 4, 5)], "sum reshape"),
    "sum of size 1": (lambda x: r.sum(x, axis=0), [(1, 12)], "reshape"),
    "safe_multiply by a number": (lambda x: e.safe_multiply(x, 3.0), [(12,)], "multiply(3.0)"),
    "safe_multiply of a number": (
        lambda x: e.safe_multiply(literal(2.0, F32), e.exp(x)),
        [(12,)],
        "exp multiply(2.0)",
    ),
    "sum of -x": (lambda x: r.sum(-x, axis=0), [(3, 4)], "sum negative"),
    "safe_multiply by 1": (lambda x: e.safe_multiply(x, 1.0), [(12,)], ""),
    "safe_multiply by a choice": (
        lambda x: e.safe_multiply(x, e.where(e.greater(x, 0), 1.0, 0.5)),
        [(12,)],
        "greater(0) where(1.0, 0.5) multiply",
    ),
    "safe_multiply by a truth": (
        lambda x: e.safe_multiply(x, cast(e.greater(x, 0), F32)),
        [(12,)],
        "greater(0) cast multiply",
    ),
    "safe_multiply by infinity stays": (
        lambda x: e.safe_multiply(x, float("inf")),
        [(12,)],
        "safe_multiply(inf)",
    ),
    "safe_multiply by anything stays": (
        lambda x: e.safe_multiply(x, e.exp(x)),
        [(12,)],
        "exp safe_multiply",
    ),
}


@pytest.mark.parametrize("name", ROUNDED)
def test_rule_that_may_round_otherwise(name):
    function, shapes, expected = ROUNDED[name]
    arrays = [np.random.default_rng(1).uniform(0.5, 2, shape).astype("f") for shape in shapes]
    assert simplified(function, *shapes, exact=False, arrays=arrays) == expected


def test_a_sum_of_more_repeats_than_half_precision_counts_stays():
    with np.errstate(all="ignore"):
        assert "sum" in simplified(lambda x: r.sum(m.broadcast_to(x, (2049, 2)), axis=0), (2,), dtypes=[wg.float16])


def test_custom_derivatives_leave_only_their_results():
    clipped = custom_vjp(lambda x: wg.sin(x))
    clipped.defvjp(lambda x: (wg.sin(x), wg.cos(x)), lambda needed, g: (g * needed,))
    assert simplified(lambda x: clipped(wg.Tensor(x)).node, (12,)) == "sin"


def test_what_is_an_input_is_no_constant_and_not_looked_into():
    """A slot's value may be a literal, a broadcast or any op; as an input it is a value like any other."""
    ones = m.broadcast_to(literal(1.0, F32), (3,))
    flipped = m.flip(placeholder((3,), F32))
    scalar = literal(2.0, F32)
    array = data(np.float32([1, 2, 3]))
    inputs = [ones, flipped, scalar, array]
    graph = Graph(inputs, [flipped * ones, m.flip(flipped), ones * scalar, array + array], since=now() - 6)
    graph = Graph(inputs, graph.outputs, nodes=list(graph.outputs))
    after = simplify(graph)
    assert [node.op.name for node in after.nodes] == ["multiply", "flip", "multiply", "add"]
    x = [np.float32([2, 3, 4]), np.float32([5, 6, 7]), np.float32(3), np.float32([1, 1, 1])]
    for found, expected in zip(after(*x), graph(*x), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_a_computed_value_from_outside_is_not_looked_into():
    """It has let go of what it was made from."""
    x = wg.tensor(np.float32([1.0, 2.0])).reshape(2, 1)
    x.numpy()
    assert x.node.sources == ()
    y = m.reshape(x.node, (1, 2))
    after = simplify(Graph([], [y], since=y.serial))
    assert [node.op.name for node in after.nodes] == ["reshape"]
    np.testing.assert_array_equal(after()[0], [[1.0, 2.0]])


def test_rewritten_nodes_keep_their_lines_and_tracking():
    x = placeholder((3,), F32)
    y = e.exp(x * 1.0)  # the user's line
    after = simplify(Graph([x], [y]))
    assert after.outputs[0] is not y and after.outputs[0].sources == (x,)
    assert after.outputs[0].location == y.location and after.outputs[0].tracked


def test_a_graph_with_nothing_to_do_is_returned_itself():
    x = placeholder((3,), F32)
    graph = Graph([x], [e.exp(x)])
    assert simplify(graph) is graph


def test_the_negative_of_an_unsigned_number_has_no_sign_to_drop() -> None:
    x = wg.tensor(np.array([0, 1, 200], np.uint8))
    assert wg.compile(lambda x: wg.abs(-x))(x).tolist() == [0, 255, 56]
