"""Steps along axes: reductions, running sums, sorting, normalisation, losses."""

from __future__ import annotations

from typing import Any

from tests.compiler.random_graphs import Untame
from tests.programs.step import Step, templates


def _real(b: Any) -> Any:
    return b.real()


def _inexact(b: Any) -> Any:
    return b.inexact()


def _full(b: Any) -> Any:
    """A value with rows that are not empty."""
    x = b.real()
    if not x.size or not x.ndim:
        raise Untame
    return x


def _ordered(b: Any) -> Any:
    """A value whose order decides something. PyTorch has another order of elements that are equal."""
    x = _full(b)
    if b.portable and not b.is_distinct(x):
        raise Untame
    return x


def _layer_norm(b: Any) -> str:
    x = _full(b)
    shape = x.shape[-b.choice([1, 1, 2]) :]
    if x.size == 1 or b.chance(0.3):
        return f"wg.layer_norm({x}, {shape}, eps=0.1)"
    weight, bias = (b.constant_like(shape, x.dtype) for _ in range(2))
    return f"wg.layer_norm({x}, {shape}, {weight}, {bias}, eps=0.1)"


def _rms_norm(b: Any) -> str:
    x = _full(b)
    return f"wg.rms_norm({x}, {x.shape[-1:]}, eps=0.1)"


def _group_norm(b: Any) -> str:
    x = _full(b)
    if x.ndim < 2 or x.size <= 2 * x.shape[1] * x.shape[0]:
        raise Untame
    groups = b.choice([n for n in (1, 2, 3, 4, x.shape[1]) if x.shape[1] % n == 0])
    return f"wg.group_norm({x}, {groups}, eps=0.2)"


def _topk(b: Any) -> str:
    x = _ordered(b)
    axis = b.axis(x)
    k = int(b.rng.integers(1, x.shape[axis] + 1))
    texts = [f"wg.topk({x}, {k}, axis={axis})[0]", f"wg.kthvalue({x}, {k}, axis={axis})[0]"]
    return b.choice([*texts, f"wg.topk({x}, {k}, axis={axis}, largest=False)[0]"])


def _loss(b: Any) -> str:
    x = _full(b)
    y = b.beside_it(x)
    if isinstance(y, str) or y.shape != x.shape or y.dtype is not x.dtype:
        y = b.constant_like(x.shape, x.dtype)
    reduction = b.choice(["mean", "sum", "none"])
    name = b.choice(["mse_loss", "l1_loss", "huber_loss", "smooth_l1_loss", "binary_cross_entropy_with_logits"])
    return f"wg.{name}({x}, {y}, reduction='{reduction}')"


def _cross_entropy(b: Any) -> str:
    x = _full(b)
    if x.ndim != 2:
        raise Untame
    reduction = b.choice(["mean", "sum", "none"])
    target = b.constant_of(b.rng.integers(0, x.shape[1], x.shape[0]))
    if b.chance(0.3):
        return f"wg.nll_loss(wg.log_softmax({x}, axis=1), {target}, reduction='{reduction}')"
    smoothing = b.choice(["", "", ", label_smoothing=0.1"])
    return f"wg.cross_entropy({x}, {target}, reduction='{reduction}'{smoothing})"


def _norm(b: Any) -> str:
    x = b.inexact()
    ord = b.choice(["2", "1", "3", "float('inf')"]) if x.dtype.kind != "c" else "2"
    return f"wg.linalg.vector_norm({x} + 2, axis={b.axes_of(x)}, keepdims={b.chance(0.5)}, ord={ord})"


def _quantile(b: Any) -> str:
    x = _ordered(b)
    return f"wg.quantile({x}, {b.choice(['0.5', '0.25', '0.9'])}, axis={b.axis(x)})"


def _searchsorted(b: Any) -> str:
    x = _full(b)
    import numpy as np

    edges = b.constant_of(np.sort(b.numbers((5,), x.dtype)))
    return f"wg.searchsorted({edges}, {x})"


def _scan(b: Any) -> str:
    x = _full(b)
    if x.shape[0] > 20:
        raise Untame
    result = b.choice(["[0]", "[1]"])
    return f"wg.scan(lambda c, row: (wg.tanh(c * 0.5 + row), c - row), wg.zeros_like({x}[0]), {x}){result}"


def _mapped(b: Any) -> str:
    x = _full(b)
    body = b.choice(["wg.tanh(r) * r", "r - wg.sum(r)", "wg.softmax(r.reshape(-1), axis=0)", "r * wg.max(r)"])
    return f"wg.vmap(lambda r: {body})({x})"


def _function(b: Any) -> str:
    x = b.real()
    body = b.choice(["wg.tanh(v) * v", "wg.exp(wg.sin(v)) + v * v"])
    return f"wg.checkpoint(lambda v: {body})({x})"


INEXACT = (
    templates(_inexact, "wg.sum({x}, axis={A}, keepdims={k})", "wg.mean({x}, axis={A}, keepdims={k})", weight=4),
    templates(_inexact, "wg.var({x}, axis={A})", "wg.std({x} * 2, axis={A}, keepdims={k})", weight=2),
    templates(_inexact, "wg.prod(wg.tanh({x} * 0.4), axis={a})", "wg.sum({x}) * 0.1"),
    templates(_inexact, "wg.cumsum({x}, axis={a})", "wg.cumprod({x} * 0.5, axis={a})", "wg.diff({x}, axis={a})"),
    templates(_inexact, "wg.logsumexp({x} * 0.3, axis={a})", "{x} - wg.mean({x}, axis={a}, keepdims=True)"),
    Step(_norm),
)
REAL = (
    templates(_ordered, "wg.max({x}, axis={A}, keepdims={k})", "wg.min({x}, axis={A}, keepdims={k})", weight=3),
    templates(_full, "wg.softmax({x}, axis={a})", "wg.log_softmax({x}, axis={a})", weight=3),
    templates(_full, "wg.logsumexp({x}, axis={A}, keepdims={k})", "wg.logcumsumexp({x}, axis={a})"),
    templates(
        _ordered,
        "wg.sort({x}, axis={a})",
        "wg.sort({x}, axis={a}, descending=True)",
        "wg.argsort({x}, axis={a})",
        weight=2,
    ),
    templates(_ordered, "wg.argmax({x}, axis={a}, keepdims={k})", "wg.argmin({x}, axis={a})"),
    templates(_ordered, "wg.median({x}, axis={a})", portable=False),
    templates(
        _ordered, "wg.cummax({x}, axis={a})[0]", "wg.cummin({x}, axis={a})[0]", "wg.normalize({x} + 0.5, axis={a})"
    ),
    templates(_full, "wg.trapezoid({x}, axis={a})", "wg.any({x} > 0.5, axis={A})", "wg.all({x} > -1, axis={A})"),
    templates(_full, "wg.count_nonzero({x} > 0, axis={A})", "wg.glu(wg.concat([{x}, {x}], axis={a}), axis={a})"),
    templates(_full, "wg.cosine_similarity({x}, {x} * 0.5 + 1, axis={a})", "wg.nansum({x}, axis={A})"),
    Step(_layer_norm, 2),
    Step(_rms_norm),
    Step(_group_norm),
    Step(_topk, 2),
    Step(_loss),
    Step(_cross_entropy),
    Step(_quantile),
    Step(_searchsorted),
    Step(_scan, 1, portable=False),
    Step(_mapped, 1, portable=False),
    Step(_function, 1, portable=False),
)
