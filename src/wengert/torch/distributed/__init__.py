"""`torch.distributed`: Wengert's ranks under PyTorch's names; a script alone is a world of one.

Collectives write in place and at once, as PyTorch's do: what one rank does not look at has to be sent all the same.
Ranks come from `wengert torch -n 2 script.py`, `wengert launch`, mpiexec, srun or torchrun's variables.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from enum import Enum
from importlib import import_module as _import_module
from typing import Any

import wengert as wg
from wengert.core.graph import recording
from wengert.tensor import engine
from wengert.torch.missing import missing_attribute as _missing_attribute
from wengert.torch.tensor import of, write

_world: Any = None


class ReduceOp(Enum):
    """The reduction op applied to the ranks' values."""

    SUM = "sum"
    AVG = "avg"
    PRODUCT = "product"
    MIN = "min"
    MAX = "max"


class ProcessGroup:
    """All ranks."""

    def rank(self) -> int:
        """The rank of this process."""
        return get_rank()

    def size(self) -> int:
        """The number of ranks."""
        return get_world_size()


class group:
    """All ranks, as `group.WORLD`."""

    WORLD: Any = ProcessGroup()


GroupMember = group


class Work:
    """A completed collective."""

    def wait(self, timeout: Any = None) -> bool:
        """Return at once: it is done already."""
        return True

    def is_completed(self) -> bool:
        """Whether it is done."""
        return True


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: Any = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Join the world that the launcher made; without a launcher, a world of one."""
    global _world
    if _world is not None:
        raise ValueError("trying to initialize the default process group twice!")
    if world_size > 1 and "WORLD_SIZE" not in os.environ:
        raise RuntimeError(
            f"init_process_group: a world of {world_size} is started with `wengert torch -n {world_size} script.py`, "
            "or by mpiexec or srun, which tell each process its rank"
        )
    _world = wg.distributed.start()


def destroy_process_group(group: Any = None) -> None:
    """Leave the world."""
    global _world
    if _world is not None:
        engine.flush()
        _world.end()
        _world = None


def is_available() -> bool:
    """Whether there are collectives."""
    return True


def is_initialized() -> bool:
    """Whether this process is a rank."""
    return _world is not None


def is_torchelastic_launched() -> bool:
    """Whether torchrun started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def is_nccl_available() -> bool:
    """Whether NCCL is available."""
    return bool(wg.devices.gpus())


def is_mpi_available() -> bool:
    """Whether MPI is available."""
    return True


is_gloo_available = is_mpi_available


def _required() -> Any:
    if _world is None:
        raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")
    return _world


def get_rank(group: Any = None) -> int:
    """The rank of this process."""
    return int(_required().rank)


def get_world_size(group: Any = None) -> int:
    """The number of ranks."""
    return int(_required().size)


def get_backend(group: Any = None) -> str:
    """The name of the communication library."""
    return str(_required().engine)


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Any:
    """Wait for all ranks."""
    engine.flush()
    _required().barrier()
    return Work() if async_op else None


def _mesh() -> Any:
    return _required().mesh(data=-1)["data"]


def _given(tensor: Any, value: Any, async_op: bool) -> Any:
    with wg.no_grad():
        write(tensor, of(_done(value), tensor.node.dtype))
    return Work() if async_op else None


def _done(value: Any) -> Any:
    """What a collective gives, once it is over; within a function that is recorded it is part of that."""
    if recording.trace is None:
        engine.array(value.node)
    return value


def _gathered(tensor: Any) -> Any:
    """The values of all ranks, one after another along a new axis."""
    with wg.no_grad():
        return _done(wg.distributed.all_gather(wg.expand_dims(tensor.detach(), 0), 0, _mesh()))


def all_reduce(tensor: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Any:
    """Replace the tensor by the sum (or another reduction) of the ranks' values."""
    return _given(tensor, reduced(tensor.detach(), op), async_op)


def reduced(value: Any, op: Any) -> Any:
    """The reduction of the ranks' values, recorded."""
    kind = ReduceOp(op)
    with wg.no_grad():
        if kind is ReduceOp.PRODUCT:
            return wg.prod(_gathered(value), axis=0)
        if kind is ReduceOp.MIN:
            return wg.min(_gathered(value), axis=0)
        result = wg.distributed.all_reduce(value, _mesh(), "max" if kind is ReduceOp.MAX else "sum")
        return result / get_world_size() if kind is ReduceOp.AVG else result


def reduce(tensor: Any, dst: int = 0, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Any:
    """Replace the tensor on rank `dst` by the reduction of the ranks' values."""
    before = of(tensor.detach().clone())
    all_reduce(tensor, op)
    if get_rank() != dst:
        _given(tensor, before, False)
    return Work() if async_op else None


def broadcast(tensor: Any, src: int = 0, group: Any = None, async_op: bool = False) -> Any:
    """Replace the tensor by the value on rank `src`."""
    return _given(tensor, _gathered(tensor)[src], async_op)


def all_gather(tensor_list: list[Any], tensor: Any, group: Any = None, async_op: bool = False) -> Any:
    """Fill a list of tensors with the ranks' values."""
    every = _gathered(tensor)
    for i, each in enumerate(tensor_list):
        _given(each, every[i], False)
    return Work() if async_op else None


def all_gather_into_tensor(output_tensor: Any, input_tensor: Any, group: Any = None, async_op: bool = False) -> Any:
    """Fill a tensor with the ranks' values, concatenated."""
    return _given(output_tensor, wg.reshape(_gathered(input_tensor), output_tensor.node.shape), async_op)


def reduce_scatter_tensor(
    output: Any, input: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Any:
    """Fill a tensor with this rank's part of the reduction."""
    whole = of(input.detach().clone())
    all_reduce(whole, op)
    rows = wg.reshape(whole, (get_world_size(), *output.node.shape))
    return _given(output, rows[get_rank()], async_op)


def gather(
    tensor: Any, gather_list: list[Any] | None = None, dst: int = 0, group: Any = None, async_op: bool = False
) -> Any:
    """Fill a list of tensors with the ranks' values, on rank `dst`."""
    every = _gathered(tensor)
    for i, each in enumerate(gather_list or []):
        _given(each, every[i], False)
    return Work() if async_op else None


def scatter(
    tensor: Any, scatter_list: list[Any] | None = None, src: int = 0, group: Any = None, async_op: bool = False
) -> Any:
    """Fill a tensor with this rank's part of the list on rank `src`."""
    parts = [each.detach() for each in scatter_list] if scatter_list else [wg.zeros_like(tensor)] * get_world_size()
    return _given(tensor, _gathered(of(wg.stack(parts)))[src][get_rank()], async_op)


def reduce_scatter(
    output: Any, input_list: Sequence[Any], op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Any:
    """Fill a tensor with the reduction of the ranks' tensors for this rank."""
    return reduce_scatter_tensor(output, of(wg.stack([each.detach() for each in input_list])), op, group, async_op)


def all_to_all_single(
    output: Any,
    input: Any,
    output_split_sizes: Any = None,
    input_split_sizes: Any = None,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """Fill a tensor with the blocks of all ranks for this one, in rank order."""
    if output_split_sizes or input_split_sizes:
        raise RuntimeError("torch.distributed.all_to_all_single of unequal blocks is not in wengert.torch")
    with wg.no_grad():
        return _given(output, wg.distributed.all_to_all(input.detach(), 0, 0, _mesh()), async_op)


def all_to_all(
    output_tensor_list: list[Any], input_tensor_list: list[Any], group: Any = None, async_op: bool = False
) -> Any:
    """Fill a list of tensors with each rank's tensor for this one; tensors for one rank must have one shape."""
    every = _gathered(of(wg.stack([each.detach() for each in input_tensor_list])))
    for i, each in enumerate(output_tensor_list):
        _given(each, every[i][get_rank()], False)
    return Work() if async_op else None


def new_group(ranks: Sequence[int] | None = None, *args: Any, **kwargs: Any) -> Any:
    """All ranks as a group; groups of some are meshes here."""
    if ranks is not None and len(set(ranks)) != get_world_size():
        raise RuntimeError("torch.distributed.new_group of some ranks is not in wengert.torch: use world.mesh(...)")
    return group.WORLD


def get_process_group_ranks(group: Any = None) -> list[int]:
    """The ranks of a group, which is that of all."""
    return list(range(get_world_size()))


_ELSEWHERE = dict.fromkeys(
    ["all_gather_object", "broadcast_object_list", "gather_object", "scatter_object_list"], "objects"
) | dict.fromkeys(["send", "recv", "isend", "irecv"], "messages")


def __getattr__(name: str) -> Any:
    if name in _ELSEWHERE:
        return getattr(_import_module(f"wengert.torch.distributed.{_ELSEWHERE[name]}"), name)
    return _missing_attribute("torch.distributed", name)
