"""One sample, judged: the value, its derivatives in both modes, second order, compiled and vmapped, against PyTorch's.

Derivatives are compared along random directions: with a cotangent c, the gradient of `Re <c, f(x)>` by every input; of
forward mode, `Re <c, jvp(t)>`, which is `Re <gradient, t>`; of second order, the product of the Hessian of that
function with t.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

import wengert as wg
from tests.oracle.opinfo.counterparts import PYTORCH_ROUNDS
from tests.oracle.opinfo.entries import Entry
from tests.oracle.opinfo.samples import MEANINGLESS_HERE, Sample, array_of, for_wengert, leaves

TOLERANCES = {
    "float64": 1e-8,
    "complex128": 1e-8,
    "float32": 1e-4,
    "complex64": 1e-4,
    "float16": 1e-2,
    "bfloat16": 2e-2,
}
SECOND_ORDER = 50.0  # times the tolerance: a second derivative loses more digits


@dataclass
class Verdict:
    """What came of one sample: how many checks agree, the errors raised, the numbers that differ."""

    tolerance: float = 0.0  # what is allowed at least, relative to the numbers compared
    agree: int = 0
    refused: list[tuple[str, Exception]] = field(default_factory=list)  # the check and its error
    wrong: list[tuple[str, str]] = field(default_factory=list)  # the check and what differs

    def check(
        self,
        name: str,
        found: Callable[[], Any],
        expected: Any,
        allowance: float = 0.0,
        times: float = 1,
        exact_dtype: bool = True,
    ) -> Any:
        """Compare what a function gives with what is expected, up to a multiple of the tolerance and an allowance."""
        try:
            values = [_array(leaf) for leaf in leaves(found())]
        except Exception as error:
            self.refused.append((name, error))
            return None
        if not exact_dtype:
            values = [value.astype(np.float64) for value in values]
        difference = differs(values, expected, self.tolerance, allowance, times)
        if difference:
            self.wrong.append((name, difference))
        else:
            self.agree += 1
        return values


class Unsuitable(Exception):
    """PyTorch itself does not compute this sample."""


def judge(entry: Entry, sample: Sample, compiled: bool, vmapped: bool) -> Verdict:
    """Compare one sample from every side."""
    verdict = Verdict(_tolerance(entry, sample))
    theirs, ours = Theirs(entry, sample), Ours(entry, sample)
    verdict.tolerance = max(verdict.tolerance, theirs.coarsest())
    if entry.through_torch and _draws(entry, sample):
        verdict.check("shape", lambda: [np.zeros(_array(a).shape) for a in ours(*ours.inputs())], theirs.shapes())
        return verdict
    wide = _wide(entry, sample)
    noise = _noise(theirs.values, wide and wide.values)
    if verdict.check("value", lambda: ours(*ours.inputs()), theirs.values, noise) is None or verdict.wrong:
        return verdict
    if compiled:
        verdict.check("compile", lambda: built(ours, ours.inputs()), theirs.values, noise)
    if sample.moving and theirs.parts and not (entry.through_torch and _values_only(entry)):
        _judge_derivatives(verdict, theirs, ours, wide, compiled)
        if vmapped:
            verdict.check("vmap", ours.lanes, ours.loop(), noise)
    return verdict


def _draws(entry: Entry, sample: Sample) -> bool:
    from tests.oracle.opinfo.through import draws

    return draws(entry.name, sample.args, sample.kwargs)


def _values_only(entry: Entry) -> bool:
    from tests.oracle.opinfo.through import VALUES_ONLY

    return entry.name in VALUES_ONLY


def _judge_derivatives(verdict: Verdict, theirs: Theirs, ours: Ours, wide: Theirs | None, compiled: bool) -> None:
    cotangents, tangents, parts = theirs.cotangents(), theirs.tangents(), theirs.parts
    gradient = theirs.gradient(cotangents)
    noise = _noise(gradient, wide and wide.gradient(cotangents))
    verdict.check("vjp", lambda: ours.gradient(parts, cotangents), gradient, noise)
    terms = [np.abs(g * t) for g, t in zip(gradient, tangents)]
    noise_of_sum = noise * sum(np.abs(t).sum() for t in tangents) + verdict.tolerance * sum(t.sum() for t in terms)
    expected = [np.asarray(inner(gradient, tangents))]
    verdict.check(
        "jvp", lambda: ours.forward(parts, cotangents, tangents), expected, float(noise_of_sum), exact_dtype=False
    )
    if theirs.entry.second_order and (hessian := theirs.second_order(cotangents, tangents)) is not None:
        noise_of_second = _noise(hessian, wide and wide.second_order(cotangents, tangents))
        product = lambda: ours.second_order(parts, cotangents, tangents)
        verdict.check("hvp", product, hessian, noise_of_second, SECOND_ORDER)
    if compiled:
        verdict.check("compile(vjp)", lambda: ours.gradient(parts, cotangents, compiled=True), gradient, noise)


def _tolerance(entry: Entry, sample: Sample) -> float:
    """That of the coarsest dtype of the inputs."""
    rounds = PYTORCH_ROUNDS.get(entry.name)
    given = sample.arrays if rounds else [sample.arrays[index] for index in sample.moving]
    return max([TOLERANCES.get(array.dtype.name, 0.0) for array in given], default=0.0) * (rounds or 1.0)


def _wide(entry: Entry, sample: Sample) -> Theirs | None:
    """A float32 sample computed by PyTorch in float64, to see how far off PyTorch itself is in float32."""
    if not any(array.dtype == np.float32 for array in sample.arrays):
        return None
    arrays = [array.astype(np.float64) if array.dtype == np.float32 else array for array in sample.arrays]
    try:
        return Theirs(entry, replace(sample, arrays=arrays))
    except Unsuitable:
        return None


def _noise(found: Sequence[np.ndarray], exact: Sequence[np.ndarray] | None) -> float:
    """A few times the error of PyTorch: where terms cancel, a tolerance relative to the result asks for too much."""
    if exact is None or len(found) != len(exact):
        return 0.0
    errors = [np.abs(a - b) for a, b in zip(found, exact) if a.dtype.kind in "fc" and a.shape == b.shape]
    finite = [error[np.isfinite(error)].max(initial=0.0) for error in errors]
    return 10.0 * float(max(finite, default=0.0))


class Theirs:
    """The sample computed by PyTorch."""

    def __init__(self, entry: Entry, sample: Sample) -> None:
        self.entry, self.sample = entry, sample
        self.tensors = [torch.from_numpy(array.copy()) for array in sample.arrays]
        for index in sample.moving:
            self.tensors[index].requires_grad_()
        self.inputs = [self.tensors[index] for index in sample.moving]
        args, kwargs = sample.filled(self.tensors)
        try:
            self.result = entry.theirs(*args, **kwargs)
            self.outputs = [leaf for leaf in leaves(self.result) if leaf is not None]
            tensors = [isinstance(leaf, torch.Tensor) for leaf in self.outputs]
            self.values = [array_of(x) if is_tensor else np.asarray(x) for x, is_tensor in zip(self.outputs, tensors)]
        except Exception as error:
            raise Unsuitable(str(error)) from error
        tracked = [isinstance(leaf, torch.Tensor) and leaf.requires_grad for leaf in self.outputs]
        self.parts = [i for i, follows in enumerate(tracked) if follows]  # the outputs that have a derivative

    def coarsest(self) -> float:
        """The tolerance of the least precise dtype of the results that follow an input."""
        names = [str(self.outputs[i].dtype).removeprefix("torch.") for i in self.parts]
        return max([TOLERANCES.get(name, 0.0) for name in names], default=0.0)

    def shapes(self) -> list[np.ndarray]:
        """Zeros of the shapes of the values."""
        return [np.zeros(value.shape) for value in self.values]

    def cotangents(self) -> list[np.ndarray]:
        return [_random(i, self.values[part]) for i, part in enumerate(self.parts)]

    def tangents(self) -> list[np.ndarray]:
        return [_random(100 + i, self.sample.arrays[index]) for i, index in enumerate(self.sample.moving)]

    def gradient(self, cotangents: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The gradient by every input."""
        found = self._differentiate([self.outputs[i] for i in self.parts], cotangents, create_graph=False)
        return [array_of(g) for g in found]

    def _differentiate(self, outputs: Any, cotangents: Any, create_graph: bool) -> list[torch.Tensor]:
        given = [torch.from_numpy(np.asarray(c)) if isinstance(c, np.ndarray) else c for c in cotangents]
        given = [c.to(output.dtype) for c, output in zip(given, outputs)]
        options: dict[str, Any] = dict(allow_unused=True, retain_graph=True, create_graph=create_graph)
        try:
            found = torch.autograd.grad(outputs, self.inputs, given, **options)
        except Exception as error:
            raise Unsuitable(str(error)) from error
        return [torch.zeros_like(x) if g is None else g for g, x in zip(found, self.inputs)]

    def second_order(self, cotangents: Any, tangents: Sequence[np.ndarray]) -> list[np.ndarray] | None:
        """The Hessian of Re <c, f> times the tangents; None where PyTorch has no second derivative."""
        try:
            first = self._differentiate([self.outputs[i] for i in self.parts], cotangents, create_graph=True)
            followed = [(g, torch.from_numpy(t)) for g, t in zip(first, tangents) if g.requires_grad]
            if not followed:
                return [np.zeros_like(array_of(x)) for x in self.inputs]
            second = self._differentiate([g for g, _ in followed], [t for _, t in followed], create_graph=False)
        except Unsuitable:
            return None
        found = [array_of(h) for h in second]
        # At a kink, such as a norm at 0, PyTorch has a subgradient and NaN of second order: nothing to compare.
        return None if any(np.isnan(h).any() for h in found) else found


class Ours:
    """The sample computed by Wengert, as a function of the arrays that derivatives are taken by."""

    def __init__(self, entry: Entry, sample: Sample) -> None:
        self.entry, self.sample = entry, sample
        self.fixed = [self._given(wg.tensor(array)) for array in sample.arrays]

    def _given(self, value: wg.Tensor) -> Any:
        """A tensor as the entry's function takes it."""
        if not self.entry.through_torch:
            return value
        from tests.oracle.opinfo.through import tensor_of

        return tensor_of(value)

    def inputs(self) -> list[wg.Tensor]:
        return [wg.tensor(self.sample.arrays[index]) for index in self.sample.moving]

    def __call__(self, *moving: wg.Tensor) -> list[Any]:
        tensors = list(self.fixed)
        for index, value in zip(self.sample.moving, moving):
            tensors[index] = self._given(value)
        if self.entry.through_torch:
            return self._as_it_is(tensors)
        args, kwargs = self.sample.filled(tensors, for_wengert)
        kwargs = {key: value for key, value in kwargs.items() if key not in MEANINGLESS_HERE}
        return [leaf for leaf in leaves(self.entry.ours(*args, **kwargs)) if leaf is not None]

    def _as_it_is(self, tensors: list[Any]) -> list[Any]:
        """The results of PyTorch's own call; what is computed from its tensors is one of them."""
        from tests.oracle.opinfo import through

        args, kwargs = self.sample.filled(tensors, through.for_ours)
        found = [leaf for leaf in leaves(self.entry.ours(*args, **kwargs)) if leaf is not None]
        assert not any(type(leaf) is wg.Tensor for leaf in found), "a result is no torch.Tensor"
        return found

    def scalar(self, parts: Sequence[int], cotangents: Sequence[np.ndarray]) -> Callable[..., wg.Tensor]:
        """Re <c, f>, whose gradient is the cotangents' pullback."""
        given = [wg.tensor(c) for c in cotangents]

        def product(*moving: wg.Tensor) -> wg.Tensor:
            outputs = self(*moving)
            terms = [wg.real(wg.sum(wg.conj(c) * outputs[i])) for i, c in zip(parts, given)]
            return sum(terms[1:], terms[0])

        return product

    def gradient(self, parts: Sequence[int], cotangents: Sequence[np.ndarray], compiled: bool = False) -> Any:
        function = wg.grad(self.scalar(parts, cotangents), argnums=tuple(range(len(self.sample.moving))))
        return built(function, self.inputs()) if compiled else function(*self.inputs())

    def forward(self, parts: Sequence[int], cotangents: Any, tangents: Sequence[np.ndarray]) -> Any:
        return wg.jvp(self.scalar(parts, cotangents), self.inputs(), [wg.tensor(t) for t in tangents])[1]

    def second_order(self, parts: Sequence[int], cotangents: Any, tangents: Sequence[np.ndarray]) -> Any:
        found = wg.hvp(self.scalar(parts, cotangents), self.inputs(), [wg.tensor(t) for t in tangents])
        return found if isinstance(found, (list, tuple)) else [found]

    def _lane(self, lane: int) -> list[np.ndarray]:
        """Inputs near the sample's: a factor close to 1 keeps them in their domains."""
        arrays = [self.sample.arrays[index] for index in self.sample.moving]
        return [(array * (1.0 - lane / 1024)).astype(array.dtype) for array in arrays]

    def lanes(self) -> Any:
        """The function vmapped over two lanes."""
        return wg.vmap(self)(*[wg.tensor(np.stack(pair)) for pair in zip(self._lane(0), self._lane(1))])

    def loop(self) -> list[np.ndarray]:
        """What the two lanes give one after the other."""
        results = [self(*[wg.tensor(array) for array in self._lane(lane)]) for lane in range(2)]
        return [np.stack([_array(a), _array(b)]) for a, b in zip(*results)]


def built(function: Callable[..., Any], inputs: Sequence[wg.Tensor]) -> list[np.ndarray]:
    """What a function gives when it is compiled to C, whatever the tier of dynamic code is."""
    before = wg.config.tier
    wg.config.tier = "auto"
    try:
        return [_array(leaf) for leaf in leaves(wg.compile(function)(*inputs))]
    finally:
        wg.config.tier = before


# --- comparing ------------------------------------------------------------------------------------------------------


def inner(a: Sequence[np.ndarray], b: Sequence[np.ndarray]) -> float:
    """Re <a, b>."""
    return float(sum(np.real(np.sum(np.conj(x) * y)) for x, y in zip(a, b)))


def differs(
    found: Sequence[np.ndarray], expected: Sequence[np.ndarray], least: float, allowance: float, times: float
) -> str:
    """In what two results differ; empty if they agree."""
    if len(found) != len(expected):
        return f"{len(found)} results instead of {len(expected)}"
    for a, b in zip(found, expected):
        if a.shape != b.shape:
            return f"shape {a.shape} instead of {b.shape}"
        if a.dtype != b.dtype:
            return f"dtype {a.dtype} instead of {b.dtype}"
        tolerance = times * max(TOLERANCES.get(a.dtype.name, 0.0), TOLERANCES.get(b.dtype.name, 0.0), least)
        if not close(a, b, tolerance if b.dtype.kind in "fc" else 0.0, allowance):
            return f"{_brief(a)} instead of {_brief(b)}"
    return ""


def close(a: np.ndarray, b: np.ndarray, tolerance: float, allowance: float) -> bool:
    """Whether two arrays are equal up to a tolerance, relative to each value and to the largest of them."""
    if tolerance == 0:
        return bool(np.array_equal(a, b))
    finite = np.abs(b[np.isfinite(b)])
    largest = float(finite.max(initial=0.0))
    atol = tolerance * max(min(largest, 1e30), 1e-3) + allowance
    return bool(np.allclose(a, b, rtol=tolerance, atol=atol, equal_nan=True))


def _brief(array: np.ndarray) -> str:
    text = " ".join(np.array2string(array, threshold=8, precision=6).split())
    return text if len(text) < 120 else text[:117] + "..."


def _random(seed: int, like: np.ndarray) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = rng.uniform(0.5, 1.5, like.shape) * rng.choice([-1.0, 1.0], like.shape)
    if like.dtype.kind == "c":
        values = values + 1j * rng.uniform(0.5, 1.5, like.shape)
    return np.asarray(values).astype(like.dtype)


def _array(leaf: Any) -> np.ndarray:
    array = leaf.numpy() if isinstance(leaf, wg.Tensor) else np.asarray(leaf)
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array  # as `array_of` gives PyTorch's
