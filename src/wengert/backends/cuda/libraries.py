"""The libraries of a GPU for a plan, and the choice among candidates: timed, and stored for later runs.

cuBLASLt supplies matrix products, cuDNN the rest. Candidates are steps that compute the same; they are timed in turn,
each alone, in its own memory, many times in a row. The winners are stored in one file per kind of GPU. A choice is
valid for a GPU, the library versions and our kernels' text; if one of them has changed, the file is ignored with a
warning until candidates are timed again.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from statistics import median
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from wengert.backends.cuda import blas, dnn, dnn_attention, fft, solver, solver_calls
from wengert.backends.cuda.calls import BoundLibraryCall, KernelCall
from wengert.backends.cuda.compile import headers
from wengert.backends.cuda.memory import opened
from wengert.backends.protocol import Driver, Replayable
from wengert.core import cache
from wengert.core.errors import OutOfMemoryError
from wengert.core.graph import Node, describe_type
from wengert.kernels.convolution.form import CONVOLUTIONS
from wengert.kernels.launch import ERROR_FLAG, FAILING_OP, Launch, TensorMap
from wengert.kernels.matmul.product import is_even, product
from wengert.ops.linalg import MATMUL
from wengert.ops.op import Op
from wengert.plan.libraries import Choice, LibraryRecipe
from wengert.plan.plan import How, LibraryCandidate, Step

SUGGESTED = 8  # ways of a library that are worth a try
FUSED = 4  # of cuDNN's with what follows a convolution: each takes it half a second to compile


_said: set[Op] = set()  # ops of which it was said that a library is missing


class CudaLibraries:
    """The suggestions of cuBLASLt and cuDNN for a device."""

    def __init__(self, device: str, tf32: bool) -> None:
        self.device, self.tf32 = device, tf32

    def candidates(self, node: Node, keeper: Node | None = None, epilogue: How = ()) -> Sequence[LibraryCandidate]:
        """The libraries' suggestions for an op, best first."""
        shape = self._shape(node, keeper, epilogue)
        if shape is None:
            return ()
        if node.op is MATMUL:
            found: Sequence[Any] = blas.candidates(shape, opened(self.device).index)
        else:
            library: Any = dnn if node.op in CONVOLUTIONS else dnn_attention
            found = library.candidates(shape, self.device)
        return found[: FUSED if epilogue and node.op in CONVOLUTIONS else SUGGESTED]

    def _shape(self, node: Node, keeper: Node | None = None, epilogue: How = ()) -> Any:
        """An op in a library's terms; None if no library supports it."""
        if node.op is MATMUL:
            if not node.size or not is_even(node):
                return None
            p = product(node)  # but for its operands, a shape begins as a product
            return blas.ProductShape(*p[2:], p.x.dtype, node.dtype, self.tf32, epilogue)
        if node.op in CONVOLUTIONS:
            return dnn.shape_of(node, self.tf32, epilogue)
        return dnn_attention.shape_of(node, keeper) if node.op in dnn_attention.ATTENTIONS else None

    def recipes(self, node: Node) -> Sequence[LibraryRecipe]:
        """The recipes of cuSOLVER, cuBLAS and cuFFT for an op."""
        if node.op in fft.TRANSFORMS:
            return fft.recipes(node, opened(self.device).index)
        return solver.recipes(node, opened(self.device).index) if node.op in solver.OPS else ()

    def say_missing(self, node: Node) -> None:
        """Warn, once per op, if the host computes it because a library is not installed."""
        known = ("cuSOLVER", solver.OPS, solver_calls.library), ("cuFFT", fft.TRANSFORMS, fft.library)
        for name, ops, library in known:
            if node.op in ops and library() is None and node.op not in _said:
                _said.add(node.op)
                what = f"{node.op.name} {describe_type(node)} is computed on the host: {name} is missing"
                warnings.warn(f"{what}; install it with: pip install 'wengert[cuda-math]'", stacklevel=2)

    def operands(self, node: Node) -> Sequence[Node]:
        """What a library's candidate for an op reads, in order."""
        if node.op is MATMUL:
            p = product(node)
            return p.x, p.y
        return dnn_attention.operands(node) if node.op in dnn_attention.ATTENTIONS else node.sources

    def about(self, node: Node) -> str:
        """The sizes, strides and dtypes that identify an op in the store of choices."""
        shape = self._shape(node)
        if shape is None:
            values = " ".join(f"{source.dtype}{list(source.shape)}" for source in (*node.sources, node))
            return f"{values} {dict(sorted(node.attrs.items()))}"
        return " ".join(
            f"{name}={value}".replace(" ", "") for name, value in vars(shape).items() if name not in ("op", "then")
        )


# --- choices --------------------------------------------------------------------------------------------------------


class Choices:
    """The choices for one GPU, by what they compute."""

    def __init__(self, device: str) -> None:
        self.device = device  # the GPU's name
        self.entry = "tuned-" + re.sub(r"\W+", "-", device) + ".json"  # in the cache
        self.found = self._read()

    @functools.cached_property
    def machine(self) -> dict[str, str]:
        """Everything about the machine that the times depend on."""
        kernels = hashlib.sha256("".join(headers().values()).encode()).hexdigest()[:12]
        found = {"device": self.device, "kernels": kernels}
        if (products := blas.library()) is not None:
            found["cuBLASLt"] = str(products.version)
        if dnn.library() is not None:
            found["cuDNN"] = str(dnn.library().backend_version())
        return found

    def __bool__(self) -> bool:
        return bool(self.found)

    def get(self, key: str) -> Choice | None:
        """The stored choice, if candidates were timed."""
        return self.found.get(key)

    def winners(self) -> dict[str, str]:
        """The names of the winners."""
        return {key: choice.winner for key, choice in self.found.items()}

    def drop(self, key: str, choice: Choice) -> None:
        """Forget a choice that does not run."""
        warnings.warn(f"{choice.winner} is no longer a candidate for {key}; the first one is used", stacklevel=2)
        del self.found[key]

    def keep(self, new: Mapping[str, Choice]) -> None:
        """Store choices, here and in the file. Choices that another process has stored in the meantime stay."""
        self.found.update(new)
        together = {**self._read(), **new}
        text = json.dumps({"machine": self.machine, "choices": {k: c._asdict() for k, c in together.items()}}, indent=1)
        cache.keep(self.entry, text.encode())

    def replace(self, choices: Mapping[str, str]) -> None:
        """Use exactly these winners in this process."""
        self.found = {key: Choice(winner, 0.0, winner, 0.0, 0) for key, winner in choices.items()}

    def _read(self) -> dict[str, Choice]:
        """The file's choices for this machine; empty, with a warning, if the file is unusable."""
        content = cache.read(self.entry)
        if content is None:
            if cache.is_damaged(self.entry):
                warnings.warn(f"{self.entry} in the cache is corrupt and is ignored: tune again", stacklevel=2)
            return {}
        try:
            stored = json.loads(content)
            machine = dict(stored["machine"])
            found = {str(key): _checked(fields) for key, fields in stored["choices"].items()}
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            warnings.warn(
                f"{self.entry} in the cache is not a file of tuned choices ({error!r}) and is ignored", stacklevel=2
            )
            return {}
        changed = [f"{k} {machine.get(k)} then, {v} now" for k, v in self.machine.items() if machine.get(k) != v]
        if changed:
            warnings.warn(f"{self.entry} in the cache is ignored, tune again: {', '.join(changed)}", stacklevel=2)
        return {} if changed else found


def _checked(fields: Any) -> Choice:
    choice = Choice(**fields)
    if not (isinstance(choice.winner, str) and isinstance(choice.first, str)):
        raise TypeError("a candidate is named by a string")
    return choice._replace(seconds=float(choice.seconds), first_seconds=float(choice.first_seconds))


_loaded: WeakKeyDictionary[Any, Choices] = WeakKeyDictionary()


def choices_of(driver: Driver) -> Choices:
    """The choices for a driver's GPU, read from the file once."""
    found = _loaded.get(driver)
    if found is None:
        found = _loaded[driver] = Choices(driver.name)
    return found


# --- timing ---------------------------------------------------------------------------------------------------------


ROUNDS = 5  # times that each candidate is timed, in turn with the others
SPAN = 1e-3  # seconds that one timing should take, by carrying a step out again and again
MOST = 64  # times in a row
HOPELESS = 1.5  # times as slow as the best in the first round: not timed again


class CandidateTimer:
    """Times the candidates of a plan on a driver's GPU."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver

    def prepare(self, launches: Iterable[Launch]) -> None:
        """Compile kernels in parallel."""
        self.driver.kernels(list(launches))

    def times(self, steps: Mapping[str, Step]) -> dict[str, float]:
        """The median seconds of each step that runs; None if there is not enough memory to time them."""
        try:
            with self.driver.lock, Bench(self.driver, steps.values()) as bench:
                return timed(bench, steps)
        except OutOfMemoryError:
            return {}


def timed(bench: Bench, steps: Mapping[str, Step]) -> dict[str, float]:
    """The median seconds of each step that runs, timed in turn; those far behind are timed once."""
    ready: dict[str, tuple[Replayable, int]] = {}
    for name, step in steps.items():
        with suppress(Exception):  # a library's way to say that it does not take these operands after all
            ready[name] = bench.repeated(step)
    times: dict[str, list[float]] = {name: [] for name in ready}
    first = next(iter(steps))
    for _ in range(ROUNDS):
        best = min((span[0] for span in times.values() if span), default=float("inf"))
        for name, (graph, count) in ready.items():
            if name == first or not times[name] or times[name][0] < HOPELESS * best:
                times[name].append(bench.driver.time(graph.replay) / count)
    return {name: median(spans) for name, spans in times.items()}


class Bench:
    """Memory for the operands, results and workspaces of some steps, so that each can run alone."""

    def __init__(self, driver: Driver, steps: Iterable[Step]) -> None:
        self.driver, self.steps = driver, list(steps)
        self.places: dict[Node, int] = {}
        self.workspace = 0

    def __enter__(self) -> Bench:
        try:
            for node in dict.fromkeys(node for step in self.steps for node in step.buffers.values()):
                self._fill(node)
            self.workspace = self.driver.allocate(
                max(sum(map(_rounded, step.workspace.values())) for step in self.steps) + 1
            )
        except OutOfMemoryError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: Any) -> None:
        self.driver.synchronize()
        for pointer in (*self.places.values(), *([self.workspace] if self.workspace else [])):
            self.driver.free(pointer)

    def _fill(self, node: Node) -> None:
        """Memory for a value, filled with random numbers: zeros would use less power, and so less time."""
        size = max(node.size * node.dtype.itemsize, 1)
        pointer = self.places[node] = self.driver.allocate(size)
        count = min(node.size, 1 << 20)
        is_float = node.dtype.kind not in "iub"
        some = (
            (np.random.default_rng(0).random(count) - 0.5).astype(node.dtype)
            if is_float
            else np.zeros(count, node.dtype)
        )
        self.driver.upload(pointer, some)
        full = some.nbytes
        while full < size:
            more = min(full, size - full)
            self.driver.copy(pointer + full, pointer, more)
            full += more

    def repeated(self, step: Step) -> tuple[Replayable, int]:
        """A graph that repeats a step many times, and the number of repetitions."""
        calls = self._calls(step)

        def once() -> None:
            for call in calls:
                call.enqueue(self.driver)

        once()  # set-up during the first call is not timed
        count = max(1, min(MOST, round(SPAN / max(self.driver.time(once), 1e-7))))
        with self.driver.capturing() as graph:
            for _ in range(count):
                once()
        graph.replay()
        return graph, count

    def _calls(self, step: Step) -> Sequence[KernelCall | BoundLibraryCall]:
        """The calls of a step, with their addresses set."""
        places = {name: self.places[node] for name, node in step.buffers.items()}
        places |= {ERROR_FLAG: self.driver.error_flag(), FAILING_OP: 0}
        at = self.workspace
        for name, size in step.workspace.items():
            places[name] = at
            at += _rounded(size)
        calls: list[KernelCall | BoundLibraryCall] = []
        if step.library is not None:
            call = BoundLibraryCall(step.library, places.get("workspace", 0), 0)
            call.pointers[:] = [places[name] for name in step.library.operands]
            calls.append(call)
        for launch in step.launches:
            own = KernelCall(self.driver.functions[launch.source, launch.entry], launch, self.driver.encode, 0)
            for position, argument in enumerate(launch.arguments):
                buffer = argument.buffer if isinstance(argument, TensorMap) else argument
                if isinstance(buffer, str):
                    own.arguments.set(position, places[buffer])
            calls.append(own)
        return calls


def _rounded(size: int) -> int:
    return -(-size // 256) * 256
