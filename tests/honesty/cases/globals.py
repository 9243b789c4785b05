"""Global variables that hold single values, and small objects that hold them."""
# ruff: noqa: F811

import dataclasses
import decimal
import enum
import fractions
import types
import typing

import numpy as np

import wengert as wg

# fmt: off

# case: an int (long)
k = 2
def f(x):
    return x * k
def change():
    global k
    k = 5

# case: a float (long)
rate = 0.5
def f(x):
    return x * rate
def change():
    global rate
    rate = 0.25

# case: a float that becomes an equal int
power = 2.0
def f(x):
    return x / 2 if isinstance(power, float) else x
def change():
    global power
    power = 2

# case: minus zero
zero = 0.0
def f(x):
    return x / wg.full(3, zero)
def change():
    global zero
    zero = -0.0

# case: a bool
squared = True
def f(x):
    return x * x if squared else x
def change():
    global squared
    squared = False

# case: True that becomes 1
flag = True
def f(x):
    return x if flag is True else -x
def change():
    global flag
    flag = 1

# case: a str
activation = "relu"
def f(x):
    return wg.relu(x - 2) if activation == "relu" else wg.tanh(x)
def change():
    global activation
    activation = "tanh"

# case: None that becomes a value
bias = None
def f(x):
    return x if bias is None else x + bias
def change():
    global bias
    bias = 3.0

# case: a complex number
phase = 1j
def f(x):
    return x * phase.imag
def change():
    global phase
    phase = 3j

# case: bytes
key = b"abc"
def f(x):
    return x * key[0]
def change():
    global key
    key = b"xyz"

# case: a large int
big = 10**20
def f(x):
    return x * float(big)
def change():
    global big
    big = 10**21

# case: a Fraction
ratio = fractions.Fraction(1, 3)
def f(x):
    return x * float(ratio)
def change():
    global ratio
    ratio = fractions.Fraction(2, 3)

# case: a Decimal
price = decimal.Decimal("1.5")
def f(x):
    return x * float(price)
def change():
    global price
    price = decimal.Decimal("2.5")

# case: a range
steps = range(3)
def f(x):
    for _ in steps:
        x = x * 2
    return x
def change():
    global steps
    steps = range(5)

# case: a slice
window = slice(0, 2)
def f(x):
    return x[window].sum()
def change():
    global window
    window = slice(1, 3)

# case: a tuple
shape = (2.0, 3.0)
def f(x):
    return x * shape[0] + shape[1]
def change():
    global shape
    shape = (2.0, 4.0)

# case: a list inside a tuple
pair = ([2.0], 3.0)
def f(x):
    return x * pair[0][0]
def change():
    pair[0][0] = 7.0

# case: a global deleted, so that the builtin shows
abs = lambda v: v * 10
def f(x):
    return x * abs(-2)
def change():
    global abs
    del abs

# case: a dtype
kind = wg.float64
def f(x):
    return wg.asarray(x * 1.1, dtype=kind).astype(wg.float64)
def change():
    global kind
    kind = wg.float16

# case: a dataclass
@dataclasses.dataclass
class Config:
    k: float = 2.0
cfg = Config()
def f(x):
    return x * cfg.k
def change():
    cfg.k = 5.0

# case: a slots dataclass (long)
@dataclasses.dataclass(slots=True)
class Config:
    k: float = 2.0
cfg = Config()
def f(x):
    return x * cfg.k
def change():
    cfg.k = 5.0

# case: a frozen dataclass replaced
@dataclasses.dataclass(frozen=True)
class Config:
    k: float = 2.0
cfg = Config()
def f(x):
    return x * cfg.k
def change():
    global cfg
    cfg = dataclasses.replace(cfg, k=5.0)

# case: a frozen dataclass changed by force
@dataclasses.dataclass(frozen=True)
class Config:
    k: float = 2.0
cfg = Config()
def f(x):
    return x * cfg.k
def change():
    object.__setattr__(cfg, "k", 5.0)

# case: a dataclass in a dataclass
@dataclasses.dataclass
class Inner:
    k: float = 2.0
@dataclasses.dataclass
class Outer:
    inner: Inner = dataclasses.field(default_factory=Inner)
cfg = Outer()
def f(x):
    return x * cfg.inner.k
def change():
    cfg.inner.k = 5.0

# case: a field replaced by another object
@dataclasses.dataclass
class Inner:
    k: float = 2.0
cfg = types.SimpleNamespace(inner=Inner())
def f(x):
    return x * cfg.inner.k
def change():
    cfg.inner = Inner(5.0)

# case: a list in a namedtuple
class Options(typing.NamedTuple):
    scales: list
options = Options([2.0, 3.0])
def f(x):
    return x * options.scales[0]
def change():
    options.scales[0] = 5.0

# case: a namedtuple replaced
class Options(typing.NamedTuple):
    scale: float
options = Options(2.0)
def f(x):
    return x * options.scale
def change():
    global options
    options = options._replace(scale=5.0)

# case: a SimpleNamespace
opt = types.SimpleNamespace(k=2.0)
def f(x):
    return x * opt.k
def change():
    opt.k = 5.0

# case: a SimpleNamespace three levels deep
opt = types.SimpleNamespace(model=types.SimpleNamespace(block=types.SimpleNamespace(k=2.0)))
def f(x):
    return x * opt.model.block.k
def change():
    opt.model.block.k = 5.0

# case: an enum member
class Mode(enum.Enum):
    SUM = 1
    MEAN = 2
mode = Mode.SUM
def f(x):
    return x.sum() if mode is Mode.SUM else x.mean()
def change():
    global mode
    mode = Mode.MEAN

# case: the value of an IntFlag
class Part(enum.IntFlag):
    BIAS = 1
    SCALE = 2
parts = Part.BIAS
def f(x):
    return x * 2 if parts & Part.SCALE else x + 1
def change():
    global parts
    parts |= Part.SCALE

# case: a NumPy scalar
scale = np.float64(2.0)
def f(x):
    return x * scale
def change():
    global scale
    scale = np.float64(5.0)

# case: a NumPy bool
on = np.bool_(True)
def f(x):
    return x if on else -x
def change():
    global on
    on = np.bool_(False)

# case: a tensor replaced
w = wg.tensor(np.array([2.0, 3.0, 4.0]))
def f(x):
    return x * w
def change():
    global w
    w = wg.tensor(np.array([5.0, 6.0, 7.0]))

# case: a tensor assigned
w = wg.tensor(np.array([2.0, 3.0, 4.0]))
def f(x):
    return x * w
def change():
    w.assign(w * 2)
