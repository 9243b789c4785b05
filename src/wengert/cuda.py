"""What is special about GPUs: which there are, what their memory holds, and kernels of your own.

Nothing here is needed to compute on a GPU: `x.to("cuda")`, `model.to("cuda")` and `device="cuda"` are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wengert.core import devices
from wengert.core.devices import is_host
from wengert.core.dtypes import ALL, as_dtype
from wengert.core.errors import ArgumentError, DeviceError, DTypeError
from wengert.core.graph import Node, Shape
from wengert.kernels.launch import simple
from wengert.kernels.registry import register
from wengert.ops.core import data
from wengert.ops.op import Op
from wengert.tensor import Tensor, engine

if TYPE_CHECKING:
    from wengert.backends.cuda.copies import Download
    from wengert.backends.protocol import Driver
    from wengert.kernels.launch import DeviceProperties, LaunchList, Named

__all__ = [
    "Memory",
    "choices",
    "device_count",
    "download",
    "is_available",
    "kernel",
    "memory",
    "pinned",
    "set_choices",
    "stream",
    "synchronize",
    "transfers",
    "upload",
]

Extent = int | Sequence[int]


def device_count() -> int:
    """How many GPUs there are; 0 where there is none, or no driver, or the CUDA parts are not installed.

    >>> import wengert as wg
    >>> wg.cuda.device_count() >= 0
    True
    """
    return len(devices.gpus())


def is_available() -> bool:
    """Whether there is a GPU to compute on. If not, `wengert info` says why.

    >>> import wengert as wg
    >>> device = "cuda" if wg.cuda.is_available() else "cpu"
    >>> wg.ones(2, device=device).tolist()
    [1.0, 1.0]
    """
    return device_count() > 0


def synchronize(device: str = "cuda") -> None:
    """Wait until a GPU has done all that it was asked to do.

    >>> import wengert as wg
    >>> if wg.cuda.is_available():
    ...     wg.cuda.synchronize()
    """
    from wengert.runtime.dynamic.realize import synchronize as flush

    flush()
    devices.of(_named(device)).synchronize()


def stream(device: str = "cuda") -> int:
    """The CUDA stream that everything on a GPU happens in, as an address for other libraries.

    >>> import wengert as wg
    >>> if wg.cuda.is_available():
    ...     handle = wg.cuda.stream()
    """
    return int(_driver(device).stream)


def _driver(device: str) -> Driver:
    name = _named(device)
    from wengert.backends.cuda.memory import opened

    return opened(name)


def _named(device: str) -> str:
    name = devices.named(device, "cuda")
    if is_host(name):
        raise DeviceError("this is about GPUs: name one, like 'cuda'")
    return name


class Memory(NamedTuple):
    """The bytes of a GPU's memory: what tensors hold and held at most, what is kept for them, what programs work in.

    `reserved` is what was taken for tensors and is given to the next ones; `free` is what nobody has taken.

    >>> import wengert as wg
    >>> wg.cuda.Memory._fields[:2]
    ('live', 'peak')
    """

    live: int
    peak: int
    reserved: int
    arena: int
    free: int
    total: int
    device: str

    @property
    def by_line(self) -> list[tuple[str, int]]:
        """The lines of the program that made most of what is held now, with the bytes; it takes a moment to look."""
        from wengert.backends.cuda.memory import holders

        return holders(self.device)

    def __str__(self) -> str:
        names = ("live", "peak", "reserved", "arena", "free", "total")
        lines = [f"{name:<8} {getattr(self, name) / 1e6:12.1f} MB" for name in names]
        return "\n".join([*lines, *(f"         {size / 1e6:12.1f} MB  {line}" for line, size in self.by_line)])


def memory(device: str = "cuda") -> Memory:
    """What a GPU's memory holds now, and which lines of the program made it.

    >>> import wengert as wg
    >>> if wg.cuda.is_available():
    ...     print(wg.cuda.memory())
    """
    driver = _driver(device)
    from wengert.backends.cuda.memory import Usage, usage

    name = devices.named(device, "memory")
    used = usage.get(name, Usage())
    free, total = driver.memory_info()
    return Memory(used.live, used.peak, driver.reserved(), driver.arena_size, free, total, name)


def transfers() -> dict[str, int]:
    """How many copies there were between host and GPUs so far, and how many bytes they moved.

    >>> import wengert as wg
    >>> if wg.cuda.is_available():
    ...     print(wg.cuda.transfers())
    """
    from wengert.backends.cuda.memory import transfers as counted

    return dict(vars(counted))


def choices(device: str = "cuda") -> dict[str, str]:
    """Which kernel or library's algorithm was the fastest where `compile(tune=True)` has timed several, by product.

    >>> import wengert as wg
    >>> if wg.cuda.is_available():
    ...     saved = wg.cuda.choices()
    """
    from wengert.backends.cuda.libraries import choices_of

    return choices_of(_driver(device)).winners()


def set_choices(choices: Mapping[str, str], device: str = "cuda") -> None:
    """Take these, as `choices` gave them, for the programs built from now on in this process, and no others.

    >>> import wengert as wg
    >>> if wg.cuda.is_available():
    ...     wg.cuda.set_choices(wg.cuda.choices())
    """
    from wengert.backends.cuda.libraries import choices_of

    choices_of(_driver(device)).replace(choices)


# --- copies beside the work -------------------------------------------------------------------------------------------


def pinned(shape: Shape, dtype: Any = np.float32, device: str = "cuda") -> np.ndarray[Any, Any]:
    """A NumPy array in pinned memory, which a GPU reads by itself; with anything in it.

    There is less of such memory than of any other: use it again and again, filled anew.

    >>> import wengert as wg
    >>> if wg.cuda.is_available():
    ...     batch = wg.cuda.pinned((32, 64), wg.float32)
    """
    name = _named(device)
    from wengert.backends.cuda.copies import pinned as made

    return made(tuple(shape), np.dtype(as_dtype(dtype)), name)


def upload(array: Any, device: str = "cuda") -> Tensor:
    """A Tensor on a GPU with the elements of a NumPy array, copied while the host and the GPU go on with their work.

    What reads the Tensor waits for the copy. An array from `pinned` is read where it lies: change it only after
    something that was computed from the Tensor has been looked at. Any other is put into pinned memory first, and may
    be changed at once. `wg.data.DataLoader(..., device="cuda")` uploads the next batch like this during a step.

        x = wg.cuda.upload(images)

    >>> import numpy as np, wengert as wg
    >>> if wg.cuda.is_available():
    ...     x = wg.cuda.upload(np.ones(3))
    """
    name = _named(device)
    from wengert.backends.cuda.copies import upload_beside

    found = np.asarray(array)
    if found.dtype not in ALL:
        raise DTypeError(f"cuda.upload: an array of dtype {found.dtype} cannot become a tensor")
    there: Any = upload_beside(found, name)
    return Tensor(data(there, name))


def download(tensor: Tensor) -> Download:
    """The elements of a Tensor on a GPU, on their way to the host: `numpy()`, `item()` and `float()` wait for them.

    They wait for what the GPU was given before, and not for what it was given since, as looking at the Tensor would: a
    loop that looks at the loss of some steps ago keeps the GPU busy.

        losses.append(wg.cuda.download(step(x, y)))
        print(losses[-10].item())

    >>> import wengert as wg
    >>> x = wg.ones(3)
    >>> if wg.cuda.is_available():
    ...     number = wg.cuda.download(x.to("cuda").sum())
    """
    from wengert.backends.cuda.copies import Download

    if is_host(tensor.device):
        raise DeviceError("cuda.download: this tensor is on the host already")
    return Download(engine.array(tensor.node))


# --- kernels of your own --------------------------------------------------------------------------------------------

_SCALARS: dict[type, Callable[[Any], np.generic]] = {int: np.int32, float: np.float32, bool: np.int32}

CUDA_KERNEL = Op(
    "cuda_kernel",
    infer=lambda *sources, shape, dtype, **rest: (shape, as_dtype(dtype)),
    numpy=lambda *arrays, entry, **rest: _refuse(entry),
    differentiable=False,
    expensive=True,
    on_host=False,
)


def _launched(node: Node, named: Named, device: DeviceProperties) -> LaunchList:
    """The work of a kernel of the user's own."""
    from wengert.kernels.launch import Launch, LaunchList

    a, sources = node.attrs, iter(node.sources)
    arguments = [named(next(sources)) if s is None else np.frombuffer(s[1], s[0])[0] for s in a["arguments"]]
    launch = Launch(a["source"], a["entry"], a["grid"], a["block"], (*arguments, named(node)), a["shared"])
    return LaunchList((launch,))


register(CUDA_KERNEL, cuda=simple(_launched))


def _refuse(entry: str) -> Any:
    raise DeviceError(f"{entry} is a CUDA kernel: its tensors must be on a GPU, move them with .to('cuda')")


class Kernel:
    """A CUDA kernel as a function of Tensors; `wg.cuda.kernel` makes one."""

    def __init__(self, source: str, name: str, result: Any, grid: Any, block: Any, shared: int) -> None:
        self.source, self.name = source, name
        self._result, self._grid, self._block, self._shared = result, grid, block, shared

    def __call__(self, *args: Any) -> Tensor:
        """The result for these arguments: Tensors are passed as pointers, numbers as int or float; then the result."""
        tensors = [arg for arg in args if isinstance(arg, Tensor)]
        if not tensors:
            raise ArgumentError(f"{self.name}: at least one argument must be a Tensor on a GPU")
        for tensor in tensors:
            if is_host(tensor.device):
                _refuse(self.name)
        shape, dtype = self._result(*args) if self._result is not None else (tensors[0].shape, tensors[0].dtype)
        node = CUDA_KERNEL(
            *(tensor.node for tensor in tensors),
            source=self.source,
            entry=self.name,
            shape=tuple(shape),
            dtype=as_dtype(dtype),
            grid=_extent(self._grid, args, self.name),
            block=_extent(self._block, args, self.name),
            shared=self._shared,
            arguments=tuple(None if isinstance(arg, Tensor) else _scalar(arg, self.name) for arg in args),
        )
        return Tensor(node)


def _extent(extent: Any, args: Sequence[Any], name: str) -> tuple[int, int, int]:
    found = extent(*args) if callable(extent) else extent
    sizes = (found,) if isinstance(found, int) else tuple(found)
    if not 1 <= len(sizes) <= 3 or any(not isinstance(n, int) or n < 1 for n in sizes):
        raise ArgumentError(f"{name}: a grid or block is one to three positive sizes, not {found!r}")
    return (*sizes, 1, 1)[:3]


def _scalar(value: Any, name: str) -> tuple[str, bytes]:
    """A number as its dtype and its bytes: 0.0 and -0.0 are two arguments."""
    if not isinstance(value, np.generic):
        if type(value) not in _SCALARS:
            raise ArgumentError(f"{name}: arguments are Tensors and numbers, not {type(value).__name__}")
        try:
            value = _SCALARS[type(value)](value)
        except OverflowError:
            raise ArgumentError(f"{name}: {value} is no 32-bit number; pass np.int64({value}) to a long long") from None
    return value.dtype.name, value.tobytes()


def kernel(
    source: str,
    name: str,
    *,
    grid: Extent | Callable[..., Extent],
    block: Extent | Callable[..., Extent] = 256,
    result: Callable[..., tuple[Shape, Any]] | None = None,
    shared: int = 0,
) -> Kernel:
    """A CUDA kernel of your own as a function of Tensors on a GPU, compiled by NVRTC when it is first called.

    `source` is CUDA C++ with an `extern "C" __global__` function called `name`. Its parameters are the arguments in
    order (a pointer for each Tensor, an int or a float for each number; NumPy scalars keep their type) and then a
    pointer to the result, whose shape and dtype `result` gives from the arguments; without it they are those of the
    first Tensor. `grid` and `block` are sizes, or functions of the arguments. Calls are recorded, compiled and replayed
    like any op's. For a derivative wrap it in `wg.custom_vjp`.

        triple = wg.cuda.kernel(
            '''
            extern "C" __global__ void triple(const float *x, int n, float *y)
            {
                int i = blockIdx.x * blockDim.x + threadIdx.x;
                if (i < n) y[i] = 3 * x[i];
            }
            ''',
            "triple",
            grid=lambda x, n: -(-n // 256),
        )
        y = triple(x, x.size)

    >>> import wengert as wg
    >>> source = 'extern "C" __global__ void twice(const float *x, int n, float *y) { y[0] = 2 * x[0]; }'
    >>> twice = wg.cuda.kernel(source, "twice", grid=1, block=1)
    >>> if wg.cuda.is_available():
    ...     print(twice(wg.ones(1, device="cuda"), 1).tolist())
    """
    if name not in source:
        raise ArgumentError(f"cuda.kernel: the source has no function {name!r}")
    return Kernel(source, name, result, grid, block, shared)
