"""Steps that move elements: reshaping, indexing, joining, taking apart."""

from __future__ import annotations

from typing import Any

from tests.compiler.random_graphs import Untame
from tests.programs.step import Step, templates


def _any(b: Any) -> Any:
    return b.operand()


def _matrix(b: Any) -> Any:
    found = [node for node in b.pool if node.ndim >= 2]
    if not found:
        raise Untame
    return b.written(b.choice(found))


def _reshape(b: Any) -> str:
    x = b.operand()
    sizes = [s for s in b.shapes if _size(s) == x.size] + [
        (x.size,),
        (*x.shape, 1),
        (1, *x.shape),
        (1,) * (x.size == 1),
    ]
    sizes += [(-1,)] if x.size else []
    sizes += [(2, -1), (-1, 2)] if x.size and x.size % 2 == 0 else []
    return f"wg.reshape({x}, {b.choice(sizes)})"


def _size(shape: Any) -> int:
    found = 1
    for n in shape:
        found *= n
    return found


def _permute(b: Any) -> str:
    x = b.operand()
    return f"wg.permute_dims({x}, {tuple(int(a) for a in b.rng.permutation(x.ndim))})"


def _swap(b: Any) -> str:
    x = _matrix(b)
    name = b.choice(["swapaxes", "moveaxis"])
    return f"wg.{name}({x}, {b.axis(x)}, {b.axis(x)})" if b.chance(0.7) else f"{x}.mT"


def _broadcast(b: Any) -> str:
    x = b.operand()
    lead = b.choice([(), (2,), (3, 1), (1,)])
    return f"wg.broadcast_to({x}, {(*lead, *[b.choice([3, 4, 1]) if n == 1 else n for n in x.shape])})"


def _index(b: Any) -> str:
    """x[2, :, None, 1:5:2, ...]: numbers, slices, new axes and an ellipsis."""
    x = b.operand()
    parts: list[str] = []
    axes = list(x.shape)
    skipped = int(b.rng.integers(0, len(axes) + 1)) if b.chance(0.3) else 0
    for k, n in enumerate(axes[skipped:]):
        if b.chance(0.12):
            parts.append("None")
        kind = b.rng.integers(6)
        if kind == 0 and n:
            parts.append(str(int(b.rng.integers(-n, n))))
        elif kind < 4:
            parts.append(_slice(b, n))
        elif k == len(axes) - 1 or not b.chance(0.4):
            parts.append(":")
        else:
            break
    text = ", ".join((["..."] if skipped else []) + parts) or "None"
    return f"{x}[{text}]"


def _slice(b: Any, n: int) -> str:
    start = int(b.rng.integers(-n, n + 1)) if b.chance(0.6) else ""
    stop = int(b.rng.integers(-n, n + 2)) if b.chance(0.4) else ""
    step = b.choice(["", "", ":2", ":3"]) if b.portable else b.choice(["", "", ":2", ":-1", ":-2", ":3"])
    return f"{start}:{stop}{step}"


def _index_by_array(b: Any) -> str:
    x = b.operand()
    if not x.ndim:
        raise Untame
    shape = b.choice([(), (1,), (3,), (2, 3), (7,), (0,)])
    where = b.choice(["first", "last", "two"]) if x.ndim > 1 else "first"
    if where == "two":
        return f"{x}[{b.places(shape, x.shape[0])}, {b.places(shape, x.shape[1])}]"
    return f"{x}[{b.places(shape, x.shape[0])}]" if where == "first" else f"{x}[..., {b.places(shape, x.shape[-1])}]"


def _take(b: Any) -> str:
    x = b.operand()
    axis = b.axis(x)
    name = b.choice(["index_select", "take"])
    index = b.places(b.choice([(1,), (3,), (8,)]), x.shape[axis])
    return f"wg.take({x}, {index}, axis={axis})" if name == "take" else f"wg.index_select({x}, {axis}, {index})"


def _take_along(b: Any) -> str:
    x = b.operand()
    axis = b.axis(x) % x.ndim
    index = b.places((*x.shape[:axis], b.choice([1, 2, 5]), *x.shape[axis + 1 :]), x.shape[axis])
    return f"wg.take_along_axis({x}, {index}, axis={axis})"


def _scatter(b: Any) -> str:
    x = b.inexact()
    axis = b.axis(x) % x.ndim
    index = b.places(x.shape, x.shape[axis])
    y = b.constant_like(x.shape, x.dtype) if b.chance(0.3) else f"({x} * 0.5)"
    if b.chance(0.7):
        return f"wg.scatter_add({x}, {axis}, {index}, {y})"
    once = b.rng.permuted(_counted(x.shape, axis), axis=axis)  # what is written twice has no order
    return f"wg.scatter({x}, {axis}, {b.constant_of(once)}, {y})"


def _counted(shape: Any, axis: int) -> Any:
    import numpy as np

    return np.broadcast_to(
        np.arange(shape[axis]).reshape([-1 if k == axis else 1 for k in range(len(shape))]), shape
    ).copy()


def _index_add(b: Any) -> str:
    x = b.inexact()
    axis = b.axis(x)
    rows = f"wg.index_select({x}, {axis}, {b.places((3,), x.shape[axis])})"
    return f"wg.index_add({x}, {axis}, {b.places((3,), x.shape[axis])}, {rows})"


def _concat(b: Any) -> str:
    x = b.operand()
    axis = b.axis(x)
    alike = [n for n in b.pool if n.dtype is x.dtype and n.ndim == x.ndim]
    at = axis % x.ndim
    fitting = [n for n in alike if all(p == q or i == at for i, (p, q) in enumerate(zip(n.shape, x.shape)))]
    others = (
        ", ".join(str(b.written(b.choice(fitting)).text) for _ in range(b.choice([1, 1, 2]))) if fitting else f"{x}"
    )
    return f"wg.concat([{x}, {others}], axis={axis})"


def _stack(b: Any) -> str:
    x = b.operand()
    fitting = [n for n in b.pool if n.dtype is x.dtype and n.shape == x.shape]
    y = b.written(b.choice(fitting)) if fitting else x
    return f"wg.stack([{x}, {y}], axis={int(b.rng.integers(-x.ndim - 1, x.ndim + 1))})"


def _split(b: Any) -> str:
    x = b.operand()
    axis = b.axis(x)
    if not x.shape[axis]:
        raise Untame
    if b.chance(0.5):
        return f"wg.split({x}, {int(b.rng.integers(1, x.shape[axis] + 1))}, axis={axis})[-1]"
    return b.choice([f"wg.chunk({x}, {b.choice([1, 2, 3])}, axis={axis})[0]", f"wg.unstack({x}, axis={axis})[0]"])


def _roll(b: Any) -> str:
    x = b.operand()
    return f"wg.roll({x}, {int(b.rng.integers(-4, 5))}, axis={b.axis(x)})"


def _flip(b: Any) -> str:
    x = b.operand()
    return f"wg.flip({x}, axis={b.axis(x) if b.chance(0.7) else b.axes(x.ndim)})"


def _pad(b: Any) -> str:
    x = b.inexact()
    if not x.ndim:
        raise Untame
    widths = tuple(int(b.rng.integers(0, 3)) for _ in range(2 * min(x.ndim, b.choice([1, 2]))))
    return f"wg.pad({x}, {widths})" if b.chance(0.6) else f"wg.pad({x}, {widths}, value={b.number()})"


def _tile(b: Any) -> str:
    x = b.operand()
    return f"wg.tile({x}, {b.choice([(2,), (1, 2), (2, 1), (3,)])})"


def _diagonal(b: Any) -> str:
    x = _matrix(b)
    if x.ndim != 2:
        return f"wg.diagonal({x})"
    return b.choice([f"wg.diagonal({x}, {b.choice([0, 0, 1, -1])})", f"wg.diag({x})", f"wg.trace({x})"])


ANY = (
    Step(_reshape, 2),
    Step(_permute, 2),
    Step(_swap),
    Step(_broadcast, 2),
    Step(_index, 4),
    Step(_index_by_array, 2),
    Step(_take),
    Step(_take_along, 2),
    Step(_scatter, 2),
    Step(_index_add),
    Step(_concat, 2),
    Step(_stack),
    Step(_split),
    Step(_roll),
    Step(_flip),
    Step(_pad, 2),
    Step(_tile),
    Step(_diagonal),
    templates(_any, "wg.flatten({x})", "wg.expand_dims({x}, 0)", "wg.expand_dims({x}, -1)"),
    templates(_matrix, "wg.tril({x})", "wg.triu({x}, 1)", "wg.tril({x}, -1)", "wg.rot90({x})"),
)
