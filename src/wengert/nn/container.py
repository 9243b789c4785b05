"""Modules that hold modules in order or by name, and those that only pass a value on or give it another shape."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from operator import index as as_index
from typing import Any

import wengert as wg
from wengert.nn.module import Module
from wengert.nn.parameter import Parameter


class _Numbered(Module):
    """Parts kept as attributes named "0", "1", "2", ...; the base of the containers in order."""

    _part: type = Module

    def _parts(self) -> list[Any]:
        return [value for name, value in self.__dict__.items() if isinstance(value, self._part) and name.isdigit()]

    def _place(self, index: Any) -> str:
        count, at = len(self), as_index(index)
        if not -count <= at < count:
            raise wg.errors.OutOfRangeError(f"{type(self).__name__} has {count} parts and none at {at}")
        return list(self._names())[at]

    def _names(self) -> Iterator[str]:
        return (name for name, value in self.__dict__.items() if isinstance(value, self._part) and name.isdigit())

    def _replace_all(self, parts: Iterable[Any]) -> None:
        kept = list(parts)
        for name in list(self._names()):
            delattr(self, name)
        for part in kept:
            self.append(part)

    def __len__(self) -> int:
        return len(self._parts())

    def __iter__(self) -> Iterator[Any]:
        return iter(self._parts())

    def __contains__(self, part: Any) -> bool:
        return any(own is part for own in self._parts())

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self._of(self._parts()[index])
        return self.__dict__[self._place(index)]

    def _of(self, parts: list[Any]) -> Any:
        made: Any = type(self)
        return made(parts)

    def __setitem__(self, index: int, part: Any) -> None:
        setattr(self, self._place(index), self._checked(part))

    def __delitem__(self, index: Any) -> None:
        parts = self._parts()
        del parts[index]
        self._replace_all(parts)

    def _checked(self, part: Any) -> Any:
        if not isinstance(part, self._part):
            raise wg.errors.DTypeError(
                f"{type(self).__name__} holds {self._part.__name__}s, and this is a {type(part).__name__}: {part!r}"
            )
        return part

    def append(self, part: Any) -> Any:
        """Add a part at the end."""
        setattr(self, str(len(self)), self._checked(part))
        return self

    def extend(self, parts: Iterable[Any]) -> Any:
        """Add parts at the end."""
        for part in parts:
            self.append(part)
        return self

    def insert(self, index: int, part: Any) -> Any:
        """Add a part before the one at `index`."""
        parts = self._parts()
        parts.insert(index, self._checked(part))
        self._replace_all(parts)
        return self


class Sequential(_Numbered):
    """Modules one after the other: each takes what the one before gave. A dict gives them names.

    >>> import wengert as wg
    >>> model = wg.nn.Sequential(wg.nn.Linear(4, 8), wg.nn.ReLU(), wg.nn.Linear(8, 1))
    >>> model(wg.zeros((5, 4))).shape, model[:2](wg.zeros((5, 4))).shape
    ((5, 1), (5, 8))
    """

    def __init__(self, *modules: Any) -> None:
        super().__init__()
        if len(modules) == 1 and isinstance(modules[0], Mapping):
            for name, module in modules[0].items():
                self.add_module(name, self._checked(module))
        else:
            self.extend(modules)

    def _names(self) -> Iterator[str]:
        return (name for name, _ in self.named_children())

    def _parts(self) -> list[Any]:
        return [module for _, module in self.named_children()]

    def _of(self, parts: list[Any]) -> Any:
        names = {id(module): name for name, module in self.named_children()}
        if all(name.isdigit() for name in names.values()):
            return Sequential(*parts)
        return Sequential({names[id(part)]: part for part in parts})

    def forward(self, input: Any) -> Any:
        """What the last module gives."""
        for module in self._parts():
            input = module(input)
        return input


class ModuleList(_Numbered):
    """Modules in a list, which `parameters` and `state_dict` see; it has no forward of its own."""

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        super().__init__()
        self.extend(modules)

    def __repr__(self) -> str:
        """Equal neighbours are shown once: `(0-11): 12 x Block(...)`."""
        groups: list[tuple[str, list[str]]] = []
        for name, child in self.named_children():
            text = repr(child)
            if groups and groups[-1][0] == text:
                groups[-1][1].append(name)
            else:
                groups.append((text, [name]))
        lines = [
            (f"({names[0]}): {text}" if len(names) == 1 else f"({names[0]}-{names[-1]}): {len(names)} x {text}")
            for text, names in groups
        ]
        body = "".join("\n  " + line.replace("\n", "\n  ") for line in lines)
        return f"{type(self).__name__}({body}\n)" if lines else f"{type(self).__name__}()"


class ModuleDict(Module):
    """Modules by name, which `parameters` and `state_dict` see; it has no forward of its own.

    >>> import wengert as wg
    >>> heads = wg.nn.ModuleDict({"class": wg.nn.Linear(8, 10), "box": wg.nn.Linear(8, 4)})
    >>> heads["box"](wg.zeros(8)).shape, list(heads)
    ((4,), ['class', 'box'])
    """

    def __init__(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] = ()) -> None:
        super().__init__()
        self.update(modules)

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Add modules by name; those whose name is there already replace it."""
        for name, module in modules.items() if isinstance(modules, Mapping) else modules:
            self[name] = module

    def __getitem__(self, name: str) -> Module:
        found = self.__dict__.get(name)
        if not isinstance(found, Module):
            raise KeyError(f"{name!r}; there are {list(self)}")
        return found

    def __setitem__(self, name: str, module: Module) -> None:
        self.add_module(name, module)

    def __delitem__(self, name: str) -> None:
        self[name]
        delattr(self, name)

    def __len__(self) -> int:
        return len(list(self.named_children()))

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, name: object) -> bool:
        return name in self.keys()

    def keys(self) -> list[str]:
        """The names."""
        return [name for name, _ in self.named_children()]

    def values(self) -> list[Module]:
        """The modules."""
        return [module for _, module in self.named_children()]

    def items(self) -> list[tuple[str, Module]]:
        """The names and modules."""
        return list(self.named_children())


class ParameterList(_Numbered):
    """Parameters in a list, which `parameters` and `state_dict` see. A Tensor becomes a Parameter."""

    _part = Parameter

    def __init__(self, parameters: Iterable[Any] = ()) -> None:
        super().__init__()
        self.extend(parameters)

    def _checked(self, part: Any) -> Any:
        return part if isinstance(part, Parameter) else Parameter(part)

    def extra_repr(self) -> str:
        """The shapes."""
        return ", ".join(f"({name}): {tuple(part.shape)}" for name, part in self.own_parameters())


class Identity(Module):
    """Gives back what it takes; other arguments to make one are ignored."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        """The input."""
        return input


class Flatten(Module):
    """The axes from `start_dim` to `end_dim` as one.

    >>> import wengert as wg
    >>> wg.nn.Flatten()(wg.zeros((2, 3, 4, 5))).shape
    (2, 60)
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: wg.Tensor) -> wg.Tensor:
        """The same elements with fewer axes."""
        return wg.flatten(input, self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """The axes."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """The axis `dim` as several, of these sizes; one may be -1."""

    def __init__(self, dim: int, unflattened_size: Iterable[int]) -> None:
        super().__init__()
        self.dim = dim
        self.unflattened_size = tuple(unflattened_size)

    def forward(self, input: wg.Tensor) -> wg.Tensor:
        """The same elements with more axes."""
        at = self.dim if self.dim >= 0 else self.dim + input.ndim
        if not 0 <= at < input.ndim:
            raise wg.errors.ShapeError(f"Unflatten: there is no axis {self.dim} in shape {input.shape}")
        return wg.reshape(input, (*input.shape[:at], *self.unflattened_size, *input.shape[at + 1 :]))

    def extra_repr(self) -> str:
        """The axis and the sizes."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
