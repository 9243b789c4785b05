"""Modules that hold modules or parameters, in order or by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from operator import index as as_index
from typing import Any

import wengert as wg
from wengert.nn.module import Module
from wengert.nn.parameter import Parameter


class _Numbered(Module):
    """ModuleParts kept as attributes named "0", "1", "2", ...; the base of the containers in order."""

    _part: type = Module

    def _parts(self) -> list[Any]:
        return [self.__dict__[name] for name in self._names()]

    def _place(self, index: Any) -> str:
        count, at = len(self), as_index(index)
        if not -count <= at < count:
            raise wg.errors.OutOfRangeError(f"{type(self).__name__} has {count} parts and none at {at}")
        return list(self._names())[at]

    def _names(self) -> Iterator[str]:
        return (
            name
            for name, value in list(self._seen().items())
            if name.isdigit() and (isinstance(value, self._part) or name in self._declared)
        )

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

    def pop(self, index: int = -1) -> Any:
        """Take a part out."""
        part = self[index]
        del self[index]
        return part

    def __iadd__(self, parts: Iterable[Any]) -> Any:
        return self.extend(parts)

    def __add__(self, parts: Iterable[Any]) -> Any:
        if not isinstance(parts, (list, tuple, _Numbered)):
            return NotImplemented
        return self._of([*self._parts(), *parts])

    def __reversed__(self) -> Iterator[Any]:
        return reversed(self._parts())


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

    def __mul__(self, times: int) -> Sequential:
        """The same modules, several times over."""
        if not isinstance(times, int) or times < 1:
            raise wg.errors.ArgumentError(f"a Sequential can be repeated once or more, not {times!r} times")
        return Sequential(*self._parts() * times)

    __rmul__ = __mul__

    def __imul__(self, times: int) -> Sequential:
        return self.extend((self * times)._parts()[len(self) :])

    def forward(self, input: Any) -> Any:
        """What the last module gives."""
        for module in self._parts():
            input = module(input)
        return input


class ModuleList(_Numbered):
    """Modules in a list, which `parameters` and `state_dict` see; it has no forward of its own.

    None is a part that is left out: it keeps its index.

    >>> import wengert as wg
    >>> layers = wg.nn.ModuleList([wg.nn.Linear(2, 2), wg.nn.ReLU()])
    >>> len(layers), sum(p.size for p in layers.parameters())
    (2, 6)
    """

    def __init__(self, modules: Iterable[Module | None] = ()) -> None:
        super().__init__()
        self.extend(modules)

    def _checked(self, part: Any) -> Any:
        return None if part is None else super()._checked(part)

    def append(self, part: Any) -> Any:
        """Add a module, or None, at the end."""
        self.add_module(str(len(self)), self._checked(part))
        return self

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


class _ByName(Module):
    """ModuleParts kept as attributes under their names; the base of the containers by name."""

    _kind: str = "module"

    def _held(self) -> Any:
        return self._modules if self._kind == "module" else self._parameters

    def _put(self, name: str, part: Any) -> None:
        self.add_module(name, part)

    def update(self, parts: Any) -> None:
        """Add parts by name, from a mapping or from pairs; those whose name is there already replace it."""
        for name, part in parts.items() if hasattr(parts, "items") else parts:
            self[name] = part

    def __getitem__(self, name: str) -> Any:
        if name not in self._held():
            raise KeyError(f"{name!r}; there are {list(self)}")
        return self._held()[name]

    def __setitem__(self, name: str, part: Any) -> None:
        self._put(name, part)

    def __delitem__(self, name: str) -> None:
        self[name]
        delattr(self, name)

    def __len__(self) -> int:
        return len(self._held())

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, name: object) -> bool:
        return name in self._held()

    def keys(self) -> list[str]:
        """The names."""
        return list(self._held())

    def values(self) -> list[Any]:
        """The parts."""
        return list(self._held().values())

    def items(self) -> list[tuple[str, Any]]:
        """The names and parts."""
        return list(self._held().items())

    def pop(self, name: str) -> Any:
        """Take a part out."""
        part = self[name]
        del self[name]
        return part

    def clear(self) -> None:
        """Take all parts out."""
        for name in self.keys():
            del self[name]


class ModuleDict(_ByName):
    """Modules by name, which `parameters` and `state_dict` see; it has no forward of its own.

    >>> import wengert as wg
    >>> heads = wg.nn.ModuleDict({"class": wg.nn.Linear(8, 10), "box": wg.nn.Linear(8, 4)})
    >>> heads["box"](wg.zeros(8)).shape, list(heads)
    ((4,), ['class', 'box'])
    """

    def __init__(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] = ()) -> None:
        super().__init__()
        self.update(modules)


class ParameterList(_Numbered):
    """Parameters in a list, which `parameters` and `state_dict` see. A Tensor becomes a Parameter.

    >>> import wengert as wg
    >>> weights = wg.nn.ParameterList([wg.nn.Parameter(wg.ones(2)), wg.nn.Parameter(wg.ones(3))])
    >>> [w.size for w in weights]
    [2, 3]
    """

    _part = Parameter

    def __init__(self, parameters: Iterable[Any] = ()) -> None:
        super().__init__()
        self.extend(parameters)

    def _checked(self, part: Any) -> Any:
        return part if isinstance(part, Parameter) else Parameter(part)

    def extra_repr(self) -> str:
        """The shapes."""
        return ", ".join(f"({name}): {tuple(part.shape)}" for name, part in self.own_parameters())


class ParameterDict(_ByName):
    """Parameters by name, which `parameters` and `state_dict` see. A Tensor becomes a Parameter; it works as a dict.

    >>> import wengert as wg
    >>> scales = wg.nn.ParameterDict({"left": wg.ones(2)})
    >>> scales["right"] = wg.zeros(2)
    >>> list(scales), [name for name, _ in scales.named_parameters()]
    (['left', 'right'], ['left', 'right'])
    """

    _kind = "parameter"

    def __init__(self, parameters: Any = ()) -> None:
        super().__init__()
        self.update(parameters)

    def _put(self, name: str, part: Any) -> None:
        part = part if part is None or isinstance(part, Parameter) else Parameter(part)
        self.register_parameter(name, part)

    def copy(self) -> ParameterDict:
        """Another one with the same parameters."""
        return ParameterDict(self.items())

    def get(self, name: str, default: Any = None) -> Any:
        """The parameter of this name, or `default`."""
        return self._held().get(name, default)

    def setdefault(self, name: str, default: Any = None) -> Any:
        """The parameter of this name, which becomes `default` if there is none."""
        if name not in self:
            self[name] = default
        return self[name]

    def popitem(self) -> tuple[str, Any]:
        """Take the last parameter out, with its name."""
        if not len(self):
            raise KeyError("popitem: there are no parameters")
        name = self.keys()[-1]
        return name, self.pop(name)

    def fromkeys(self, names: Iterable[str], default: Any = None) -> ParameterDict:
        """Another one with these names, all with `default` for their value."""
        return ParameterDict((name, default) for name in names)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self.keys())

    def __or__(self, other: ParameterDict) -> ParameterDict:
        return ParameterDict([*self.items(), *other.items()])

    def __ror__(self, other: Any) -> ParameterDict:
        return ParameterDict([*other.items(), *self.items()])

    def __ior__(self, other: Any) -> ParameterDict:  # type: ignore[misc]
        self.update(other)
        return self

    def extra_repr(self) -> str:
        """The shapes."""
        return ", ".join(f"({name}): {tuple(part.shape)}" for name, part in self.own_parameters())
