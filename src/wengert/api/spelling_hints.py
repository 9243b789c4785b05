"""PyTorch's, NumPy's and JAX's names for what is spelled otherwise here: an error that gives the spelling.

Asked of a Tensor (`x.unsqueeze(0)`) or of a module (`wg.cat`, `wg.nn.functional`), after everything that does exist.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from wengert.tensor import Tensor

TENSOR_SPELLINGS = {
    "add": "x + y",
    "addmm": "b + x @ y",
    "add_": "x += y",
    "at": "x[i] = value",
    "block_until_ready": "wg.synchronize()",
    "bmm": "x @ y",
    "clamp": "x.clip(min, max)",
    "contiguous": "nothing: values have no strides here",
    "copy_": "x.assign(y)",
    "cpu": 'x.to("cpu")',
    "cuda": 'x.to("cuda")',
    "data": "x.detach()",
    "dim": "x.ndim",
    "div": "x / y",
    "div_": "x /= y",
    "dot": "x @ y",
    "double": "x.to(wg.float64)",
    "element_size": "x.dtype.itemsize",
    "expand": "wg.broadcast_to(x, shape)",
    "expand_as": "wg.broadcast_to(x, y.shape)",
    "fill": "x.assign(wg.full_like(x, value))",
    "fill_": "x.assign(wg.full_like(x, value))",
    "float": "x.to(wg.float32)",
    "grad_fn": "x.node, the op that gave it",
    "half": "x.to(wg.float16)",
    "int": "x.to(wg.int32)",
    "is_cuda": "x.device",
    "bool": "x.to(wg.bool)",
    "long": "x.to(wg.int64)",
    "mm": "x @ y",
    "mul": "x * y",
    "mul_": "x *= y",
    "ndimension": "x.ndim",
    "numel": "x.size",
    "permute": "x.permute_dims(axes)",
    "ravel": "x.flatten()",
    "rsqrt": "1 / x.sqrt()",
    "stride": "nothing: values have no strides here",
    "strides": "nothing: values have no strides here",
    "sub": "x - y",
    "sub_": "x -= y",
    "t": "x.T",
    "tobytes": "x.numpy().tobytes()",
    "transpose": "x.swapaxes(a, b), or x.permute_dims(axes), x.T, x.mT",
    "type": "x.to(dtype)",
    "type_as": "x.to(y.dtype)",
    "unbind": "x.unstack(axis)",
    "unsqueeze": "x.expand_dims(axis)",
    "view": "x.reshape(shape): there are no views here, and reshape costs nothing",
    "zero_": "x.assign(wg.zeros_like(x))",
}
MODULE_SPELLINGS = {
    "Generator": "wg.random.Generator",
    "Variable": "wg.tensor(x, requires_grad=True)",
    "absolute": "wg.abs",
    "arccos": "wg.acos",
    "arccosh": "wg.acosh",
    "arcsin": "wg.asin",
    "arcsinh": "wg.asinh",
    "arctan": "wg.atan",
    "arctan2": "wg.atan2",
    "arctanh": "wg.atanh",
    "array": "wg.tensor",
    "array_equal": "np.array_equal(x, y), which takes tensors",
    "as_tensor": "wg.asarray",
    "average": "wg.mean",
    "bmm": "wg.matmul",
    "cat": "wg.concat",
    "clamp": "wg.clip",
    "concatenate": "wg.concat",
    "conjugate": "wg.conj",
    "copy": "x.clone()",
    "data.TensorDataset": "wg.data.ArrayDataset",
    "dot": "x @ y",
    "from_numpy": "wg.tensor(array, copy=False)",
    "gradient": "wg.grad(f)(x), or wg.diff(x) for differences of neighbours",
    "identity": "wg.eye",
    "inference_mode": "wg.no_grad",
    "invert": "wg.bitwise_invert",
    "is_tensor": "isinstance(x, wg.Tensor)",
    "jacfwd": "wg.jacobian",
    "jacrev": "wg.jacobian",
    "jit": "wg.compile",
    "linalg.eig": "wg.linalg.eigh, for symmetric matrices",
    "linalg.lstsq": "wg.linalg.pinv(a) @ b",
    "linalg.norm": "wg.linalg.vector_norm or wg.linalg.matrix_norm",
    "linalg.solve_triangular": "wg.linalg.triangular_solve",
    "mm": "wg.matmul",
    "mod": "wg.remainder",
    "mul": "wg.multiply",
    "numel": "x.size",
    "div": "wg.divide",
    "sub": "wg.subtract",
    "neg": "wg.negative",
    "nn.functional": "wg.relu, wg.cross_entropy, ...: the functions are wengert's own",
    "nn.utils": "wg.optim.clip_grad_norm_",
    "optim.lr_scheduler": "wg.optim.StepLR, wg.optim.OneCycleLR, ...",
    "permute": "wg.permute_dims",
    "power": "wg.pow",
    "rand": "wg.random.uniform(shape)",
    "randint": "wg.random.randint",
    "randn": "wg.random.normal(shape)",
    "random.PRNGKey": "wg.random.Generator(seed)",
    "random.choice": "wg.random.randint or wg.random.permutation",
    "random.key": "wg.random.Generator(seed)",
    "random.rand": "wg.random.uniform(shape)",
    "random.randn": "wg.random.normal(shape)",
    "random.seed": "wg.manual_seed(seed)",
    "random.shuffle": "wg.random.permutation",
    "random.split": "generator.spawn(n)",
    "ravel": "x.flatten()",
    "rint": "wg.round",
    "seed": "wg.manual_seed",
    "size": "x.size",
    "transpose": "wg.permute_dims or wg.swapaxes",
    "true_divide": "wg.divide",
    "unsqueeze": "wg.expand_dims(x, axis)",
}

functions: list[str] = []
"""The names of the public functions; set by `functions`."""


def _tensor_attribute(self: Tensor, name: str) -> Any:
    if name in TENSOR_SPELLINGS:
        raise AttributeError(f"a Tensor has no {name!r} here: write {TENSOR_SPELLINGS[name]}")
    if name in functions:
        raise AttributeError(f"a Tensor has no {name!r} here: write wg.{name}, a function")
    raise AttributeError(f"a Tensor has no attribute {name!r}{_nearest(name, dir(Tensor))}")


def module_attribute(name: str, known: list[str], module: str = "wengert") -> Any:
    """Raise for a name the module does not have, with the spelling here or the nearest name."""
    module = module.replace("wengert.api", "wengert")  # as users write it
    spelling = MODULE_SPELLINGS.get(f"{module}.{name}".removeprefix("wengert."))
    if spelling is not None:
        raise AttributeError(f"{module} has no {name!r}: write {spelling}")
    raise AttributeError(f"{module} has no {name!r}{_nearest(name, known)}")


def _nearest(name: str, known: list[str]) -> str:
    found = [] if name.startswith("_") else get_close_matches(name, known, n=1)
    return f"; did you mean {found[0]!r}?" if found else ""


Tensor.__getattr__ = _tensor_attribute  # type: ignore[method-assign]
