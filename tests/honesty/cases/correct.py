"""Correct programs, with nothing outside that changes: they run compiled, are recorded once, and are not refused."""
# ruff: noqa: F811, B007

import collections
import contextlib
import dataclasses
import functools
import itertools
import math
import types
import typing

import numpy as np

import wengert as wg

X = wg.tensor(np.array([1.0, 2.0, 3.0]))

# fmt: off

# case: a constant configuration
CONFIG = {"scale": 2.0, "layers": [1, 2, 3], "act": "relu"}
def f(x):
    for n in CONFIG["layers"]:
        x = wg.relu(x * CONFIG["scale"]) + n
    return x

# case: a constant object through an alias
cfg = types.SimpleNamespace(k=2.0, names=("a", "b"))
def f(x):
    c = cfg
    for name in c.names:
        x = x * c.k
    return x

# case: a constant slots dataclass
@dataclasses.dataclass(slots=True, frozen=True)
class Config:
    k: float = 2.0
    n: int = 3
cfg = Config()
def f(x):
    for _ in range(cfg.n):
        x = x * cfg.k
    return x

# case: math of constants
def f(x):
    return x * math.sqrt(2.0 * math.pi) + math.log(3.0)

# case: NumPy functions of constants
def f(x):
    return x * np.sqrt(2.0) + np.linspace(0.0, 1.0, 3)

# case: a constant NumPy array
table = np.array([1.0, 2.0, 3.0])
def f(x):
    return x * table + table[0]

# case: a configuration built inside
@dataclasses.dataclass
class Config:
    k: float = 2.0
    scales: list = dataclasses.field(default_factory=list)
def f(x):
    cfg = Config()
    cfg.k = 3.0
    cfg.scales.append(2.0)
    return x * cfg.k * cfg.scales[0]

# case: a local list appended to
def f(x):
    parts = []
    for n in range(3):
        parts.append(x * n)
    return wg.stack(parts)

# case: a local list changed in many ways
def f(x):
    order = [3, 1, 2]
    order.sort()
    order.insert(0, 5)
    order += [7]
    del order[1]
    order[0] = 9
    return x * sum(order) + order.pop()

# case: a local dict
def f(x):
    values = {}
    values["a"] = x * 2
    values.update(b=x + 1)
    values.setdefault("c", x)
    return sum(values.values())

# case: a local object with attributes
class State:
    pass
def f(x):
    state = State()
    state.total = x
    for n in range(3):
        state.total = state.total + n
    return state.total

# case: a local SimpleNamespace changed by a helper
def add(state, value):
    state.total = state.total + value
    state.count += 1
def f(x):
    state = types.SimpleNamespace(total=x, count=0)
    add(state, 1.0)
    add(state, 2.0)
    return state.total / state.count

# case: a local set and a local deque
def f(x):
    seen, recent = set(), collections.deque(maxlen=2)
    for n in (1, 2, 2):
        seen.add(n)
        recent.append(n)
    return x * len(seen) + recent[0]

# case: a local defaultdict
def f(x):
    groups = collections.defaultdict(list)
    for n in range(4):
        groups[n % 2].append(n)
    return x * sum(groups[1])

# case: a local counter of nonlocal
def f(x):
    calls = 0
    def helper(v):
        nonlocal calls
        calls += 1
        return v * calls
    return helper(helper(x))

# case: string formatting
def f(x):
    key = "{}-{}".format("a", x.ndim)
    return x * {"a-1": 2.0, "a-2": 3.0}[key]

# case: an f-string in a dict of tensors
def f(x):
    outputs = {f"layer{i}": x * i for i in range(3)}
    return outputs["layer2"] + outputs["layer1"]

# case: assertions on shapes
def f(x):
    assert x.ndim == 1, f"a vector, not {x.shape}"
    (n,) = x.shape
    assert n == 3
    return x / n

# case: isinstance tests
def f(x):
    if isinstance(x, (list, tuple)):
        return x[0]
    return x * 2 if isinstance(x, wg.Tensor) else None

# case: isfinite of Python numbers
limit = 10.0
def f(x):
    return wg.clip(x, -limit, limit) if math.isfinite(limit) else x

# case: itertools.product
def f(x):
    for i, j in itertools.product(range(2), (1.0, 2.0)):
        x = x * (i + j)
    return x

# case: functools.reduce of local functions
def f(x):
    return functools.reduce(lambda v, g: g(v), [wg.sin, wg.cos, lambda v: v * 2], x)

# case: functools.partial built inside
def scaled(x, k, shift=0.0):
    return x * k + shift
def f(x):
    g = functools.partial(scaled, k=2.0)
    return g(x, shift=1.0)

# case: sorted local lists
def f(x):
    for name, k in sorted({"b": 2.0, "a": 3.0}.items()):
        x = x * k + len(name)
    return x

# case: a local NumPy array built and filled
def f(x):
    mask = np.zeros((3,))
    for i in range(3):
        mask[i] = i % 2
    mask[0] += 1.0
    return x * mask

# case: a local NumPy array filled by out=
def f(x):
    grid = np.empty(3)
    np.multiply([1.0, 2.0, 3.0], 2.0, out=grid)
    grid.sort()
    return x * grid

# case: try and except
def f(x):
    try:
        k = {"a": 1.0}["b"]
    except KeyError:
        k = 2.0
    with contextlib.suppress(ValueError):
        k = float("not a number")
    return x * k

# case: try and finally
def f(x):
    y = x
    try:
        y = y * 2
    finally:
        y = y + 1
    return y

# case: a contextmanager of one's own
@contextlib.contextmanager
def scope(name):
    yield name
def f(x):
    with scope("a") as name:
        return x * len(name)

# case: a local class
def f(x):
    class Scale:
        k = 2.0
        def __call__(self, v):
            return v * self.k
    return Scale()(x)

# case: a local namedtuple
class State(typing.NamedTuple):
    h: object
    c: object
def f(x):
    state = State(x, x * 2)
    for _ in range(2):
        state = state._replace(h=state.h + state.c)
    return state.h

# case: a local generator
def f(x):
    def powers():
        y = x
        for _ in range(3):
            yield y
            y = y * x
    return sum(powers())

# case: next of a local iterator
def f(x):
    scales = iter([2.0, 3.0])
    x = x * next(scales)
    return x * next(scales) + next(scales, 1.0)

# case: itertools.count inside
def f(x):
    numbers = itertools.count(1)
    return x * next(numbers) + next(numbers)

# case: match on a string option
args = (X, "mean")
def f(x, reduction):
    match reduction:
        case "sum":
            return x.sum()
        case "mean":
            return x.mean()
        case _:
            return x
