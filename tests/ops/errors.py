"""Calls that raise on some values: for every op that can fail, values it takes and values it must refuse.

A value is refused wherever it is computed: op by op, compiled, in a gradient, in a batch, on a GPU. `outcomes` computes
a call in each of these ways and says in which it raised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import wengert as wg
from wengert.core.errors import WengertError


class Failing(NamedTuple):
    """A function with arguments that it takes, and others that it refuses by their values alone."""

    name: str
    function: Callable[..., Any]
    good: tuple[Any, ...]
    bad: list[tuple[Any, ...]]


def _f(*values: Any) -> Any:
    return np.array(values, np.float32)


def _i(*values: Any, dtype: Any = np.int64) -> Any:
    return np.array(values, dtype)


_ROWS = np.arange(12, dtype=np.float32).reshape(4, 3)
_REGULAR = np.array([[2.0, 1.0], [1.0, 3.0]], np.float32)
_SINGULAR = np.array([[1.0, 2.0], [2.0, 4.0]], np.float32)
_INDEFINITE = np.array([[1.0, 2.0], [2.0, 1.0]], np.float32)
_NANS = np.full((2, 2), np.nan, np.float32)
_OUT_OF_RANGE = [_i(4, 0), _i(0, -5), _i(2**40, 1), _i(-(2**63), 1)]
_ALONG = [_i([3], [0], [1], [2]), _i([0], [-4], [1], [2]), _i([0], [2**33], [0], [0])]


def _indexing() -> Iterator[Failing]:
    bad = [(index,) for index in _OUT_OF_RANGE]
    rows, good = wg.tensor(_ROWS), (_i(3, -4),)
    yield Failing("x[i]", lambda i: rows[i], good, bad)
    yield Failing("x[i, j]", lambda i: rows[i, i - i], good, bad)
    yield Failing("take", lambda i: wg.take(rows, i, axis=0), good, bad)
    yield Failing(
        "take int32",
        lambda i: wg.take(rows, i, axis=0),
        (_i(3, -4, dtype=np.int32),),
        [(i.astype(np.int32),) for i in _OUT_OF_RANGE[:2]],
    )
    yield Failing(
        "take uint8", lambda i: wg.take(rows, i, axis=0), (_i(3, 0, dtype=np.uint8),), [(_i(4, 255, dtype=np.uint8),)]
    )
    yield Failing("index_select", lambda i: wg.index_select(rows, 0, i), good, bad)
    yield Failing("index_add", lambda i: wg.index_add(rows, 0, i, wg.ones((2, 3))), good, bad)
    yield Failing("index_put", lambda i: wg.index_put(rows, (i,), wg.ones((2, 3))), good, bad)
    yield Failing("index_put added", lambda i: wg.index_put(rows, (i,), wg.ones((2, 3)), accumulate=True), good, bad)
    along, wrong = (_i([0], [-3], [1], [2]),), [(index,) for index in _ALONG]
    yield Failing("take_along_axis", lambda i: wg.take_along_axis(rows, i, axis=1), along, wrong)
    yield Failing("put_along_axis", lambda i: wg.put_along_axis(rows, i, 5.0, axis=1), along, wrong)
    yield Failing("gather", lambda i: wg.gather(rows, 1, i), (_i([0], [2], [1], [2]),), wrong)
    yield Failing("scatter", lambda i: wg.scatter(rows, 1, i, wg.ones((4, 1))), (_i([0], [2], [1], [2]),), wrong)
    yield Failing(
        "scatter_add", lambda i: wg.scatter_add(rows, 1, i, wg.ones((4, 1))), (_i([0], [2], [1], [2]),), wrong
    )
    softly = lambda i: wg.take_along_axis(wg.softmax(rows, axis=1), i, axis=1)
    yield Failing("compared with a row", softly, along, wrong)


def _classes() -> Iterator[Failing]:
    good, bad = (_i(0, 2, 1, 2),), [(_i(3, 0, 0, 0),), (_i(0, -1, 0, 0),), (_i(0, 0, 2**40, 0),)]
    scores = wg.tensor(_ROWS)
    for dtype in (np.int8, np.int32, np.int64):
        wrong = [(index.astype(dtype),) for (index,) in bad[:2]]
        yield Failing(f"one_hot {dtype.__name__}", lambda i: wg.one_hot(i, 3), (good[0].astype(dtype),), wrong)
    yield Failing(
        "one_hot unsigned", lambda i: wg.one_hot(i, 3), (_i(0, 2, dtype=np.uint8),), [(_i(0, 255, dtype=np.uint8),)]
    )
    yield Failing(
        "one_hot huge", lambda i: wg.one_hot(i, 3), (_i(0, 2, dtype=np.uint64),), [(_i(0, 2**64 - 1, dtype=np.uint64),)]
    )
    yield Failing("cross_entropy", lambda i: wg.cross_entropy(scores, i), good, bad)
    yield Failing("cross_entropy of all", lambda i: wg.cross_entropy(scores, i, ignore_index=None), good, bad)
    yield Failing("nll_loss", lambda i: wg.nll_loss(scores, i), good, bad)
    yield Failing("embedding", lambda i: wg.embedding(i, scores), good, [(_i(4),), (_i(-1),)])


def _numbers() -> Iterator[Failing]:
    for dtype in (np.int8, np.int16, np.int32, np.int64):
        two, bad = _i(2, 3, dtype=dtype), [(_i(-1, 2, dtype=dtype),), (_i(2, np.iinfo(dtype).min, dtype=dtype),)]
        base = wg.tensor(two)
        yield Failing(f"pow {np.dtype(dtype).name}", lambda e, base=base: base**e, (two,), bad)
        yield Failing(f"2 ** {np.dtype(dtype).name}", lambda e: 2**e, (two,), bad)
    mixed = wg.tensor(_i(2, 3, dtype=np.uint8))
    yield Failing("pow of unsigned", lambda e: mixed**e, (_i(2, 3),), [(_i(-1, 2),)])
    row = wg.tensor(_f(1, 5, 2, 4))
    yield Failing(
        "quantile",
        lambda q: wg.quantile(row, q),
        (_f(0, 0.5, 1),),
        [(_f(0.5, 1.5),), (_f(-0.1, 0.5),), (_f(np.nan, 0),)],
    )


def _matrices() -> Iterator[Failing]:
    regular, right = (_REGULAR,), wg.tensor(_f(1, 2))
    singular = [(_SINGULAR,), (np.zeros((2, 2), np.float32),)]
    yield Failing("inv", wg.linalg.inv, regular, singular)
    yield Failing("solve", lambda a: wg.linalg.solve(a, right), regular, singular)
    yield Failing(
        "triangular_solve", lambda a: wg.linalg.triangular_solve(a, right), regular, [(np.zeros((2, 2), np.float32),)]
    )
    yield Failing("cholesky", wg.linalg.cholesky, regular, [(_INDEFINITE,), (-_REGULAR,)])
    yield Failing("svd", lambda a: wg.linalg.svd(a)[1], regular, [(_NANS,)])
    yield Failing("pinv", wg.linalg.pinv, regular, [(_NANS,)])
    yield Failing("eigvals", lambda a: wg.real(wg.linalg.eig(a)[0]), regular, [(_NANS,)])
    sparsity = wg.sparse.csr(_REGULAR).sparsity
    yield Failing(
        "spsolve",
        lambda entries: wg.sparse.spsolve(wg.sparse.CSR(entries, sparsity), right),
        (_REGULAR.ravel(),),
        [(np.zeros(sparsity.count, np.float32),)],
    )
    packed = wg.linalg.lu_factor(wg.tensor(_REGULAR))[0]
    yield Failing(
        "lu_solve", lambda i: wg.linalg.lu_solve((packed, i), right), (_i(1, 1),), [(_i(0, 2),), (_i(-1, 1),)]
    )


def _loops() -> Iterator[Failing]:
    def counted(end: Any) -> Any:
        return wg.while_loop(lambda x: x < end, lambda x: x + 1, wg.tensor(np.float32(0)), max_steps=4)

    yield Failing("while_loop", counted, (np.float32(3),), [(np.float32(5),), (np.float32(np.inf),)])


def cases() -> list[Failing]:
    """All of them."""
    return [*_indexing(), *_classes(), *_numbers(), *_matrices(), *_loops()]


NEVER_FAIL = {
    "cofactor", "det", "slogdet", "fft", "ifft", "rfft", "irfft", "argsort", "searchsorted", "random_bits", "unfold",
    "fold", "cumprod", "logcumsumexp", "cumargmax", "cumargmin", "qr", "eigh",
}  # fmt: skip
"""Ops that run by their references and so might fail, of which no values are known that do."""

OF_FUNCTIONS = {
    "checkpoint",
    "cond",
    "while_loop",
    "custom_vjp",
    "custom_jvp",
    "scan",
    "while_gradient",
    "implicit",
    "solved",
    "converged",
}
"""Ops that fail where the functions do that they were given."""


def _pending(array: Any) -> Any:
    """A tensor with this value that is not computed yet: what is wrong with it shows only then."""
    return wg.flip(wg.flip(wg.tensor(array)))


WAYS: dict[str, Callable[[Callable[..., Any], tuple[Any, ...]], Any]] = {
    "recorded": lambda f, args: f(*map(wg.tensor, args)),
    "pending": lambda f, args: f(*map(_pending, args)),
    "compiled": lambda f, args: wg.compile(f)(*map(wg.tensor, args)),
    "compiled arrays": lambda f, args: wg.compile(f)(*args),
    "in a larger program": lambda f, args: wg.compile(lambda *x: (f(*x) * 2 + 1).sum())(*args),
    "in a batch": lambda f, args: wg.vmap(f)(*[_pending(np.stack([a, a])) for a in args]),
    "compiled batch": lambda f, args: wg.compile(wg.vmap(f))(*[np.stack([a, a]) for a in args]),
    "in a branch": lambda f, args: wg.compile(lambda *x: wg.cond(True, f, f, *x))(*args),
}


def there(array: Any) -> Any:
    """A tensor on the GPU."""
    return wg.tensor(array, device="cuda")


GPU_WAYS: dict[str, Callable[[Callable[..., Any], tuple[Any, ...]], Any]] = {
    "op by op": lambda f, args: f(*map(there, args)),
    "pending": lambda f, args: f(*[wg.flip(wg.flip(there(array))) for array in args]),
    "compiled": lambda f, args: wg.compile(f)(*map(there, args)),
    "in a larger program": lambda f, args: wg.compile(lambda *x: (f(*x) * 2 + 1).sum())(*map(there, args)),
    "compiled batch": lambda f, args: wg.compile(wg.vmap(f))(*[there(np.stack([a, a])) for a in args]),
}


def on_the_gpu(name: str) -> Failing:
    """A case made anew, so that what its function refers to is on the GPU."""
    wg.set_default_device("cuda")
    return next(case for case in cases() if case.name == name)


def outcomes(case: Failing, args: tuple[Any, ...], ways: Any = None) -> dict[str, str]:
    """By way: the kind of error that a call raised, or nothing."""
    found = {}
    for way, run in (WAYS if ways is None else ways).items():
        try:
            run(case.function, args).numpy()
        except WengertError as error:
            found[way] = type(error).__name__
        else:
            found[way] = ""
    return found


def replayed(case: Failing, args: tuple[Any, ...], place: Callable[[Any], Any] = wg.tensor) -> str:
    """The kind of error of a call by the fast path, after calls that went well, and before others."""
    compiled = wg.compile(case.function)
    good = [place(array) for array in case.good]
    expected = [compiled(*good).numpy() for _ in range(6)][-1]
    found = ""
    if [np.shape(a) for a in args] == [np.shape(a) for a in case.good]:
        try:
            compiled(*[place(array) for array in args]).numpy()
        except WengertError as error:
            found = type(error).__name__
        np.testing.assert_array_equal(compiled(*good).numpy(), expected)
        return found
    return "another shape"
