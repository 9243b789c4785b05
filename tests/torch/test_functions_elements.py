"""Functions element by element, creation and products of `wengert.torch`, beside PyTorch's."""

from __future__ import annotations

import pytest

from tests.torch.compare import same, same_error

X = [[1.5, -2.25, 0.0], [3.0, -0.5, 2.0]]

ELEMENTWISE = {
    "integers into float functions": lambda t: t.exp(t.tensor([0, 1])),
    "in place keeps the dtype": lambda t: t.tensor([1.0, 4.0], dtype=t.float64).sqrt_(),
    "add with alpha": lambda t: t.add(t.tensor([1, 2]), t.tensor([3, 4]), alpha=2),
    "number and tensor": lambda t: t.mul(t.tensor([1, 2]), 2.5),
    "0-d does not promote": lambda t: t.tensor([1.0], dtype=t.float16) * t.tensor(2.0),
    "numpy scalar does not promote": lambda t: t.tensor([1.0]) / __import__("numpy").sqrt(64.0),
    "true division of integers": lambda t: t.tensor([3, 5]) / t.tensor([2, 2]),
    "trunc division": lambda t: t.div(t.tensor([-7, 7]), 2, rounding_mode="trunc"),
    "floor division": lambda t: t.tensor([-7.0, 7.0]) // 2,
    "remainder and fmod": lambda t: (t.remainder(t.tensor([-3, 3]), 2), t.fmod(t.tensor([-3, 3]), 2)),
    "fmod of floats": lambda t: t.fmod(t.tensor(X), -1.1),
    "power": lambda t: (t.tensor([2, 3]) ** 2, t.pow(2, t.tensor([1, 2])), t.float_power(t.tensor([2, 3]), 2)),
    "clamp": lambda t: (t.clamp(t.tensor(X), -1, 1), t.tensor(X).clamp(max=1.0), t.tensor(X).clamp_min(0.5)),
    "clamp by tensors": lambda t: t.clamp(t.tensor(X), t.tensor([0.0, -1.0, 1.0]), t.tensor(2.0)),
    "clamp of integers": lambda t: t.clamp(t.tensor([1, 5]), 2.5),
    "where with numbers": lambda t: t.where(t.tensor([True, False]), 1.0, 0.0),
    "where as a method": lambda t: t.tensor([1.0, 2.0]).where(t.tensor([True, False]), t.tensor(0.0)),
    "where alone": lambda t: t.where(t.tensor([0, 1, 2])),
    "round decimals": lambda t: t.round(t.tensor([1.2345, -2.5]), decimals=2),
    "frac": lambda t: t.frac(t.tensor(X)),
    "sign of zero": lambda t: (t.sign(t.tensor(X)), t.signbit(t.tensor(X)), t.copysign(t.tensor(X), -1.0)),
    "heaviside": lambda t: t.heaviside(t.tensor(X), t.tensor(0.5)),
    "lerp": lambda t: (t.lerp(t.zeros(2), t.ones(2), 0.25), t.zeros(2).lerp_(t.ones(2), 0.5)),
    "addcmul": lambda t: t.addcmul(t.zeros(2), t.ones(2), t.tensor([2.0, 3.0]), value=0.5),
    "addcdiv in place": lambda t: t.zeros(2).addcdiv_(t.ones(2), t.tensor([2.0, 4.0]), value=-1),
    "gcd and lcm": lambda t: (t.gcd(t.tensor([12, -18, 0]), t.tensor(8)), t.lcm(t.tensor([4, 0]), t.tensor([6, 3]))),
    "bits": lambda t: (t.tensor([5]) & 3, t.bitwise_not(t.tensor([5])), t.bitwise_left_shift(t.tensor([5]), 2)),
    "logic": lambda t: (t.logical_and(t.tensor([0, 2]), t.tensor([1.0, 1.0])), ~t.tensor([True])),
    "isclose": lambda t: t.isclose(t.tensor([1.0, float("nan")]), t.tensor([1.0, float("nan")]), equal_nan=True),
    "nan_to_num": lambda t: t.nan_to_num(t.tensor([float("nan"), float("inf"), -float("inf")]), posinf=9.0),
    "isin": lambda t: t.isin(t.tensor([[1, 2], [3, 4]]), t.tensor([2, 4]), invert=True),
    "questions": lambda t: (
        t.isposinf(t.tensor([float("inf"), 1.0])),
        t.isreal(t.tensor([1.0])),
        t.isfinite(t.tensor([1])),
    ),
    "complex": lambda t: (t.complex(t.tensor([1.0]), t.tensor([2.0])), t.polar(t.tensor([2.0]), t.tensor([0.5]))),
    "angle": lambda t: (t.angle(t.tensor([1.0, -1.0])), t.angle(t.tensor([1 + 1j]))),
    "logit": lambda t: t.logit(t.tensor([0.25, 1.0]), eps=0.1),
    "xlogy": lambda t: (t.xlogy(t.tensor([0.0, 2.0]), t.tensor([0.0, 3.0])), t.xlogy(2, t.tensor([1.0, 2.0]))),
    "special": lambda t: (t.special.entr(t.tensor([0.5])), t.special.expit(t.tensor([0.0])), t.lgamma(t.tensor([3.5]))),
    "polygamma": lambda t: (t.polygamma(1, t.tensor([2.0])), t.tensor([2.0]).polygamma(2)),
    "frexp": lambda t: t.frexp(t.tensor([8.0, 0.1, 0.0, -3.0])),
    "out": lambda t: t.add(t.ones(2), 1, out=t.empty(2)),
    "comparison with a number": lambda t: (t.tensor([1, 2]).eq(1), t.tensor([1, 2]) > 1.5, t.ge(t.tensor([1.0]), 1)),
    "maximum": lambda t: t.maximum(t.tensor([1, 5]), t.tensor([2.5, float("nan")])),
    "fmax": lambda t: t.fmax(t.tensor([1.0, 5.0]), t.tensor([2.5, float("nan")])),
    "exp2, rsqrt, deg2rad": lambda t: (t.exp2(t.tensor([3])), t.rsqrt(t.tensor([4])), t.deg2rad(t.tensor([180.0]))),
    "softmax": lambda t: (t.softmax(t.tensor(X), dim=1), t.tensor(2.0).softmax(0), t.tensor(X).log_softmax(-1)),
    "softmax in another dtype": lambda t: t.softmax(t.tensor([1, 2]), 0, dtype=t.float64),
}

CREATION = {
    "variadic": lambda t: (t.zeros(2, 3), t.ones((2, 3)), t.zeros([2]), t.zeros(()), t.ones(t.Size([2]))),
    "size by name": lambda t: t.ones(size=(2, 1), dtype=t.long),
    "full": lambda t: (t.full((2,), 3), t.full((2,), 3.0), t.full((1,), True), t.full((1,), 2, dtype=t.double)),
    "arange": lambda t: (
        t.arange(5),
        t.arange(1, 4),
        t.arange(0, 1, 0.25),
        t.arange(start=2, end=9, step=3),
        t.arange(3.0),
    ),
    "arange in a dtype": lambda t: (
        t.arange(3, dtype=t.float32),
        t.arange(0.5, 4.5, dtype=t.int64),
        t.arange(5, 0, -2),
    ),
    "linspace": lambda t: (t.linspace(0, 1, 5), t.linspace(0, 10, steps=4, dtype=t.int64), t.linspace(3, 3, 1)),
    "logspace": lambda t: (t.logspace(0, 2, 3), t.logspace(0, 2, 3, base=2.0)),
    "eye": lambda t: (t.eye(2), t.eye(2, 3, dtype=t.int64)),
    "like": lambda t: (
        t.zeros_like(t.tensor([1, 2])),
        t.full_like(t.tensor([1.0]), 2),
        t.ones_like(t.eye(2), dtype=t.bool),
    ),
    "new": lambda t: (t.tensor([1, 2]).new_zeros(2, 1), t.tensor([1.0]).new_tensor([1, 2]), t.eye(1).new_full((2,), 7)),
    "tensor": lambda t: (t.tensor([1, 2]), t.tensor([1.0, 2]), t.tensor(True), t.tensor([[1], [2]], dtype=t.float16)),
    "old classes": lambda t: (t.FloatTensor([1, 2]), t.LongTensor([1]), t.IntTensor([[3]]), t.ByteTensor([1])),
    "isinstance of an old class": lambda t: (isinstance(t.ones(1), t.FloatTensor), isinstance(t.ones(1), t.LongTensor)),
    "types by name": lambda t: (t.ones(1).type(), t.typename(t.ones(1)), t.is_tensor(t.ones(1)), t.is_tensor([1])),
    "tril_indices": lambda t: (t.tril_indices(3, 3), t.triu_indices(2, 3, offset=1)),
    "block_diag": lambda t: t.block_diag(t.eye(2), t.tensor([[2.0]]), t.tensor([3.0])),
    "scalar_tensor": lambda t: (t.scalar_tensor(3), t.scalar_tensor(3, dtype=t.int32)),
    "windows": lambda t: (t.hann_window(5), t.hamming_window(4, periodic=False), t.signal.windows.cosine(4)),
    "range of a default dtype": lambda t: _with_default_double(t),
}


def _with_default_double(t):
    t.set_default_dtype(t.float64)
    try:
        return t.tensor([1.5]), t.zeros(1), t.arange(1.5), t.tensor([1, 2]) / 2, t.tensor([1, 2]).exp()
    finally:
        t.set_default_dtype(t.float32)


A, B = [[1.0, 2.0], [3.0, 4.0]], [[0.5, -1.0], [2.0, 1.5]]

PRODUCTS = {
    "matmul": lambda t: (
        t.tensor(A) @ t.tensor(B),
        t.mm(t.tensor(A), t.tensor(B)),
        t.mv(t.tensor(A), t.tensor([1.0, 2.0])),
    ),
    "bmm": lambda t: t.bmm(t.ones(2, 1, 3), t.ones(2, 3, 2)),
    "dot": lambda t: (t.dot(t.tensor([1, 2]), t.tensor([3, 4])), t.vdot(t.tensor([1j, 2]), t.tensor([3 + 0j, 4]))),
    "addmm": lambda t: t.addmm(t.tensor(A), t.tensor(A), t.tensor(B), beta=0.5, alpha=2),
    "addmm of nothing": lambda t: t.addmm(t.tensor([float("nan")]), t.tensor(A), t.tensor(B), beta=0),
    "baddbmm": lambda t: t.baddbmm(t.ones(1, 2, 2), t.tensor([A]), t.tensor([B])),
    "addr": lambda t: t.zeros(2, 2).addr_(t.tensor([1.0, 2.0]), t.tensor([3.0, 4.0])),
    "einsum": lambda t: (t.einsum("ij,jk->ik", t.tensor(A), t.tensor(B)), t.einsum("ii", t.tensor(A))),
    "einsum by numbers": lambda t: t.einsum(t.tensor(A), [0, 1], t.tensor(B), [1, 2], [0, 2]),
    "tensordot": lambda t: (
        t.tensordot(t.tensor(A), t.tensor(B), dims=1),
        t.tensordot(t.tensor(A), t.tensor(B), ([0], [1])),
    ),
    "kron": lambda t: t.kron(t.tensor(A), t.tensor([[1, 2]])),
    "cross": lambda t: t.cross(t.tensor([1.0, 0.0, 2.0]), t.tensor([0.0, 1.0, 3.0]), dim=0),
    "outer": lambda t: (t.outer(t.tensor([1, 2]), t.tensor([3, 4])), t.ger(t.tensor([1.0]), t.tensor([2.0]))),
    "trace": lambda t: (t.trace(t.tensor([[1, 2], [3, 4]])), t.tensor(A).trace()),
    "cdist": lambda t: (t.cdist(t.tensor(A), t.tensor(B)), t.cdist(t.tensor(A), t.tensor(B), p=1)),
    "linalg": lambda t: (
        t.linalg.inv(t.tensor(A)),
        t.linalg.det(t.tensor(A)),
        t.det(t.tensor(A)),
        t.inverse(t.tensor(A)),
    ),
    "norms": lambda t: (
        t.linalg.norm(t.tensor(A)),
        t.linalg.norm(t.tensor(A), 1),
        t.linalg.matrix_norm(t.tensor(A), "nuc"),
    ),
    "solve": lambda t: (
        t.linalg.solve(t.tensor(A), t.tensor([1.0, 2.0])),
        t.linalg.solve(t.tensor(A), t.tensor(B), left=False),
    ),
    "lu": lambda t: (*t.linalg.lu_factor(t.tensor(A)), *t.linalg.lu(t.tensor(A))),
    "cholesky": lambda t: t.cholesky_solve(t.tensor(B), t.linalg.cholesky(t.tensor([[2.0, 1.0], [1.0, 2.0]]))),
    "triangular": lambda t: t.linalg.solve_triangular(t.tensor(A), t.tensor(B), upper=True),
    "lstsq": lambda t: t.linalg.lstsq(t.tensor([[1.0], [2.0]]), t.tensor([[1.0], [1.0]])).solution,
    "slogdet": lambda t: t.linalg.slogdet(t.tensor(A)),
    "matrix_power": lambda t: (t.matrix_power(t.tensor(A), 3), t.linalg.matrix_exp(t.tensor(B))),
    "fft": lambda t: (
        t.fft.fft(t.tensor([1.0, 2.0, 3.0])),
        t.fft.irfft(t.fft.rfft(t.tensor(A)), n=2),
        t.fft.fftfreq(4),
    ),
    "fft over axes": lambda t: (t.fft.fft2(t.tensor(A)), t.fft.hfftn(t.tensor(A)), t.fft.fftshift(t.tensor(A))),
    "stft": lambda t: t.stft(t.arange(16.0), 4, window=t.hann_window(4), return_complex=True),
    "diff and slopes": lambda t: (t.diff(t.tensor([1, 4, 9]), n=2), t.gradient(t.tensor([1.0, 4.0, 9.0]))[0]),
    "trapezoid": lambda t: (
        t.trapezoid(t.tensor([1.0, 2.0, 4.0])),
        t.cumulative_trapezoid(t.tensor([1.0, 2.0, 4.0]), dx=2.0),
    ),
}

REFUSED = {
    "a number for the tensor": lambda t: t.exp(1.0),
    "no bounds": lambda t: t.clamp(t.ones(1)),
    "a rounding that is none": lambda t: t.div(t.ones(1), 2, rounding_mode="up"),
    "float into int in place": lambda t: t.tensor([1]).add_(0.5),
    "shapes that do not meet": lambda t: t.ones(2) + t.ones(3),
    "in place with a larger shape": lambda t: t.ones(2).add_(t.ones(3, 2)),
    "products that do not fit": lambda t: t.ones(2, 3) @ t.ones(2, 3),
    "products of two dtypes": lambda t: t.ones(2, 2) @ t.ones(2, 2, dtype=t.float64),
    "products of 0-d": lambda t: t.matmul(t.tensor(1.0), t.tensor(2.0)),
    "mm of vectors": lambda t: t.mm(t.ones(2), t.ones(2, 2)),
    "bmm of other batches": lambda t: t.bmm(t.ones(2, 1, 1), t.ones(3, 1, 1)),
    "a negative size": lambda t: t.zeros(-1),
    "a size that is no integer": lambda t: t.zeros(1.5),
    "arange without end": lambda t: t.arange(),
    "arange the wrong way": lambda t: t.arange(0, 5, -1),
    "an unknown argument": lambda t: t.zeros(2, dtyp=1),
    "a default dtype of integers": lambda t: t.set_default_dtype(t.int64),
    "a name that is nowhere": lambda t: t.nothing_of_this_name,
    "isclose of two dtypes": lambda t: t.isclose(t.ones(1), t.ones(1, dtype=t.float64)),
    "a device that is none": lambda t: t.zeros(1, device="nowhere"),
    "inverse of a singular matrix": lambda t: t.linalg.inv(t.ones(2, 3)),
    "a norm that is none": lambda t: t.linalg.matrix_norm(t.ones(2, 2), 3),
    "mean of integers": lambda t: t.tensor([1, 2]).mean(),
    "a randint without numbers": lambda t: t.randint(5, 5, (2,)),
}

CASES = ELEMENTWISE | CREATION | PRODUCTS


@pytest.mark.parametrize("name", CASES)
def test_the_same_as_pytorch(name):
    same(CASES[name], tolerance=2e-6)


@pytest.mark.parametrize("name", REFUSED)
def test_refused_as_pytorch_refuses(name):
    same_error(REFUSED[name])
