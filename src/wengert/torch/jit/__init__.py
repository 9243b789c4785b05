"""`torch.jit`: scripting and tracing are the identity, since Wengert records what runs; it says so once."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any
from typing import Final as Final

from wengert.torch.nn.module import Module

_said: set[str] = set()


def _say(what: str) -> None:
    if what not in _said:
        _said.add(what)
        warnings.warn(
            (f"torch.jit.{what} returns the function unchanged, because Wengert compiles what runs"), stacklevel=3
        )


def script(obj: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the function or module unchanged."""
    _say("script")
    return obj


def trace(func: Any, example_inputs: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Return the function or module unchanged."""
    _say("trace")
    return func


def ignore(function: Any = None, **options: Any) -> Any:
    """Return the function unchanged."""
    return (lambda given: given) if function is None else function


unused = export = script_method = script_if_tracing = ignore


class ScriptModule(Module):
    """PyTorch's class of scripted modules; no module is an instance of it here."""


RecursiveScriptModule = TopLevelTracedModule = ScriptModule
ScriptFunction = type("ScriptFunction", (), {"__doc__": "What scripting a function gives in PyTorch; there is none."})


def is_scripting() -> bool:
    """Whether a function is being scripted: never."""
    return False


is_tracing = is_scripting


def annotate(the_type: Any, value: Any) -> Any:
    """The value."""
    return value


def save(module: Any, file: Any) -> None:
    """Raise an error: there is no TorchScript here."""
    raise RuntimeError("torch.jit.save: TorchScript is not supported; save module.state_dict() with torch.save")


def load(file: Any, *args: Any, **kwargs: Any) -> Any:
    """Raise an error: there is no TorchScript here."""
    raise RuntimeError("torch.jit.load: TorchScript is not supported; build the module and load its state_dict")


def fork(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call the function; `wait` returns its result."""
    return function(*args, **kwargs)


def wait(value: Any) -> Any:
    """Return the result of `fork`."""
    return value
