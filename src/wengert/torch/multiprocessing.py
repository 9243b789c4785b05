"""`torch.multiprocessing`: Python's own, in which tensors are pickled; `spawn` as in PyTorch."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing import *  # noqa: F403
from typing import Any


def get_sharing_strategy() -> str:
    """The sharing strategy; tensors are always copied."""
    return "file_system"


def set_sharing_strategy(new_strategy: str) -> None:
    """Do nothing: tensors are copied, whatever the strategy."""


def get_all_sharing_strategies() -> set[str]:
    """The available strategies."""
    return {"file_system"}


class ProcessRaisedException(Exception):
    """Raised when a process that `spawn` started ends with an error."""


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> Any:
    """Start processes that each call `fn(i, *args)`, and wait for them."""
    context: Any = multiprocessing.get_context(start_method)
    processes = [context.Process(target=fn, args=(i, *args), daemon=daemon) for i in range(nprocs)]
    for process in processes:
        process.start()
    if not join:
        return processes
    for i, process in enumerate(processes):
        process.join()
        if process.exitcode:
            for other in processes:
                other.terminate()
            raise ProcessRaisedException(f"process {i} of {nprocs} ended with exit code {process.exitcode}")
    return None
