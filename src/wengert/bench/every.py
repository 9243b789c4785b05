"""Every other op over three sizes: one call on arrays of this many elements, as rows, images or small matrices.

Ops of one kind take the same arrays. Numbers are between 0.1 and 0.9, where nearly all of them are defined.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any

import numpy as np

import wengert as wg
from wengert.api.functions import __all__ as PUBLIC
from wengert.bench.cases import Array, BenchOp, places
from wengert.ops.op import registry
from wengert.ops.recorders import Elementwise

FAMILY = "every"
SIZES = (1 << 12, 1 << 18, 1 << 24)
Function = Callable[..., Any]
Arrays = Callable[[int], list[Array]]


@functools.lru_cache(8)
def within(*shape: int, seed: int = 0) -> Array:
    """Random numbers between 0.1 and 0.9."""
    return np.random.default_rng(seed).random(shape, np.float32) * np.float32(0.8) + np.float32(0.1)


def flat(count: int) -> Arrays:
    """So many arrays of one axis."""
    return lambda n: [within(n, seed=i) for i in range(count)]


def rows(count: int, indices: int = 0, whole: int = 0) -> Arrays:
    """Arrays of rows of 1024: of numbers, of places in a row, and of one place for a row."""

    def make(n: int) -> list[Array]:
        floats = [within(n >> 10, 1024, seed=i) for i in range(count)]
        return [*floats, *[places(1024, n >> 10, 1024)] * indices, *[places(1024, n >> 10)] * whole]

    return make


def images(*others: tuple[int, ...]) -> Arrays:
    """Images of 16 channels, 16 x 16, and arrays of other shapes."""
    return lambda n: [within(n >> 12, 16, 16, 16), *(within(*shape, seed=1) for shape in others)]


def matrices(count: int) -> Arrays:
    """So many stacks of 32 x 32 matrices, symmetric and far from singular."""

    def make(n: int) -> list[Array]:
        found = [within(n >> 10, 32, 32, seed=i) for i in range(count)]
        return [x + x.swapaxes(1, 2) + 64 * np.eye(32, dtype=np.float32) for x in found]

    return make


def square(count: int) -> Arrays:
    """So many square matrices."""
    return lambda n: [within(round(n**0.5), round(n**0.5), seed=i) for i in range(count)]


def whole(count: int) -> Arrays:
    """So many arrays of whole numbers below 31."""
    return lambda n: [places(31, n) for _ in range(count)]


def by_name(names: str) -> dict[str, Function]:
    """Public functions that are called with nothing but arrays."""
    return {name: attrgetter(name)(wg) for name in names.split()}


def ops(arrays: Arrays, functions: Mapping[str, Function], derivative: bool = True) -> list[BenchOp]:
    """Ops of one kind; of several results the first counts."""

    def making(function: Function) -> Callable[[int], tuple[Function, list[Array]]]:
        def first(*given: Any) -> Any:
            found = function(*given)
            return found[0] if isinstance(found, tuple) else found

        return lambda n: (first, arrays(n))

    return [
        BenchOp(name, FAMILY, "elements", SIZES, making(function), has_derivative=derivative, weight=0.1, longest=0.1)
        for name, function in functions.items()
    ]


def elementwise(operands: int, but: str) -> str:
    """The public elementwise ops of this many operands that have a derivative, but for some."""
    found = [op for op in registry.values() if isinstance(op, Elementwise) and op.operands == operands]
    wanted = {op.name for op in found if op.differentiable and op.name in PUBLIC}
    return " ".join(sorted(wanted - set(but.split())))


UNARY = elementwise(1, but="acosh ceil conj floor positive real round trunc")
UNARY += """ celu elu gelu hardsigmoid hardswish hardtanh leaky_relu logsigmoid mean mish prod relu relu6 selu silu
    softplus softsign tanhshrink
"""
BINARY = elementwise(2, but="copysign floor_divide nextafter")
BINARY += """ binary_cross_entropy binary_cross_entropy_with_logits huber_loss kl_div l1_loss mse_loss poisson_nll_loss
    smooth_l1_loss
"""
TESTS = "argmax ceil floor isfinite isinf isnan logical_not round signbit trunc"
COMPARISONS = """
    copysign equal greater greater_equal less less_equal logical_and logical_or logical_xor nextafter not_equal
"""
BITS = "bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor floor_divide"
ROWS = "cummax cummin cumprod diff flatten glu logcumsumexp normalize rot90"
FACTORED = """
    linalg.det linalg.eigh linalg.eigvalsh linalg.inv linalg.matrix_norm linalg.pinv linalg.qr linalg.svdvals
"""

EVERY = (
    *ops(flat(1), by_name(UNARY)),
    *ops(
        flat(1),
        {
            "acosh": lambda x: wg.acosh(x + 1),
            "clip": lambda x: wg.clip(x, 0.2, 0.8),
            "polygamma": lambda x: wg.polygamma(1, x),
        },
    ),
    *ops(flat(1), by_name(TESTS), False),
    *ops(
        flat(1),
        {
            "arange": lambda x: wg.arange(x.size, device=x.device),
            "random.normal": lambda x: wg.random.normal(x.shape, device=x.device),
            "random.uniform": lambda x: wg.random.uniform(x.shape, device=x.device),
        },
        False,
    ),
    *ops(flat(2), by_name(BINARY)),
    *ops(flat(2), by_name(COMPARISONS), False),
    *ops(flat(2), {"searchsorted": lambda x, y: wg.searchsorted(wg.cumsum(x[:1024], 0), y)}, False),
    *ops(
        flat(2),
        {
            "concat": lambda x, y: wg.concat([x, y]),
            "masked_fill": lambda x, y: wg.masked_fill(x, y > 0.5, 0),
            "stack": lambda x, y: wg.stack([x, y]),
            "where": lambda x, y: wg.where(x > 0.5, x, y),
        },
    ),
    *ops(flat(3), by_name("gaussian_nll_loss lerp margin_ranking_loss")),
    *ops(whole(1), {"bitwise_invert": wg.bitwise_invert, "one_hot": lambda i: wg.one_hot(i, 31)}, False),
    *ops(whole(2), by_name(BITS), False),
    *ops(rows(1), by_name(ROWS)),
    *ops(
        rows(1),
        {
            "sum by rows": lambda x: wg.sum(x, axis=1),
            "sum by columns": lambda x: wg.sum(x, axis=0),
            "max": lambda x: wg.max(x, axis=1),
            "min": lambda x: wg.min(x, axis=1),
            "var": lambda x: wg.var(x, axis=1),
            "std": lambda x: wg.std(x, axis=1),
            "median": lambda x: wg.median(x, axis=1),
            "quantile": lambda x: wg.quantile(x, 0.3, axis=1),
            "kthvalue": lambda x: wg.kthvalue(x, 100),
            "topk": lambda x: wg.topk(x, 8),
            "logsumexp": lambda x: wg.logsumexp(x, axis=1),
            "log_softmax": lambda x: wg.log_softmax(x, axis=1),
            "rms_norm": lambda x: wg.rms_norm(x, (1024,)),
            "vector norm": lambda x: wg.linalg.vector_norm(x, axis=1),
            "flip": lambda x: wg.flip(x, axis=1),
            "roll": lambda x: wg.roll(x, 100, axis=1),
            "pad": lambda x: wg.pad(x, (1, 1)),
            "tile": lambda x: wg.tile(x, (1, 2)),
            "repeat": lambda x: wg.repeat(x, 2, axis=1),
            "slice": lambda x: x[:, 3:-5],
            "broadcast_to": lambda x: wg.broadcast_to(x[:, :1], x.shape),
            "tril": lambda x: wg.tril(x),
            "triu": lambda x: wg.triu(x),
        },
    ),
    *ops(
        rows(1),
        {
            "argmin": lambda x: wg.argmin(x, axis=1),
            "argsort": lambda x: wg.argsort(x, axis=1),
            "all": lambda x: wg.all(x > 0.2, axis=1),
            "any": lambda x: wg.any(x > 0.8, axis=1),
            "count_nonzero": lambda x: wg.count_nonzero(x, axis=1),
            "rfft": lambda x: wg.real(wg.fft.rfft(x)),
        },
        False,
    ),
    *ops(rows(2), {"vecdot": wg.vecdot, "cosine_similarity": wg.cosine_similarity}),
    *ops(rows(3), {"triplet_margin_loss": wg.triplet_margin_loss}),
    *ops(
        rows(1, indices=1),
        {
            "gather": lambda x, i: wg.gather(x, 1, i),
            "take_along_axis": lambda x, i: wg.take_along_axis(x, i, axis=1),
        },
    ),
    *ops(
        rows(2, indices=1),
        {
            "scatter": lambda x, y, i: wg.scatter(x, 1, i, y),
            "scatter_add": lambda x, y, i: wg.scatter_add(x, 1, i, y),
            "put_along_axis": lambda x, y, i: wg.put_along_axis(x, i, y, axis=1),
        },
    ),
    *ops(
        rows(1, whole=1),
        {
            "nll_loss": lambda x, i: wg.nll_loss(x, i),
            "index_select": lambda x, i: wg.index_select(x, 1, i),
            "take": lambda x, i: wg.take(x, i, axis=1),
        },
    ),
    *ops(
        images(),
        {
            "avg_pool2d": lambda x: wg.avg_pool2d(x, 2),
            "adaptive_avg_pool2d": lambda x: wg.adaptive_avg_pool2d(x, 4),
            "adaptive_max_pool2d": lambda x: wg.adaptive_max_pool2d(x, 4),
            "instance_norm": wg.instance_norm,
            "local_response_norm": lambda x: wg.local_response_norm(x, 5),
            "interpolate": lambda x: wg.interpolate(x, scale_factor=2, mode="bilinear"),
            "pixel_shuffle": lambda x: wg.pixel_shuffle(x, 4),
            "unfold": lambda x: wg.unfold(x, 3),
        },
    ),
    *ops(
        images((16,), (16,)),
        {
            "batch_norm": lambda x, w, b: wg.batch_norm(x, None, None, w, b, training=True),
            "group_norm": lambda x, w, b: wg.group_norm(x, 4, w, b),
        },
    ),
    *ops(images((16, 16, 2, 2)), {"conv_transpose2d": lambda x, w: wg.conv_transpose2d(x, w, stride=2)}),
    *ops(images((16, 16, 1, 1)), {"conv2d 1 x 1": wg.conv2d}),
    *ops(images((16, 1, 3, 3)), {"conv2d, depthwise": lambda x, w: wg.conv2d(x, w, padding=1, groups=16)}),
    *ops(square(2), {"linear": wg.linear, "einsum": lambda x, y: wg.einsum("ij,kj->ik", x, y)}),
    *ops(square(2), {"outer": lambda x, y: wg.outer(x[0], y[0]), "kron": lambda x, y: wg.kron(x[:16, :16], y)}),
    *ops(matrices(1), by_name(FACTORED)),
    *ops(matrices(1), {"linalg.slogdet": lambda x: wg.linalg.slogdet(x).logabsdet}),
    *ops(matrices(2), by_name("linalg.solve linalg.triangular_solve")),
    *ops(matrices(2), {"matmul, batched": wg.matmul}),
)
