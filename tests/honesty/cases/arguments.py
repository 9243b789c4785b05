"""Arguments that are objects, or hold them, and are changed in place."""
# ruff: noqa: F811

import collections
import dataclasses
import enum
import types

import numpy as np

import wengert as wg


class Thing:
    def __init__(self, **values):
        self.__dict__.update(values)


X = wg.tensor(np.array([1.0, 2.0, 3.0]))

# fmt: off

# case: a SimpleNamespace, which has no hash -> follows or refuses
cfg = types.SimpleNamespace(k=2.0)
args = (X, cfg)
def f(x, c):
    return x * c.k
def change():
    cfg.k = 5.0

# case: an object
cfg = Thing(k=2.0)
args = (X, cfg)
def f(x, c):
    return x * c.k
def change():
    cfg.k = 5.0

# case: an object inside a list (long)
objs = [Thing(k=2.0)]
args = (X, objs)
def f(x, os):
    return x * os[0].k
def change():
    objs[0].k = 5.0

# case: an object inside a dict
objs = {"a": Thing(k=2.0)}
args = (X, objs)
def f(x, os):
    return x * os["a"].k
def change():
    objs["a"].k = 5.0

# case: an object inside a tuple inside a dict
cfg = Thing(k=2.0)
args = (X, {"parts": (1, cfg)})
def f(x, tree):
    n, c = tree["parts"]
    return x * c.k * n
def change():
    cfg.k = 5.0

# case: a dataclass, which has no hash -> follows or refuses
@dataclasses.dataclass
class Config:
    k: int = 2
cfg = Config()
args = (X, cfg)
def f(x, c):
    return x * c.k
def change():
    cfg.k = 5

# case: a frozen dataclass replaced
@dataclasses.dataclass(frozen=True)
class Config:
    k: int = 2
args = (X, Config())
def f(x, c):
    return x * c.k
def change():
    global args
    args = (X, Config(5))

# case: a slots dataclass, which has no hash -> follows or refuses
@dataclasses.dataclass(slots=True)
class Config:
    k: int = 2
cfg = Config()
args = (X, cfg)
def f(x, c):
    return x * c.k
def change():
    cfg.k = 5

# case: a dataclass compared by identity
@dataclasses.dataclass(eq=False, slots=True)
class Config:
    k: int = 2
cfg = Config()
args = (X, cfg)
def f(x, c):
    return x * c.k
def change():
    cfg.k = 5

# case: an argument whose __eq__ is always true
class Agreeable:
    def __init__(self, k):
        self.k = k
    def __eq__(self, other):
        return True
    def __hash__(self):
        return 0
args = (X, Agreeable(2.0))
def f(x, c):
    return x * c.k
def change():
    global args
    args = (X, Agreeable(5.0))

# case: an argument whose __eq__ looks at part of it
class Named:
    def __init__(self, name, k):
        self.name, self.k = name, k
    def __eq__(self, other):
        return self.name == other.name
    def __hash__(self):
        return hash(self.name)
args = (X, Named("a", 2.0))
def f(x, c):
    return x * c.k
def change():
    global args
    args = (X, Named("a", 5.0))

# case: a set changed in place -> follows or refuses
enabled = {"bias"}
args = (X, enabled)
def f(x, names):
    return x * 2 if "scale" in names else x
def change():
    enabled.add("scale")

# case: a deque changed in place -> follows or refuses
recent = collections.deque([2.0])
args = (X, recent)
def f(x, q):
    return x * q[-1]
def change():
    recent.append(5.0)

# case: a defaultdict changed in place
cfg = collections.defaultdict(int, k=2)
args = (X, cfg)
def f(x, c):
    return x * c["k"]
def change():
    cfg["k"] = 5

# case: a list of strings changed in place
names = ["double"]
args = (X, names)
def f(x, ns):
    for _ in ns:
        x = x * 2
    return x
def change():
    names.append("double")

# case: a dict of flags changed in place
flags = {"on": True}
args = (X, flags)
def f(x, fs):
    return x * 2 if fs["on"] else x
def change():
    flags["on"] = False

# case: a NumPy array changed in place
w = np.array([2.0, 3.0, 4.0])
args = (X, w)
def f(x, v):
    return x * v
def change():
    w[0] = 9.0

# case: a NumPy array in an object
cfg = Thing(w=np.array([2.0, 3.0, 4.0]))
args = (X, cfg)
def f(x, c):
    return x * c.w
def change():
    cfg.w[0] = 9.0

# case: an int
args = (X, 2)
def f(x, n):
    return x * n
def change():
    global args
    args = (X, 5)

# case: True in place of 1
args = (X, 1)
def f(x, n):
    return x if n is True else x * 2
def change():
    global args
    args = (X, True)

# case: an enum
Mode = enum.Enum("Mode", "SUM MEAN")
args = (X, Mode.SUM)
def f(x, mode):
    return x.sum() if mode is Mode.SUM else x.mean()
def change():
    global args
    args = (X, Mode.MEAN)

# case: a function
k = [2.0]
args = (X, lambda v: v * k[0])
def f(x, g):
    return g(x)
def change():
    k[0] = 5.0

# case: a function that reads an object through an alias
cfg = Thing(k=2.0)
def scaled(v):
    c = cfg
    return v * c.k
args = (X, scaled)
def f(x, g):
    return g(x)
def change():
    cfg.k = 5.0

# case: a list of functions
cfg = Thing(k=2.0)
args = (X, [lambda v: v + 1, lambda v: v * cfg.k])
def f(x, gs):
    for g in gs:
        x = g(x)
    return x
def change():
    cfg.k = 5.0

# case: a module with a configuration
class Net(wg.nn.Module):
    def __init__(self):
        super().__init__()
        self.cfg = Thing(k=2.0)
    def forward(self, x):
        c = self.cfg
        return x * c.k
net = Net()
args = (X, net)
def f(x, model):
    return model(x)
def change():
    net.cfg.k = 5.0

# case: the object of a method
class Scale:
    __slots__ = ("k",)
    def __init__(self, k):
        self.k = k
    def apply(self, x):
        return x * self.k
scale = Scale(2.0)
f = Scale.apply
args = (scale, X)
def change():
    scale.k = 5.0

# case: a shape in an object
cfg = Thing(axis=(0,))
args = (wg.tensor(np.arange(6.0).reshape(2, 3)), cfg)
def f(x, c):
    axis = c.axis
    return x.sum(axis)
def change():
    cfg.axis = (0, 1)


# case: an attribute of a tuple
class Scaled(tuple):
    k = 1.0


cfg = Scaled((1.0,))
cfg.k = 2.0
args = (X, cfg)


def f(x, c):
    return x * c.k + c[0]


def change():
    cfg.k = 5.0


# case: an attribute of a dictionary
class Named(dict):
    pass


cfg = Named(b=1.0)
cfg.k = 2.0
args = (X, [cfg])


def f(x, c):
    return x * c[0].k + c[0]["b"]


def change():
    cfg.k = 5.0


# case: an attribute of a dataclass that is no field
@dataclasses.dataclass
class Sized:
    b: float

    def __post_init__(self):
        self.k = 2.0


cfg = Sized(1.0)
args = (X, cfg)


def f(x, c):
    return x * c.k + c.b


def change():
    cfg.k = 5.0


# case: the default of a dictionary
cfg = collections.defaultdict(lambda: 2.0, b=1.0)
args = (X, cfg)


def f(x, c):
    return x * c["k"] + c["b"]


def change():
    cfg["k"] = 5.0
