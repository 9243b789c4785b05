"""The world: all processes that run this program together, and this process's rank.

`start` reads the rank from the environment (`environment`), starts the engine that transfers bytes between ranks
(`backends/comm`), and registers it with `core.communication`, through which collectives find the other ranks. From then
on collectives work in any function. A world of one process needs no engine.
"""

from __future__ import annotations

import importlib.util
import os
import socket
import sys
from collections.abc import Sequence
from typing import Any

from wengert.backends.comm import nccl
from wengert.backends.comm.mpi import MpiEngine
from wengert.backends.comm.nccl import NcclEngine
from wengert.backends.comm.ordered import OrderedCommunicator
from wengert.backends.cpu.blas import blas
from wengert.core import communication, devices
from wengert.core.communication import Communicator, current
from wengert.core.errors import ArgumentError, DistributedError
from wengert.core.forking import in_child
from wengert.core.mesh import Group, Mesh
from wengert.distributed import control
from wengert.distributed.checkpoint import abandon_checkpoint
from wengert.distributed.environment import Launched, launched
from wengert.kernels.threads import chosen_threads, thread_count, use_threads


class World:
    """The ranks that run this program, and this process's rank among them.

    >>> from wengert.distributed import World
    >>> world = World(rank=0, size=1, local_rank=0)
    >>> world.rank, world.size, world.mesh(data=-1)
    (0, 1, Mesh(data=1))
    """

    def __init__(
        self,
        rank: int,
        size: int,
        local_rank: int,
        engine: MpiEngine | NcclEngine | None = None,
        on_device: NcclEngine | None = None,
    ) -> None:
        self.rank = rank
        self.size = size
        self.local_rank = local_rank
        self._engine = engine
        self._on_device = on_device
        self._groups: dict[Group, Communicator] = {}
        self._ended = ""

    @property
    def engine(self) -> str:
        """The library that moves host arrays between ranks: "mpi", or "nccl"; "alone" in a world of one."""
        return "alone" if self._engine is None else self._engine.name

    @property
    def library(self) -> str:
        """The engine's name and version, as it reports them."""
        return "" if self._engine is None else self._engine.library

    @property
    def on_device(self) -> str:
        """The library that moves GPU values between ranks without the host: "nccl"; empty if they go through the
        host."""
        return "" if self._on_device is None else self._on_device.name

    def mesh(self, **sizes: int) -> Mesh:
        """The ranks arranged along named axes; one size may be -1, for the remaining ranks.

        >>> World(0, 8, 0).mesh(data=-1, tensor=4)
        Mesh(data=2, tensor=4)
        """
        self._check()
        return Mesh(**_filled(sizes, self.size))

    def barrier(self) -> None:
        """Return when all ranks have called it."""
        self._check()
        if self.size > 1:
            self.everyone().barrier()

    def end(self) -> None:
        """Leave the world: collectives raise errors from now on. It is also called when the process ends."""
        self._leave("this world was ended with world.end()")

    def everyone(self) -> OrderedCommunicator:
        """This rank's engine for moving arrays between all ranks; None in a world of one."""
        found = self._find(Mesh(ranks=self.size).whole)
        assert isinstance(found, OrderedCommunicator)
        return found

    def _find(self, group: Group) -> Communicator:
        self._check()
        assert self._engine is not None
        if group not in self._groups:
            self._groups[group] = self._engine.communicator(repr(group), group.members(self.rank))
        return self._groups[group]

    def _check(self) -> None:
        if self._ended:
            raise DistributedError(self._ended)

    def _leave(self, why: str) -> None:
        global _world
        if self._on_device is not None and not self._ended:
            self._on_device.drain()  # others wait for this rank's part
            self._on_device.end(why)
        self._ended = self._ended or why
        if _world is self:
            _world = None
            current.rank, current.size, current.find, current.overlaps = 0, 1, None, False
            current.on_device = None
            communication.watcher = None
            if control.current is not None:
                control.current.close()
        if self._engine is not None:
            self._engine.end(why)

    def __repr__(self) -> str:
        return f"World(rank={self.rank}, size={self.size}, local_rank={self.local_rank}, engine={self.engine!r})"


SPARE = 2.0
"""Cores that a rank has where one of them may be for the thread that communicates."""

_world: World | None = None
stand_in: World | None = None
"""What `start` gives instead of asking the environment: a world that is not there (`scale/pretend`)."""


def start(rank: int | None = None, size: int | None = None, address: str | None = None) -> World:
    """Start the world: find out which rank this process is, and connect it to the others.

    The environment variables of `wengert launch`, `mpiexec` or `srun` are read; without any of them there is one rank.
    If you start processes in another way, pass the rank, the size and the address of the control plane.

    >>> import subprocess, sys
    >>> program = "import wengert as wg; world = wg.distributed.start(); print(world.size, world.mesh(data=-1))"
    >>> subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout
    '1 Mesh(data=1)\\n'
    """
    global _world
    if _world is not None:
        raise ArgumentError(
            f"start: this process is already rank {_world.rank} of {_world.size}; start can be called only once"
        )
    if stand_in is not None:
        return stand_in
    place = launched(rank, size, address)
    world = World(0, 1, place.local_rank or 0) if place.size == 1 else _connected(place)
    _world = world
    current.rank, current.size = world.rank, world.size
    current.find = world._find if world.size > 1 else None
    current.on_device = world._on_device
    return world


def _connected(place: Launched) -> World:
    has_mpi = place.has_mpi and importlib.util.find_spec("mpi4py") is not None
    if not has_mpi and nccl.missing():
        raise ArgumentError(_without_engine(place))
    if place.control is not None:
        control.join(place.rank, place.size, place.control, place.nonce)  # before MPI, whose own start may hang
    engine = _mpi(place) if has_mpi else None
    share = None if engine is None else lambda text: str(engine.gather(text)[0])
    joined = control.join(place.rank, place.size, share=share)
    joined.on_loss.append(abandon_checkpoint)
    communication.watcher = joined
    on_device = None if nccl.missing() else NcclEngine(place.rank, place.size, joined)
    carrier = engine or on_device
    assert carrier is not None
    cores = sorted(os.sched_getaffinity(0))
    machines = carrier.gather((socket.gethostname(), cores))
    here = [k for k, (host, _) in enumerate(machines) if host == socket.gethostname()]
    share_of_cores = _share(cores, [machines[k][1] for k in here])
    current.overlaps = share_of_cores >= SPARE
    if engine is not None:
        engine.patience.has_core = share_of_cores >= 1
    if chosen_threads() is None:
        set_threads(max(1, int(share_of_cores)))
    local = here.index(place.rank) if place.local_rank is None else place.local_rank
    if on_device is not None:
        joined.on_loss.append(on_device.abort)
        _take_gpu(local, len(here))
    return World(place.rank, place.size, local, carrier, on_device)


def _mpi(place: Launched) -> MpiEngine:
    """The MPI engine, in a world that its launcher started."""
    engine = MpiEngine()
    if (engine.rank, engine.size) != (place.rank, place.size):
        raise ArgumentError(
            f"start: {place.launcher} made this process rank {place.rank} of {place.size}, but {engine.library} "
            f"reports rank {engine.rank} of {engine.size}: mpi4py uses a different MPI than that launcher, or the "
            "script runs in "
            f"a batch job without srun. Use the mpiexec in {os.path.join(sys.prefix, 'bin')}, or srun"
        )
    engine.connect()
    return engine


def _without_engine(place: Launched) -> str:
    """The instructions in an error if no engine connects the ranks."""
    if place.has_mpi:
        return (
            f"start: {place.launcher} started {place.size} ranks, but mpi4py is not installed in {sys.prefix}: "
            "pip install 'wengert[mpi]'"
        )
    return (
        f"start: {place.launcher} started {place.size} ranks without MPI, which is needed to communicate and has its "
        "own launcher. Run `wengert launch`, with mpiexec installed (pip install 'wengert[mpi]'), "
        f"or `mpiexec -n {place.size} python script.py`. NCCL needs no MPI, but cannot be used here: {nccl.missing()}"
    )


def _take_gpu(local_rank: int, ranks: int) -> None:
    """Each rank of a machine takes a GPU as its "cuda". If there are more ranks than GPUs, ranks share them."""
    count = len(devices.gpus())
    if local_rank % count and devices.in_use():
        raise ArgumentError(
            f"start: {', '.join(devices.in_use())} was used before; rank {local_rank} of this machine uses only GPU "
            f"{local_rank % count}. Call wg.distributed.start() first"
        )
    devices.first_gpu = local_rank % count
    if ranks > count:  # which NCCL refuses by default
        os.environ.setdefault("NCCL_MULTI_RANK_GPU_ENABLE", "1")


def _share(mine: Sequence[int], all_ranks: Sequence[Sequence[int]]) -> float:
    """The number of cores of a rank, out of those it may run on, whether or not a launcher has distributed them.

    >>> _share([0, 1], [[0, 1], [0, 1]]), _share([0], [[0], [1]]), _share([0, 1], [[0, 1]] * 4)
    (1.0, 1.0, 0.5)
    """
    return round(sum(1 / sum(core in cores for cores in all_ranks) for core in mine), 9)


def set_threads(count: int | None) -> None:
    """Set the number of threads of kernels and NumPy's products; None uses one per core."""
    use_threads(count)
    found = blas()
    if found is not None:
        found.set_threads(thread_count())


def _filled(sizes: dict[str, int], ranks: int) -> dict[str, int]:
    """The sizes of a mesh's axes, with -1 replaced by the remaining factor."""
    if not sizes:
        sizes = {"data": -1}
    unknown = [name for name, size in sizes.items() if size == -1]
    known = 1
    for name, size in sizes.items():
        if size != -1:
            known *= _positive(name, size)
    if len(unknown) > 1:
        raise ArgumentError(f"mesh: one axis may be -1, not {' and '.join(unknown)}")
    if ranks % known or (not unknown and known != ranks):
        said = ", ".join(f"{name}={size}" for name, size in sizes.items())
        raise ArgumentError(f"mesh: {ranks} {'rank' if ranks == 1 else 'ranks'} cannot be arranged as {said}")
    return {name: ranks // known if size == -1 else size for name, size in sizes.items()}


def _positive(name: str, size: Any) -> int:
    if not isinstance(size, int) or size < 1:
        raise ArgumentError(
            f"mesh: the axis {name} must have at least 1 rank, or -1 for the remaining ones, not {size!r}"
        )
    return size


def _in_child() -> None:
    """A forked process has the memory of a rank, but not its connections."""
    if _world is not None and _world.size > 1:
        rank = _world.rank
        communication.watcher = None  # whose connection is the parent's
        _world._ended = f"this process was forked from rank {rank} and is not a rank itself: it cannot run collectives"
        for engine in (_world._engine, _world._on_device):
            if engine is not None:
                engine.end(_world._ended)


in_child(_in_child)
