"""PyTorch's and NumPy's names for what is spelled otherwise here: an error that gives the spelling.

Asked of a Tensor (`x.unsqueeze(0)`) or of the module (`wg.cat`), after everything that does exist.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from wengert.tensor import Tensor

TENSOR_SPELLINGS = {
    "add_": "x += y",
    "bmm": "x @ y",
    "contiguous": "nothing: values have no strides here",
    "cpu": 'x.to("cpu")',
    "cuda": 'x.to("cuda")',
    "data": "x.detach()",
    "dim": "x.ndim",
    "div_": "x /= y",
    "double": "x.to(wg.float64)",
    "element_size": "x.dtype.itemsize",
    "expand": "wg.broadcast_to(x, shape)",
    "expand_as": "wg.broadcast_to(x, y.shape)",
    "fill_": "x.assign(wg.full_like(x, value))",
    "float": "x.to(wg.float32)",
    "half": "x.to(wg.float16)",
    "int": "x.to(wg.int32)",
    "bool": "x.to(wg.bool)",
    "long": "x.to(wg.int64)",
    "mm": "x @ y",
    "mul_": "x *= y",
    "ndimension": "x.ndim",
    "numel": "x.size",
    "permute": "x.permute_dims(axes)",
    "ravel": "x.flatten()",
    "sub_": "x -= y",
    "t": "x.T",
    "transpose": "x.swapaxes(a, b), or x.permute_dims(axes), x.T, x.mT",
    "type": "x.to(dtype)",
    "type_as": "x.to(y.dtype)",
    "unsqueeze": "x.expand_dims(axis)",
    "view": "x.reshape(shape): there are no views here, and reshape costs nothing",
    "zero_": "x.assign(wg.zeros_like(x))",
}
MODULE_SPELLINGS = {
    "array": "wg.tensor",
    "as_tensor": "wg.asarray",
    "bmm": "wg.matmul",
    "cat": "wg.concat",
    "clamp": "wg.clip",
    "concatenate": "wg.concat",
    "from_numpy": "wg.tensor(array, copy=False)",
    "mm": "wg.matmul",
    "mul": "wg.multiply",
    "div": "wg.divide",
    "sub": "wg.subtract",
    "neg": "wg.negative",
    "permute": "wg.permute_dims",
    "power": "wg.pow",
    "rand": "wg.random.uniform(shape)",
    "randint": "wg.random.randint",
    "randn": "wg.random.normal(shape)",
    "transpose": "wg.permute_dims or wg.swapaxes",
    "unsqueeze": "wg.expand_dims(x, axis)",
}


def _tensor_attribute(self: Tensor, name: str) -> Any:
    if name in TENSOR_SPELLINGS:
        raise AttributeError(f"a Tensor has no {name!r} here: write {TENSOR_SPELLINGS[name]}")
    raise AttributeError(f"a Tensor has no attribute {name!r}{_nearest(name, dir(Tensor))}")


def module_attribute(name: str, known: list[str]) -> Any:
    """Raise for a name the module does not have, with the spelling here or the nearest name."""
    if name in MODULE_SPELLINGS:
        raise AttributeError(f"wengert has no {name!r}: write {MODULE_SPELLINGS[name]}")
    raise AttributeError(f"wengert has no {name!r}{_nearest(name, known)}")


def _nearest(name: str, known: list[str]) -> str:
    found = [] if name.startswith("_") else get_close_matches(name, known, n=1)
    return f"; did you mean {found[0]!r}?" if found else ""


Tensor.__getattr__ = _tensor_attribute  # type: ignore[method-assign]
