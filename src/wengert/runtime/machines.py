"""Machines: for each kind of device what interprets nodes, and what moves values. CUDA is loaded on first use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wengert.backends import numpy as reference
from wengert.backends.cpu import draws
from wengert.backends.cpu.recycle import is_sole_base
from wengert.core import devices
from wengert.core.errors import DeviceError
from wengert.core.graph import Graph, Node
from wengert.ops import random
from wengert.runtime.config import config


def interpret(order: Sequence[Node], keep: set[Node], failure: Callable[[Exception, Node], Any], device: str) -> None:
    """Compute nodes one by one on a device."""
    if device == "cpu":
        reference.run(order, keep, failure)
        return
    from wengert.backends.cuda.interpret import Settings, run

    run(order, keep, failure, Settings(device, config.tf32, config.check))


def on_gpu(graph: Graph) -> bool:
    """Whether some of a graph's values are on a GPU: then all of it is computed there."""
    return any(node.device != "cpu" for node in (*graph.nodes, *graph.inputs, *graph.outputs))


def moved(array: Any, device: str) -> Any:
    """An array on another device."""
    if device == "cpu":
        return on_host(array)
    from wengert.backends.cuda.memory import upload

    return upload(on_host(array), device)


def on_host(array: Any) -> np.ndarray[Any, Any]:
    """An array on the host: itself, or a copy that comes down."""
    if isinstance(array, np.ndarray):
        return array
    from wengert.backends.cuda.memory import download

    return download(array)


def is_sole(array: Any) -> bool:
    """Whether whoever looks at an array's memory refers to this very array: its references tell who does."""
    return is_sole_base(array) if isinstance(array, np.ndarray) else array.is_sole()


def owns_memory(array: Any) -> bool:
    """Whether whoever will ever look at an array's memory refers to this very array: it is no view of another."""
    return not (isinstance(array, np.ndarray) and type(array.base) is np.ndarray) and is_sole(array)


def wait_for_gpus() -> None:
    """Wait until all that are in use have done what they were asked to do."""
    for device in devices.in_use():
        from wengert.backends.cuda.driver import opened

        opened(device).synchronize()


def _open(device: str) -> None:
    from wengert.backends.cuda.driver import opened

    opened(device)


def _gpus() -> list[str]:
    from wengert.backends.cuda.bindings import count

    try:
        return [f"cuda:{i}" for i in range(count())]
    except DeviceError:
        return []


devices.opener = _open
devices.on_change = config.changed
devices.lister = _gpus
random.drawer = draws.fill
