"""Parametrizations: a parameter computed by modules from an original one, which is what is learned.

`register_parametrization(layer, "weight", Symmetric())` moves the weight to `layer.parametrizations.weight.original`;
`layer.weight` is from then on what the module gives for it, computed when it is read. A `right_inverse` of the module
says which original gives a value, when it is registered and when the attribute is set. The names in a state dict are
PyTorch's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import wengert as wg
from wengert.nn.container import ModuleDict, ModuleList
from wengert.nn.module import Module
from wengert.nn.parameter import Parameter
from wengert.nn.utils.computed import compute, formula_of, keep, original_class

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "type_before_parametrizations",
]

_cache: dict[tuple[int, str], Any] = {}
_depth = 0


@contextmanager
def cached() -> Iterator[None]:
    """Within it, each parametrized attribute is computed once, for models that read one many times in a forward.

    >>> import wengert as wg
    >>> with wg.nn.utils.parametrize.cached():
    ...     pass
    """
    global _depth
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
        if not _depth:
            _cache.clear()


class _Parametrized:
    """The formula of an attribute whose parametrizations the module holds."""

    def __init__(self, name: str) -> None:
        self.name = name

    def read(self, module: Any) -> Any:
        """The value that the parametrizations give."""
        parts = module.parametrizations[self.name]
        if not _depth:
            return parts()
        key = (id(module), self.name)
        if key not in _cache:
            _cache[key] = parts()
        return _cache[key]

    def write(self, module: Any, value: Any) -> None:
        """Set the originals to what gives this value."""
        _cache.pop((id(module), self.name), None)
        module.parametrizations[self.name].right_inverse(value)


class ParametrizationList(ModuleList):
    """The parametrizations of one attribute, in order, with `original`, or `original0`, `original1`, ...

    >>> import wengert as wg
    >>> layer = wg.nn.utils.parametrizations.weight_norm(wg.nn.Linear(3, 2))
    >>> isinstance(layer.parametrizations.weight, wg.nn.utils.parametrize.ParametrizationList)
    True
    """

    def __init__(self, modules: Any, original: wg.Tensor, unsafe: bool = False) -> None:
        super().__init__(modules)
        self.unsafe = unsafe
        found = self._inverted(original)
        self.is_tensor = isinstance(found, wg.Tensor)
        self.ntensors = 1 if self.is_tensor else len(found)
        if self.is_tensor:
            self._hold("original", self._same_slot(original, found), original)
        else:
            for i, part in enumerate(found):
                self._hold(f"original{i}", part, original)
        if not unsafe:
            _require_like("register_parametrization", self(), original)

    @staticmethod
    def _same_slot(original: wg.Tensor, found: wg.Tensor) -> wg.Tensor:
        """The original's own slot with the new value, so that an optimizer made before goes on with it."""
        if found is original or found.shape != original.shape or found.dtype != original.dtype:
            return found if found is not original else original
        with wg.no_grad():
            original.assign(found.detach())
        return original

    def _hold(self, name: str, value: wg.Tensor, original: wg.Tensor) -> None:
        if isinstance(original, Parameter):
            own = value if isinstance(value, Parameter) and value is original else None
            self.register_parameter(name, Parameter(value, original.requires_grad) if own is None else own)
        else:
            self.register_buffer(name, value.detach() if value is not original else value)

    def _inverted(self, value: Any) -> Any:
        """What the parametrizations give `value` for; itself where they do not say."""
        with wg.no_grad():
            for module in reversed(list(self)):
                if hasattr(type(module), "right_inverse"):
                    value = module.right_inverse(value)
        if isinstance(value, wg.Tensor):
            return value
        if not isinstance(value, (tuple, list)) or not all(isinstance(part, wg.Tensor) for part in value):
            raise wg.errors.DTypeError(f"a right_inverse gives a Tensor or several, not {type(value).__name__}")
        return tuple(value)

    def _originals(self) -> list[wg.Tensor]:
        names = ["original"] if self.is_tensor else [f"original{i}" for i in range(self.ntensors)]
        return [getattr(self, name) for name in names]

    def right_inverse(self, value: wg.Tensor) -> None:
        """Set the originals to what gives this value."""
        found = self._inverted(value)
        parts = (found,) if isinstance(found, wg.Tensor) else found
        slots = self._originals()
        if len(parts) != len(slots) or any(a.shape != b.shape for a, b in zip(parts, slots)):
            shapes = [part.shape for part in parts]
            raise wg.errors.ShapeError(
                f"the right_inverse of a parametrization gives shapes {shapes}; the originals have "
                f"{[slot.shape for slot in slots]}"
            )
        with wg.no_grad():
            for slot, part in zip(slots, parts):
                slot.assign(part.detach().to(slot.dtype))

    def forward(self) -> Any:
        """The value."""
        first, *others = list(self)
        value = first(*self._originals())
        for module in others:
            value = module(value)
        return value


def _require_like(name: str, found: Any, original: wg.Tensor) -> None:
    if not isinstance(found, wg.Tensor):
        raise wg.errors.DTypeError(f"{name}: a parametrization gives a Tensor, not {type(found).__name__}")
    if found.shape != original.shape or found.dtype != original.dtype:
        raise wg.errors.ShapeError(
            f"{name}: the parametrization gives {found.dtype} {found.shape} for {original.dtype} {original.shape}; "
            "unsafe=True allows that"
        )


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Have a parameter or buffer of a module computed by another module from what it was; give back the module.

    >>> import wengert as wg
    >>> class Symmetric(wg.nn.Module):
    ...     def forward(self, x):
    ...         return wg.triu(x) + wg.triu(x, 1).mT
    >>> layer = wg.nn.Linear(3, 3)
    >>> _ = wg.nn.utils.parametrize.register_parametrization(layer, "weight", Symmetric())
    >>> bool(wg.all(layer.weight == layer.weight.mT)), [name for name, _ in layer.named_parameters()]
    (True, ['bias', 'parametrizations.weight.original'])
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        _append(module, tensor_name, parametrization, unsafe)
        return module
    own = dict([*module.own_parameters(), *module.own_buffers()])
    if tensor_name not in own:
        raise wg.errors.ArgumentError(
            f"register_parametrization: {type(module).__name__} has no parameter or buffer {tensor_name!r}; it has "
            f"{', '.join(own) or 'none'}"
        )
    parts = ParametrizationList([parametrization], own[tensor_name], unsafe)
    parts.train(module.training)
    if "parametrizations" not in module.__dict__:
        module.parametrizations = ModuleDict()
    delattr(module, tensor_name)
    module.__dict__["parametrizations"][tensor_name] = parts
    compute(module, tensor_name, _Parametrized(tensor_name))
    return module


def _append(module: Any, name: str, parametrization: Module, unsafe: bool) -> None:
    """One more parametrization, of what the others give."""
    parts, value = module.parametrizations[name], getattr(module, name).detach()
    if not unsafe:
        _require_like("register_parametrization", parametrization(value), value)
    parts.append(parametrization)
    if hasattr(type(parametrization), "right_inverse"):
        parts.right_inverse(value)
    wg.config.changed()


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a module has parametrized attributes, or this one.

    >>> import wengert as wg
    >>> layer = wg.nn.utils.parametrizations.weight_norm(wg.nn.Linear(3, 2))
    >>> wg.nn.utils.parametrize.is_parametrized(layer, "weight"), wg.nn.utils.parametrize.is_parametrized(layer, "bias")
    (True, False)
    """
    held = module.__dict__.get("parametrizations")
    if not isinstance(held, ModuleDict):
        return False
    return len(held) > 0 if tensor_name is None else isinstance(formula_of(module, tensor_name), _Parametrized)


def remove_parametrizations(module: Any, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make an attribute a plain parameter or buffer again, with the value it has, or with the original's.

    >>> import wengert as wg
    >>> layer = wg.nn.utils.parametrizations.weight_norm(wg.nn.Linear(3, 2))
    >>> _ = wg.nn.utils.parametrize.remove_parametrizations(layer, "weight")
    >>> [name for name, _ in layer.named_parameters()]
    ['bias', 'weight']
    """
    if not is_parametrized(module, tensor_name):
        raise wg.errors.ArgumentError(
            f"remove_parametrizations: {tensor_name!r} of {type(module).__name__} is not parametrized"
        )
    parts = module.parametrizations[tensor_name]
    if not leave_parametrized and not parts.is_tensor:
        raise wg.errors.ArgumentError(
            f"remove_parametrizations: {tensor_name!r} is made of {parts.ntensors} originals, none of which it was; "
            "leave_parametrized=True keeps its value"
        )
    first = parts._originals()[0]
    kept = first if parts.is_tensor else None
    if leave_parametrized:
        value = getattr(module, tensor_name).detach()
        if kept is not None and kept.shape == value.shape and kept.dtype == value.dtype:
            with wg.no_grad():
                kept.assign(value)
        else:
            kept = Parameter(value, first.requires_grad) if isinstance(first, Parameter) else value
    keep(module, tensor_name)
    del module.parametrizations[tensor_name]
    if not len(module.parametrizations):
        del module.parametrizations
    if isinstance(kept, Parameter):
        module.register_parameter(tensor_name, kept)
    else:
        module.register_buffer(tensor_name, kept)
    return module


def type_before_parametrizations(module: Module) -> type[Module]:
    """The class of a module, without what parametrizations made of it.

    >>> import wengert as wg
    >>> layer = wg.nn.utils.parametrizations.weight_norm(wg.nn.Linear(3, 2))
    >>> wg.nn.utils.parametrize.type_before_parametrizations(layer).__name__
    'Linear'
    """
    return original_class(module)
