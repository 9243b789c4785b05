"""More correct programs, with nothing outside that changes."""
# ruff: noqa: F811

import dataclasses
import enum
import functools
import operator
import types

import numpy as np

import wengert as wg

X = wg.tensor(np.array([1.0, 2.0, 3.0]))

# fmt: off

# case: star arguments
args = (X, X, X)
def f(*xs, scale=2.0, **options):
    total, *rest = xs
    for x in rest:
        total = total + x * scale
    return total

# case: recursion
def power(x, n):
    return x if n == 1 else x * power(x, n - 1)
def f(x):
    return power(x, 4)

# case: a local memo
def f(x):
    memo = {}
    def fibonacci(n):
        if n not in memo:
            memo[n] = x if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)
        return memo[n]
    return fibonacci(6)

# case: default arguments
def f(x, k=2.0, names=("a", "b"), flag=None):
    return x * k + len(names) if flag is None else x

# case: a None default that becomes a list
def helper(x, parts=None):
    parts = [] if parts is None else parts
    parts.append(x)
    return parts
def f(x):
    return wg.stack(helper(x * 2, helper(x)))

# case: a decorated function
def checked(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        result = function(*args, **kwargs)
        assert result.shape == args[0].shape
        return result
    return wrapper
@checked
def f(x):
    return x * 2

# case: a tree of parameters
params = {"layers": [{"w": wg.tensor(np.eye(3)), "b": wg.tensor(np.ones(3))} for _ in range(2)]}
args = (X, params)
def f(x, p):
    for layer in p["layers"]:
        x = wg.tanh(x @ layer["w"] + layer["b"])
    return x

# case: an enum option
class Mode(enum.Enum):
    SUM = "sum"
    MEAN = "mean"
args = (X, Mode.MEAN)
def f(x, mode):
    return x.sum() if mode is Mode.SUM else x.mean()

# case: operators of the operator module
def f(x):
    for op, k in ((operator.add, 1.0), (operator.mul, 2.0)):
        x = op(x, k)
    return x

# case: zip, map, any, all, min, max over constants
SIZES = [3, 4, 5]
def f(x):
    x = x * max(SIZES) - min(SIZES)
    for a, b in zip(SIZES, map(float, SIZES)):
        x = x + a * b
    return x if any(SIZES) and all(SIZES) else -x

# case: inheritance and super
class Base:
    def __init__(self, k):
        self.k = k
    def apply(self, x):
        return x * self.k
class Derived(Base):
    def __init__(self):
        super().__init__(2.0)
    def apply(self, x):
        return super().apply(x) + 1
scale = Derived()
def f(x):
    return scale.apply(x)

# case: properties
class Config:
    def __init__(self):
        self.heads, self.width = 2, 8
    @property
    def size(self):
        return self.width // self.heads
cfg = Config()
def f(x):
    return x * cfg.size

# case: a cached_property
class Config:
    @functools.cached_property
    def table(self):
        return [1.0, 2.0]
cfg = Config()
def f(x):
    return x * cfg.table[1]

# case: an lru_cache of a pure function
@functools.cache
def factorial(n):
    return 1 if n < 2 else n * factorial(n - 1)
def f(x):
    return x * factorial(5)

# case: a frozen dataclass as an argument
@dataclasses.dataclass(frozen=True)
class Config:
    k: float = 2.0
args = (X, Config())
def f(x, cfg):
    return x * cfg.k

# case: an object of one's own with operators, made inside
class Dual:
    def __init__(self, value, tangent):
        self.value, self.tangent = value, tangent
    def __mul__(self, other):
        return Dual(self.value * other.value, self.value * other.tangent + self.tangent * other.value)
def f(x):
    d = Dual(x, 1.0)
    return (d * d * d).tangent

# case: iteration over an own class
class Layers:
    def __init__(self, *functions):
        self.functions = functions
    def __iter__(self):
        return iter(self.functions)
    def __len__(self):
        return len(self.functions)
layers = Layers(wg.sin, wg.cos)
def f(x):
    for layer in layers:
        x = layer(x)
    return x / len(layers)

# case: a table of 200 numbers
SCALES = [float(n) for n in range(200)]
def f(x):
    return x * sum(SCALES) + SCALES[7]

# case: a large constant NumPy table
TABLE = np.arange(10_000.0)
def f(x):
    return x + TABLE[:3] + TABLE.mean()

# case: many objects of one kind
objs = [types.SimpleNamespace(k=1.0 + n) for n in range(50)]
def f(x):
    return sum(x * o.k for o in objs)

# case: a lambda chain
f = lambda x: (lambda y: (lambda z: z * 2)(y + 1))(x)

# case: global helper functions in a dict of lambdas
STAGES = {"a": lambda v: v * 2, "b": lambda v: v + 1}
def f(x):
    for name in sorted(STAGES):
        x = STAGES[name](x)
    return x

# case: einsum and shapes
args = (wg.tensor(np.arange(6.0).reshape(2, 3)),)
def f(x):
    rows, columns = x.shape
    names = "".join(chr(ord("i") + n) for n in range(x.ndim))
    return wg.einsum(f"{names},{names}->i", x, x) / (rows * columns)

# case: copies of a global list changed inside
SCALES = [3.0, 1.0, 2.0]
def f(x):
    mine = SCALES[:]
    mine.sort()
    mine.append(4.0)
    return x * mine[0] + mine[-1]

# case: a global dict merged with local options
DEFAULTS = {"k": 2.0, "shift": 0.0}
def f(x):
    options = {**DEFAULTS, "shift": 1.0}
    options["k"] = options["k"] * 2
    return x * options["k"] + options["shift"]

# case: list multiplication and slices of constants
def f(x):
    scales = ([1.0] * 3 + [2.0] * 2)[1:-1]
    return x * sum(scales[::2])

# case: try an optional import
def f(x):
    try:
        import no_such_module
    except ImportError:
        no_such_module = None
    return x if no_such_module else x * 2

# case: an import inside
def f(x):
    import math as m
    from functools import reduce
    return x * reduce(lambda a, b: a * b, [m.pi, 2.0])
