"""The contents of a module: parameters, buffers and modules, in its attributes.

Everything is stored in plain attributes, which are fastest to read: a Parameter or Module that is set as one becomes
part of the model, a Tensor does when it is registered as a buffer. `_parameters`, `_buffers` and `_modules` are the
same things by kind, as mappings that can be written too. What is learned or counted is a Tensor and changes by
`assign`; every other attribute is fixed while a step is recorded, and setting one increments `wg.config.version`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

import wengert as wg
from wengert.api.spelling_hints import nearest
from wengert.nn.parameter import Parameter

if TYPE_CHECKING:
    from wengert.nn.module import Module

_NOTHING = object()
_SPELLINGS = {
    "bfloat16": "to(wg.bfloat16)",
    "cpu": 'to("cpu")',
    "cuda": 'to("cuda")',
    "double": "to(wg.float64)",
    "float": "to(wg.float32)",
    "half": "to(wg.float16)",
    "share_memory": "state_dict() and send that: values are copied between processes, since memory is not shared",
    "type": "to(dtype)",
}
_KINDS = {"parameter": "a Parameter", "buffer": "a Tensor", "module": "a Module"}


class HeldByKind(MutableMapping[str, Any]):
    """The parameters, buffers or modules set on one module, by name: `module._parameters`.

    Reading, setting and deleting an item reads, sets and deletes the attribute. Unlike the attribute, an item accepts
    any value: writing here decides the kind of the name.
    """

    def __init__(self, module: ModuleParts, kind: str) -> None:
        self._module = module
        self._kind = kind

    def __getitem__(self, name: str) -> Any:
        if self._module._kind_of(name) != self._kind:
            raise KeyError(name)
        return self._module.__dict__[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self._module._declare(name, self._kind, value)

    def __delitem__(self, name: str) -> None:
        self[name]
        delattr(self._module, name)

    def items(self) -> Any:
        """Names and values, as a view that can also be iterated in reverse."""
        return dict(self).items()

    def values(self) -> Any:
        """The values."""
        return dict(self).values()

    def __iter__(self) -> Iterator[str]:
        module = self._module
        names = module._persistent if self._kind == "buffer" else list(module._seen())
        return (name for name in names if module._kind_of(name) == self._kind)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return repr(dict(self))

    def copy(self) -> dict[str, Any]:
        """The same names and values as a dict of its own."""
        return dict(self)


def _held(kind: str) -> property:
    def mapping(self: ModuleParts) -> HeldByKind:
        return HeldByKind(self, kind)

    def replace(self: ModuleParts, items: Mapping[str, Any]) -> None:
        kept, own = dict(items), HeldByKind(self, kind)
        for name in list(own):
            del own[name]
        own.update(kept)

    return property(mapping, replace, doc=f"The {kind}s set on this module itself, by name; live, and writable.")


class ModuleParts:
    """The part of a module that holds parameters, buffers and submodules; see `Module`."""

    # Defaults that a module shadows when it has its own, so that there is nothing a subclass must not forget to set up.
    _persistent: Mapping[str, bool] = {}  # the names of the buffers, and whether each is saved
    _declared: Mapping[str, str] = {}  # the kinds of names whose value does not tell: None, or a Tensor put in by hand
    _recorded: bool = False  # whether it was called, or gone through while a function was recorded

    _parameters = _held("parameter")
    _buffers = _held("buffer")
    _modules = _held("module")

    @property
    def _non_persistent_buffers_set(self) -> set[str]:
        """The names of the buffers that are not saved."""
        return {name for name, saved in self._persistent.items() if not saved}

    # --- attributes -------------------------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        kind = self._kind_of(name)
        if kind is None:
            self._set(name, value)
        else:
            self._check_replaced(name, kind, value)
            now = "parameter" if isinstance(value, Parameter) else "module" if isinstance(value, ModuleParts) else kind
            self._declare(name, now, value)

    def _set(self, name: str, value: Any) -> None:
        before = self.__dict__.get(name, _NOTHING)
        if before is _NOTHING:
            before = getattr(type(self), name, _NOTHING)
        object.__setattr__(self, name, value)
        # What was never set before cannot have been recorded: building a module changes nothing.
        if (before is not _NOTHING or self._recorded) and not _same(before, value):
            wg.config.changed()

    def _check_replaced(self, name: str, kind: str, value: Any) -> None:
        if (
            value is None
            or isinstance(value, (Parameter, ModuleParts))
            or (kind == "buffer" and isinstance(value, wg.Tensor))
        ):
            return
        to_change = (
            f"To set its value write self.{name}.assign(value) inside `with wg.no_grad():`; to make it a plain "
            "attribute, delete it first"
        )
        raise wg.errors.DTypeError(
            f"cannot assign a {type(value).__name__} as {kind} {name!r} of {type(self).__name__}: it takes "
            f"{_KINDS[kind]} or None. " + ("" if kind == "module" else to_change)
        )

    def _kind_of(self, name: str) -> str | None:
        """ "parameter", "buffer" or "module", or None for an attribute that is neither."""
        if name in self._persistent:
            return "buffer"
        value = self.__dict__.get(name)
        if isinstance(value, Parameter):
            return "parameter"
        return "module" if isinstance(value, ModuleParts) else self._declared.get(name)

    def _declare(self, name: str, kind: str, value: Any) -> None:
        """Set an attribute that is of this kind, whatever the value tells."""
        tells = isinstance(value, Parameter if kind == "parameter" else ModuleParts) and kind != "buffer"
        if kind == "buffer":
            self.__dict__["_persistent"] = {**self._persistent, name: self._persistent.get(name, True)}
        elif name in self._persistent:
            self._forget(name)
        if kind != "buffer" and not tells:
            self.__dict__["_declared"] = {**self._declared, name: kind}
        elif name in self._declared:
            self.__dict__["_declared"] = {key: kept for key, kept in self._declared.items() if key != name}
        self._set(name, value)

    def _forget(self, name: str) -> None:
        for record in ("_persistent", "_declared"):
            kept: Mapping[str, Any] = getattr(self, record)
            if name in kept:
                self.__dict__[record] = {key: value for key, value in kept.items() if key != name}

    def __delattr__(self, name: str) -> None:
        object.__delattr__(self, name)
        self._forget(name)
        wg.config.changed()

    def __getattr__(self, name: str) -> Any:
        kind = type(self).__name__
        if name in _SPELLINGS:
            raise AttributeError(f"{kind} has no {name!r}: write .{_SPELLINGS[name]}")
        raise AttributeError(f"{kind} has no attribute {name!r}{nearest(name, dir(self))}")

    def register_parameter(self, name: str, parameter: Parameter | None) -> None:
        """Set a Parameter (or None for an omitted one) as an attribute; for names computed at run time."""
        if parameter is not None and not isinstance(parameter, Parameter):
            raise wg.errors.DTypeError(f"register_parameter: {name!r} is a {type(parameter).__name__}, not a Parameter")
        if self._kind_of(name) != "parameter":
            self._require_free(name)
        self._declare(name, "parameter", parameter)

    def register_buffer(self, name: str, tensor: wg.Tensor | None, persistent: bool = True) -> None:
        """Register a Tensor that is not learned (a running mean, a table) as a buffer; it is saved if `persistent`."""
        if tensor is not None and not isinstance(tensor, wg.Tensor):
            raise wg.errors.DTypeError(f"register_buffer: {name!r} is a {type(tensor).__name__}, not a Tensor")
        if name not in self._persistent:
            self._require_free(name)
        self.__dict__["_persistent"] = {**self._persistent, name: persistent}
        self._set(name, tensor)

    def add_module(self, name: str, module: Module | None) -> None:
        """Set a Module as an attribute; for names computed at run time."""
        if module is not None and not isinstance(module, ModuleParts):
            raise wg.errors.DTypeError(f"add_module: {name!r} is a {type(module).__name__}, not a Module")
        if self._kind_of(name) != "module":
            self._require_free(name)
        self._declare(name, "module", module)

    def register_module(self, name: str, module: Module | None) -> None:
        """The same as `add_module`."""
        self.add_module(name, module)

    def _require_free(self, name: str) -> None:
        if not isinstance(name, str) or "." in name or not name:
            raise wg.errors.ArgumentError(
                f"{name!r} cannot name a part of a module: a name must be a string without dots"
            )
        if hasattr(type(self), name) or self.__dict__.get(name) is not None:
            raise wg.errors.ArgumentError(f"{type(self).__name__} already has an attribute {name!r}")

    # --- what it holds ----------------------------------------------------------------------------------------------

    def _seen(self) -> dict[str, Any]:
        """The attributes, to be gone through; what is recorded here depends on which there are."""
        if wg.graph.recording.trace is not None:
            self.__dict__["_recorded"] = True
        return self.__dict__

    def own_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """The parameters set on this module itself, with their names."""
        declared = self._declared
        for name, value in list(self._seen().items()):
            is_one = isinstance(value, Parameter) or (value is not None and declared.get(name) == "parameter")
            if is_one and name not in self._persistent:
                yield name, value

    def own_buffers(self, persistent_only: bool = False) -> Iterator[tuple[str, wg.Tensor]]:
        """The buffers registered on this module itself, with their names."""
        self._seen()
        for name, saved in self._persistent.items():
            if self.__dict__.get(name) is not None and (saved or not persistent_only):
                yield name, self.__dict__[name]

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules set on this module itself, with their names."""
        for name, value in list(self._seen().items()):
            if isinstance(value, ModuleParts):
                yield name, value  # type: ignore[misc]

    def children(self) -> Iterator[Module]:
        """The modules set on this module itself."""
        seen: set[int] = set()
        for _, module in self.named_children():
            if id(module) not in seen:
                seen.add(id(module))
                yield module

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This module and all submodules, outermost first, with their paths. A shared module is listed once.

        Modules in `memo` are skipped, and those yielded are added to it.
        """
        seen = {id(module) for module in memo or ()}
        stack: list[tuple[str, Any]] = [(prefix, self)]
        while stack:
            path, module = stack.pop()
            if remove_duplicate and id(module) in seen:
                continue
            seen.add(id(module))
            if memo is not None:
                memo.add(module)
            yield path, module
            within = [(f"{path}.{name}" if path else name, child) for name, child in module.named_children()]
            stack.extend(reversed(within))

    def modules(self) -> Iterator[Module]:
        """This module and all submodules, each once."""
        return (module for _, module in self.named_modules())

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """The parameters of this module and all submodules, with their paths. A shared one is listed once."""
        yield from self._gathered(ModuleParts.own_parameters, prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters of this module and all submodules, each once: pass them to an optimizer."""
        return (parameter for _, parameter in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, wg.Tensor]]:
        """The buffers of this module and all submodules, with their paths. A shared one is listed once."""
        yield from self._gathered(ModuleParts.own_buffers, prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[wg.Tensor]:
        """The buffers of this module and all submodules, each once."""
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    def _gathered(
        self, own: Callable[[Any], Iterator[Any]], prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        places: Any = [(prefix, self)]
        if recurse:
            places = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        for path, module in places:
            for name, slot in own(module):
                if not remove_duplicate or id(slot) not in seen:
                    seen.add(id(slot))
                    yield f"{path}.{name}" if path else name, slot

    # --- by path ----------------------------------------------------------------------------------------------------

    def get_submodule(self, path: str) -> Module:
        """The module at a path such as "encoder.layers.3"; the empty path is this module."""
        module: Any = self
        for name in path.split(".") if path else []:
            module = getattr(module, name)
        if not isinstance(module, ModuleParts):
            raise wg.errors.ArgumentError(f"{path!r} is a {type(module).__name__}, not a Module")
        return module  # type: ignore[return-value]

    def set_submodule(self, path: str, module: Module, strict: bool = False) -> None:
        """Set the module at a path. With `strict` there must already be one.

        >>> import wengert as wg
        >>> model = wg.nn.Sequential(wg.nn.Linear(2, 2), wg.nn.ReLU())
        >>> model.set_submodule("1", wg.nn.Tanh())
        >>> model[1]
        Tanh()
        """
        outer, _, name = path.rpartition(".")
        if not name:
            raise wg.errors.ArgumentError("set_submodule: the path is empty, and a module cannot replace itself")
        if not isinstance(module, ModuleParts):
            raise wg.errors.DTypeError(f"set_submodule: {path!r} is a {type(module).__name__}, not a Module")
        around = self.get_submodule(outer)
        if strict or hasattr(around, name):
            self.get_submodule(path)  # raises where there is none
        setattr(around, name, module)

    def get_parameter(self, path: str) -> Parameter:
        """The parameter at a path such as "encoder.layers.3.weight"."""
        return self._at(path, "parameter")

    def get_buffer(self, path: str) -> wg.Tensor:
        """The buffer at a path such as "norm.running_mean"."""
        return self._at(path, "buffer")

    def _at(self, path: str, kind: str) -> Any:
        outer, _, name = path.rpartition(".")
        module = self.get_submodule(outer)
        found = getattr(module, name)
        if module._kind_of(name) != kind:
            raise AttributeError(f"{path!r} is not a {kind}, but a {type(found).__name__}")
        return found


def _same(before: Any, after: Any) -> bool:
    """Whether setting an attribute again left it as it was. Values of other kinds may have changed within."""
    if before is after:
        return True
    return type(before) is type(after) and type(after) in (bool, int, float, str) and before == after
