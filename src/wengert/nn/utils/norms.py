"""Weight norm and spectral norm by the names that PyTorch had first: `weight_g` and `weight_v`, `weight_orig`.

Checkpoints have these. In new models `parametrizations.weight_norm` and `spectral_norm` do the same.
"""

from __future__ import annotations

from typing import Any

import wengert as wg
from wengert.nn.parameter import Parameter
from wengert.nn.utils.computed import compute, formula_of, keep
from wengert.nn.utils.parametrizations import as_matrix, norm_but_along, output_axis


def _own_parameter(function: str, module: Any, name: str) -> Parameter:
    found = dict(module.own_parameters()).get(name)
    if found is None:
        raise wg.errors.ArgumentError(f"{function}: {type(module).__name__} has no parameter {name!r}")
    return found


class _WeightNormed:
    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = dim

    def read(self, module: Any) -> wg.Tensor:
        """The direction of one parameter, as long as the other says."""
        g, v = getattr(module, f"{self.name}_g"), getattr(module, f"{self.name}_v")
        return v * (g / norm_but_along(v, self.dim))

    def write(self, module: Any, value: Any) -> None:
        """The weight is computed, so setting it says what to set."""
        raise wg.errors.ArgumentError(
            f"{self.name!r} is computed: set {self.name}_g and {self.name}_v, or call remove_weight_norm first"
        )


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """Learn a weight as its length along `dim`, `weight_g`, and its direction, `weight_v`; give back the module.

    >>> import wengert as wg
    >>> layer = wg.nn.utils.weight_norm(wg.nn.Linear(3, 2))
    >>> [name for name, _ in layer.named_parameters()]
    ['bias', 'weight_g', 'weight_v']
    """
    weight = _own_parameter("weight_norm", module, name)
    with wg.no_grad():
        lengths = norm_but_along(weight, dim).detach()
    delattr(module, name)
    module.register_parameter(f"{name}_g", Parameter(lengths, weight.requires_grad))
    module.register_parameter(f"{name}_v", weight)
    compute(module, name, _WeightNormed(name, dim))
    return module


def remove_weight_norm(module: Any, name: str = "weight") -> Any:
    """Make a weight that `weight_norm` computes a plain parameter again, with the value it has.

    >>> import wengert as wg
    >>> layer = wg.nn.utils.remove_weight_norm(wg.nn.utils.weight_norm(wg.nn.Linear(3, 2)))
    >>> sorted(name for name, _ in layer.named_parameters())
    ['bias', 'weight']
    """
    if not isinstance(formula_of(module, name), _WeightNormed):
        raise wg.errors.ArgumentError(f"remove_weight_norm: {name!r} of {type(module).__name__} has no weight norm")
    weight, value = getattr(module, f"{name}_v"), getattr(module, name).detach()
    with wg.no_grad():
        weight.assign(value)
    _give_back(module, name, weight, (f"{name}_g", f"{name}_v"))
    return module


def _give_back(module: Any, name: str, weight: Parameter, others: tuple[str, ...]) -> None:
    keep(module, name)
    for other in others:
        delattr(module, other)
    module.register_parameter(name, weight)


class _SpectrallyNormed:
    def __init__(self, name: str, times: int, eps: float, dim: int) -> None:
        self.name = name
        self.times = times
        self.eps = eps
        self.dim = dim

    def read(self, module: Any) -> wg.Tensor:
        """The weight over its largest singular value; in training after some power iterations."""
        weight = getattr(module, f"{self.name}_orig")
        matrix = as_matrix(weight, self.dim)
        left, right = getattr(module, f"{self.name}_u"), getattr(module, f"{self.name}_v")
        if module.training:
            with wg.no_grad():
                u, v = left.detach(), right.detach()
                for _ in range(self.times):
                    v = wg.normalize(matrix.mT @ u, axis=0, eps=self.eps)
                    u = wg.normalize(matrix @ v, axis=0, eps=self.eps)
                left.assign(wg.stop_gradient(u))
                right.assign(wg.stop_gradient(v))
        return weight / wg.vecdot(wg.stop_gradient(left), matrix @ wg.stop_gradient(right))

    def write(self, module: Any, value: Any) -> None:
        """The weight is computed, so setting it says what to set."""
        raise wg.errors.ArgumentError(
            f"{self.name!r} is computed by spectral_norm: set {self.name}_orig, or remove_spectral_norm first"
        )


def spectral_norm(
    module: Any, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Any:
    """Divide a weight by its largest singular value, estimated by power iterations; what is learned is `weight_orig`.

    >>> import wengert as wg
    >>> layer = wg.nn.utils.spectral_norm(wg.nn.Linear(4, 3))
    >>> sorted(layer.state_dict())
    ['bias', 'weight_orig', 'weight_u', 'weight_v']
    """
    weight = _own_parameter("spectral_norm", module, name)
    if n_power_iterations < 1 or weight.ndim < 2:
        raise wg.errors.ArgumentError(
            f"spectral_norm takes at least one power iteration and a weight of two axes or more; they are "
            f"{n_power_iterations} and {weight.shape}"
        )
    at = output_axis(module) if dim is None else dim % weight.ndim
    rows, columns = as_matrix(weight.detach(), at).shape
    delattr(module, name)
    module.register_parameter(f"{name}_orig", weight)
    for part, size in (("u", rows), ("v", columns)):
        start = wg.random.normal((size,), dtype=weight.dtype, device=weight.device)
        module.register_buffer(f"{name}_{part}", wg.normalize(start, axis=0, eps=eps))
    compute(module, name, _SpectrallyNormed(name, n_power_iterations, eps, at))
    return module


def remove_spectral_norm(module: Any, name: str = "weight") -> Any:
    """Make a weight that `spectral_norm` computes a plain parameter again, with the value it has.

    >>> import wengert as wg
    >>> layer = wg.nn.utils.remove_spectral_norm(wg.nn.utils.spectral_norm(wg.nn.Linear(3, 2)))
    >>> sorted(name for name, _ in layer.named_parameters())
    ['bias', 'weight']
    """
    if not isinstance(formula_of(module, name), _SpectrallyNormed):
        raise wg.errors.ArgumentError(f"remove_spectral_norm: {name!r} of {type(module).__name__} has no spectral norm")
    was = module.training
    module.training = False
    value = getattr(module, name).detach()
    module.training = was
    weight = getattr(module, f"{name}_orig")
    with wg.no_grad():
        weight.assign(value)
    _give_back(module, name, weight, (f"{name}_orig", f"{name}_u", f"{name}_v"))
    return module
