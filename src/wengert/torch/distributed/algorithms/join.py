"""`torch.distributed.algorithms.join`: ranks with different numbers of batches, a name that libraries ask for."""

from __future__ import annotations

from typing import Any

from wengert.torch.missing import missing_attribute as _missing_attribute


class Join:
    """A block in which ranks that have no more batches still answer the others. One rank alone needs none."""

    def __init__(self, joinables: Any, enable: bool = True, throw_on_early_termination: bool = False, **options: Any):
        from wengert.torch.distributed import get_world_size, is_initialized

        if enable and is_initialized() and get_world_size() > 1:
            raise RuntimeError(
                "torch.distributed.algorithms.join.Join is not in wengert.torch: give all ranks the same number of "
                "batches, as DistributedSampler does"
            )

    def __enter__(self) -> Join:
        return self

    def __exit__(self, *exception: Any) -> None:
        pass


def __getattr__(name: str) -> Any:
    return _missing_attribute("torch.distributed.algorithms.join", name)
