"""Steps that multiply matrices: products, contractions, convolution, pooling, attention, linear algebra."""

from __future__ import annotations

from typing import Any

from tests.compiler.random_graphs import Untame
from tests.programs.step import Step


def _of_rank(b: Any, x_from: Any, rank: int) -> Any:
    """A value of at least this rank."""
    found = [n for n in b.pool if n.dtype in x_from and n.ndim >= rank and n.size]
    if not found:
        raise Untame
    return b.written(b.choice(found))


def _matrix(b: Any) -> Any:
    return _of_rank(b, b.mode.inexact, 2)


def _matmul(b: Any) -> str:
    x = _matrix(b)
    same = [n for n in b.pool if n.dtype is x.dtype]
    fitting = [n for n in same if (n.ndim >= 2 and n.shape[-2] == x.shape[-1]) or n.shape == x.shape[-1:]]
    kind = b.rng.integers(4)
    if kind == 0 or not fitting:
        y: Any = b.constant_like((x.shape[-1], b.choice([1, 2, 5, 8, 17])), x.dtype)
        return f"{x} @ {y} * 0.3"
    if kind == 1:
        return f"0.2 * ({x} @ {x}.mT)"
    return f"{b.choice(['', '0.5 * '])}wg.matmul({x}, {b.written(b.choice(fitting))})"


def _vector(b: Any) -> str:
    x = _of_rank(b, b.mode.inexact, 1)
    y = b.constant_like(x.shape[-1:], x.dtype)
    if x.ndim == 1:
        return b.choice([f"wg.outer({x}, {y})", f"wg.inner({x}, {y})", f"{y} @ {x}", f"wg.kron({x}, {y})"])
    return b.choice([f"{x} @ {y}", f"wg.vecdot({x}, {x} * 0.5)", f"wg.tensordot({x}, {y}, 1)"])


def _einsum(b: Any) -> str:
    x = _matrix(b)
    if x.ndim == 2:
        texts = [f"'ij,kj->ik', {x}, {x}", f"'ij->j', {x}", f"'ij,j->i', {x}, {b.constant_like(x.shape[1:], x.dtype)}"]
        texts += [f"'ij,ij->', {x}, {x}", f"'ij->ji', {x}", f"'ij,kl->ik', {x}, {x}"]
    else:
        texts = [f"'...ij,...ij->...i', {x}, {x}", f"'...ij->...', {x}", f"'...ij,...kj->...ik', {x}, {x}"]
    return f"0.3 * wg.einsum({b.choice(texts)})"


def _linear(b: Any) -> str:
    x = _matrix(b)
    n = b.choice([1, 3, 4, 9])
    weight, bias = b.constant_like((n, x.shape[-1]), x.dtype), b.constant_like((n,), x.dtype)
    return f"wg.linear({x}, {weight} * 0.5, {bias})" if b.chance(0.6) else f"wg.linear({x}, {weight} * 0.5)"


def _addmm(b: Any) -> str:
    x = _of_rank(b, b.mode.floats, 2)
    if x.ndim != 2:
        raise Untame
    y = b.constant_like((x.shape[1], 3), x.dtype)
    return f"wg.addmm({b.constant_like((3,), x.dtype)}, {x}, {y}, beta=0.5, alpha=0.25)"


def _images(b: Any, rank: int) -> Any:
    """A value as a batch of rows or images with channels."""
    x = _of_rank(b, b.mode.floats, 1)
    shape = (1,) * (rank - x.ndim) + x.shape[max(x.ndim - rank, 0) :]
    at = ", ".join(["0"] * max(x.ndim - rank, 0))
    text = f"{x}[{at}]" if at else f"{x}"
    return b.choice([f"wg.reshape({text}, {shape})"]), shape, x.dtype


def _conv(b: Any) -> str:
    rank = b.choice([3, 4])
    x, shape, dtype = _images(b, rank)
    groups = shape[1] if b.chance(0.3) and shape[1] <= 8 else 1
    kernel = tuple(int(b.rng.integers(1, min(n, 3) + 1)) for n in shape[2:])
    filters = groups * b.choice([1, 2, 3])
    weight = b.constant_like((filters, shape[1] // groups, *kernel), dtype)
    bias = b.constant_like((filters,), dtype) if b.chance(0.4) else "None"
    options = f"stride={b.choice([1, 1, 2])}, padding={b.choice([0, 1])}, groups={groups}"
    return f"wg.conv{rank - 2}d({x}, {weight} * 0.3, {bias}, {options})"


def _conv_transpose(b: Any) -> str:
    rank = b.choice([3, 4])
    x, shape, dtype = _images(b, rank)
    kernel = tuple(int(b.rng.integers(1, 4)) for _ in shape[2:])
    weight = b.constant_like((shape[1], b.choice([1, 2]), *kernel), dtype)
    return f"wg.conv_transpose{rank - 2}d({x}, {weight} * 0.3, stride={b.choice([1, 2])})"


def _pool(b: Any) -> str:
    rank = b.choice([3, 4])
    x, shape, _ = _images(b, rank)
    n = b.choice([1, 2, 2, 3])
    if min(shape[2:]) < n:
        raise Untame
    stride = b.choice(["", "", ", stride=1", ", stride=2"])
    return f"wg.{b.choice(['max', 'avg'] if not b.portable else ['avg'])}_pool{rank - 2}d({x}, {n}{stride})"


def _unfold(b: Any) -> str:
    x, shape, _ = _images(b, 4)
    return f"wg.unfold({x}, {b.choice([1, 2])}, padding=1)" if min(shape[2:]) > 1 else f"wg.unfold({x}, 1)"


def _interpolate(b: Any) -> str:
    x, _, _ = _images(b, 4)
    return f"wg.interpolate({x}, {(b.choice([1, 2, 5]), b.choice([3, 4]))}, mode='{b.choice(['nearest', 'bilinear'])}')"


def _attention(b: Any) -> str:
    x = _of_rank(b, b.mode.floats, 2)
    shape = (*x.shape[:-2], b.choice([1, 3, 5]), x.shape[-1])
    key = b.constant_like(shape, x.dtype)
    if b.chance(0.4):
        return f"wg.scaled_dot_product_attention({x}, {x}, {x}, is_causal={b.chance(0.5)})"
    return f"wg.scaled_dot_product_attention({x}, {key}, {key} * 0.5)"


def _embedding(b: Any) -> str:
    x = _of_rank(b, b.mode.floats, 2)
    if x.ndim != 2:
        raise Untame
    return f"wg.embedding({b.places(b.choice([(3,), (2, 4), ()]), x.shape[0])}, {x})"


def _square(b: Any) -> str:
    """Linear algebra of a well-conditioned matrix."""
    x = _matrix(b)
    n = min(x.shape[-1], x.shape[-2], 8)
    import numpy as np

    eye = b.constant_of(np.eye(n).astype(x.dtype))
    a = f"({x}[..., :{n}, :{n}] * 0.1 + {eye} * 2)"
    right = b.constant_like((n, 2), x.dtype)
    texts = [f"wg.linalg.inv({a})", f"wg.linalg.solve({a}, {right})", f"wg.linalg.det({a} * 0.5)"]
    return b.choice([*texts, f"wg.linalg.matrix_power({a} * 0.4, 3)", f"wg.linalg.cholesky({a} @ wg.conj({a}).mT)"])


INEXACT = (
    Step(_matmul, 5),
    Step(_vector, 2),
    Step(_einsum, 2),
    Step(_linear, 2),
    Step(_square),
)
REAL = (
    Step(_addmm),
    Step(_conv, 3),
    Step(_conv_transpose),
    Step(_pool, 2),
    Step(_unfold),
    Step(_interpolate),
    Step(_attention, 2),
    Step(_embedding),
)
