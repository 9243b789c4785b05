"""Cases of the Fourier transforms. Derivatives by complex operands are in tests/complex."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.case import Case, arrays

try:
    import torch
except ImportError:  # then nothing is compared with it
    torch = None  # type: ignore[assignment]

REAL = arrays(1, (6,), (2, 5), (3, 1, 4), (4, 6))
COMPLEX = [x + 1j * y for x, y in zip(REAL, arrays(2, (6,), (2, 5), (3, 1, 4), (4, 6)))]
STRIDED = arrays(3, (8, 6))[0][::2, ::-1].T
EMPTY = np.zeros((0, 4))


def case(name: str, x: Any, options: dict[str, Any]) -> Case:
    """A transform against NumPy and torch."""
    return Case(
        f"fft.{name}",
        (x,),
        options,
        numpy=getattr(np.fft, name),
        torch=_torch_function(name, options) if x.size else None,
        vmap=x.dtype.kind == "f",
        half=name not in ("irfft", "irfft2", "irfftn", "hfft"),
        note="float32 is the narrowest real result, as complex64 is the narrowest complex dtype",
    )


def _torch_function(name: str, options: dict[str, Any]) -> Any:
    if torch is None:
        return None
    function = getattr(torch.fft, name)
    named = {{"axis": "dim", "axes": "dim"}.get(key, key): value for key, value in options.items()}
    return lambda x, **_: function(x, **named)


ONE_AXIS: list[dict[str, Any]] = [{}, {"n": 4}, {"n": 9, "norm": "ortho"}, {"axis": 0, "norm": "forward"}]
SEVERAL: list[dict[str, Any]] = [
    {},
    {"axes": (0,)},
    {"s": (3, 5), "axes": (-2, -1), "norm": "ortho"},
    {"axes": (1, 0), "norm": "forward"},
]

TWO: list[dict[str, Any]] = [{}, {"axes": (0, 1), "norm": "forward"}, {"s": (3, 5), "norm": "ortho"}]

CASES: list[Case] = []
for _name in ("fft", "ifft", "irfft", "hfft"):
    CASES += [case(_name, x, options) for x, options in zip((*COMPLEX[:2], *COMPLEX[2:], COMPLEX[3]), (*ONE_AXIS, {}))]
    CASES += [case(_name, STRIDED, {}), case(_name, EMPTY, {}), case(_name, np.ones((2, 1)), {"n": 1})]
for _name in ("rfft", "ihfft"):
    CASES += [case(_name, x, options) for x, options in zip(REAL, ONE_AXIS)]
    CASES += [case(_name, STRIDED, {"axis": 0}), case(_name, EMPTY, {}), case(_name, np.ones((2, 1)), {})]
for _name in ("fftn", "ifftn", "irfftn"):
    CASES += [case(_name, x, options) for x in (COMPLEX[1], COMPLEX[3]) for options in SEVERAL]
    CASES += [case(_name, STRIDED, {})]
for _name in ("fft2", "ifft2", "irfft2"):
    CASES += [case(_name, x, options) for x in (COMPLEX[1], COMPLEX[3]) for options in TWO]
CASES += [case("rfft2", x, options) for x in (REAL[1], STRIDED) for options in TWO]
CASES += [case("rfftn", x, options) for x in (REAL[1], REAL[3], STRIDED) for options in SEVERAL]

for _name in ("fftfreq", "rfftfreq"):
    for _n, _options in ((1, {}), (4, {}), (5, {"d": 0.1}), (8, {"d": 2.0}), (7, {})):
        options = {**_options, "dtype": np.dtype("float64")}
        reference = getattr(np.fft, _name)
        CASES.append(Case(f"fft.{_name}", (_n,), options, numpy=lambda n, d=1.0, dtype=None, f=reference: f(n, d)))

for _name in ("fftshift", "ifftshift"):
    for _x, _options in (
        (REAL[0], {}),
        (REAL[1], {}),
        (REAL[1], {"axes": 0}),
        (REAL[2], {"axes": (0, 2)}),
        (STRIDED, {"axes": -1}),
        (EMPTY, {}),
        (np.array(2.0), {}),
        (np.arange(5), {}),
    ):
        reference = getattr(np.fft, _name) if _x.ndim else lambda x: x  # NumPy's fail for 0-d arrays
        CASES.append(Case(f"fft.{_name}", (_x,), _options, numpy=reference))
