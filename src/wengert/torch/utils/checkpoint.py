"""`torch.utils.checkpoint`: values that are recomputed for the backward pass instead of being kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import wengert as wg


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
    context_fn: Any = None,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """The function's result; its inner values are recomputed for the backward pass, with the same random numbers."""
    return wg.checkpoint(function)(*args, **kwargs)


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """A sequence of modules, checkpointed in this many segments; the last one keeps its values."""
    parts: Sequence[Any] = list(functions.children()) if hasattr(functions, "children") else list(functions)
    size = len(parts) // segments

    def run(start: int, end: int) -> Callable[[Any], Any]:
        def segment(x: Any) -> Any:
            for part in parts[start:end]:
                x = part(x)
            return x

        return segment

    end = 0
    for _ in range(segments - 1):
        input = checkpoint(run(end, end + size), input)
        end += size
    return run(end, len(parts))(input)
