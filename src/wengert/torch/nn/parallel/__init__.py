"""`torch.nn.parallel`: `DistributedDataParallel` over Wengert's ranks, and `DataParallel` on one device."""

from __future__ import annotations

import contextlib
from typing import Any

import wengert as wg
from wengert.torch import distributed
from wengert.torch.missing import missing_attribute as _missing_attribute
from wengert.torch.nn.module import Module
from wengert.torch.tensor import of, write


class DistributedDataParallel(Module):
    """A module whose parameters are the same on all ranks, and whose gradients are averaged over them.

    Each parameter's gradient is averaged separately, after a backward pass has added to it.
    """

    def __init__(
        self,
        module: Any,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool = True,
        init_sync: bool = True,
        process_group: Any = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self.module = module
        self.require_backward_grad_sync = True
        self.broadcast_buffers = broadcast_buffers
        if init_sync:
            for slot in [*module.parameters(), *module.buffers()]:
                distributed.broadcast(slot.detach(), 0)
        for parameter in module.parameters():
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(self._average)

    def _average(self, parameter: Any) -> None:
        if self.require_backward_grad_sync and distributed.get_world_size() > 1:
            gradient = parameter.grad  # recorded, so that all of a pass are sent together
            with wg.no_grad():
                write(gradient, of(distributed.reduced(gradient.detach(), distributed.ReduceOp.AVG)))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module with the buffers of rank 0."""
        is_shared = self.broadcast_buffers and self.training and self.require_backward_grad_sync
        if is_shared and distributed.get_world_size() > 1:
            for buffer in self.module.buffers():
                distributed.broadcast(buffer, 0)
        return self.module(*args, **kwargs)

    def no_sync(self) -> Any:
        """A context in which gradients accumulate on each rank separately."""

        @contextlib.contextmanager
        def block() -> Any:
            before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
            try:
                yield
            finally:
                self.require_backward_grad_sync = before

        return block()


class DataParallel(Module):
    """A module on one device, with the names it has in the state dicts of `DataParallel`."""

    def __init__(self, module: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0) -> None:
        super().__init__()
        if len(wg.devices.gpus()) > 1 and device_ids is not None and len(device_ids) > 1:
            raise RuntimeError("DataParallel over several GPUs is not in wengert.torch: use DistributedDataParallel")
        self.module = module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module."""
        return self.module(*args, **kwargs)


def data_parallel(
    module: Any,
    inputs: Any,
    device_ids: Any = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """Call the module on one device."""
    replica = DataParallel(module, None if device_ids is None else list(device_ids), output_device, dim)
    return replica(*(inputs if isinstance(inputs, tuple) else (inputs,)), **(module_kwargs or {}))


def __getattr__(name: str) -> Any:
    return _missing_attribute("torch.nn.parallel", name)
