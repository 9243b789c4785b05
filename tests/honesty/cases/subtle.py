"""Changes that are easy to miss: values that compare equal, identities used again, things added rather than changed."""
# ruff: noqa: F811

import collections
import types

import numpy as np

import wengert as wg

# fmt: off

# case: an int that becomes an equal float
k = [2]
def f(x):
    return x * 7 if type(k[0]) is float else x
def change():
    k[0] = 2.0

# case: True in a list that becomes 1
flags = [True]
def f(x):
    return x if flags[0] is True else -x
def change():
    flags[0] = 1

# case: 0.0 in an attribute that becomes -0.0
cfg = types.SimpleNamespace(zero=0.0)
def f(x):
    c = cfg
    return x / wg.full(3, c.zero)
def change():
    cfg.zero = -0.0

# case: NaN that becomes a number
cfg = types.SimpleNamespace(k=float("nan"))
def f(x):
    c = cfg
    return x * c.k
def change():
    cfg.k = 2.0

# case: a string that becomes an equal string of a subclass
class Marked(str):
    pass
names = ["a"]
def f(x):
    return x * 2 if type(names[0]) is Marked else x
def change():
    names[0] = Marked("a")

# case: a list replaced by an equal tuple
sizes = types.SimpleNamespace(axes=[0])
def f(x):
    s = sizes
    return x * 2 if isinstance(s.axes, tuple) else x
def change():
    sizes.axes = (0,)

# case: a NumPy float that becomes an equal float32
cfg = types.SimpleNamespace(k=np.float64(0.5))
def f(x):
    c = cfg
    return x * c.k.itemsize
def change():
    cfg.k = np.float32(0.5)

# case: a list replaced by another of its own length
cfg = types.SimpleNamespace(scales=[2.0, 3.0])
def f(x):
    c = cfg
    return x * c.scales[1]
def change():
    cfg.scales = [2.0, 5.0]

# case: two objects swapped
objs = [types.SimpleNamespace(k=2.0), types.SimpleNamespace(k=3.0)]
def f(x):
    a, b = objs
    return x * a.k + b.k
def change():
    objs.reverse()

# case: an object that died and another at its address
class Scale:
    __slots__ = ("k",)
    def __init__(self, k):
        self.k = k
holder = [Scale(2.0)]
def f(x):
    return x * holder[0].k
def change():
    holder.clear()
    holder.append(Scale(5.0))

# case: values exchanged inside of one dict
cfg = {"a": 2.0, "b": 3.0}
def f(x):
    c = dict(cfg)
    return x * c["a"] + c["b"]
def change():
    cfg["a"], cfg["b"] = cfg["b"], cfg["a"]

# case: a key removed and another added
cfg = {"a": 2.0}
def f(x):
    return x * sum(cfg.values()) + len(next(iter(cfg)))
def change():
    del cfg["a"]
    cfg["long"] = 2.0

# case: there and back, and there again
cfg = types.SimpleNamespace(k=2.0)
def f(x):
    c = cfg
    return x * c.k
def each():
    cfg.k = 5.0 - cfg.k
def change():
    cfg.k = 7.0

# case: a method added to a class, which hides __getattr__
class Scale:
    def __getattr__(self, name):
        return lambda: 2.0
scale = Scale()
def f(x):
    return x * scale.factor()
def change():
    Scale.factor = lambda self: 5.0

# case: a base class given an attribute in front of another
class A:
    pass
class B:
    k = 2.0
class C(A, B):
    pass
scale = C()
def f(x):
    return x * scale.k
def change():
    A.k = 5.0

# case: __bases__ replaced -> follows or refuses
class A:
    k = 2.0
class B:
    k = 5.0
class C(A):
    pass
scale = C()
def f(x):
    s = scale
    return x * s.k
def change():
    C.__bases__ = (B,)

# case: a global that hides a builtin
def f(x):
    return x * len([1, 2])
def change():
    global len
    len = lambda items: 10

# case: a name defined only later
def f(x):
    try:
        return x * late
    except NameError:
        return x
def change():
    globals()["late"] = 5.0

# case: an attribute added that getattr finds first
class Config:
    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return 2.0
cfg = Config()
def f(x):
    return x * cfg.k
def change():
    cfg.k = 5.0

# case: isinstance of a registered class
class Kind(type):
    known = set()  # noqa: RUF012
    def __instancecheck__(cls, value):
        return type(value).__name__ in cls.known
class Scalable(metaclass=Kind):
    pass
class Thing:
    pass
thing = Thing()
def f(x):
    return x * 2 if isinstance(thing, Scalable) else x
def change():
    Kind.known.add("Thing")

# case: one of 300 attributes of an object
cfg = types.SimpleNamespace(**{f"k{n}": float(n) for n in range(300)})
def f(x):
    c = cfg
    return x * sum(getattr(c, f"k{n}") for n in range(300))
def change():
    cfg.k250 = 0.0

# case: a deep attribute of the 40th object
objs = [types.SimpleNamespace(inner=types.SimpleNamespace(scales=[1.0])) for _ in range(60)]
def f(x):
    for o in objs:
        x = x * o.inner.scales[0]
    return x
def change():
    objs[40].inner.scales[0] = 5.0

# case: 500 functions
cfg = types.SimpleNamespace(k=1.0)
def make(n):
    def stage(x):
        c = cfg
        return x * c.k if n == 499 else x
    return stage
stages = [make(n) for n in range(500)]
def f(x):
    for stage in stages:
        x = stage(x)
    return x
def change():
    cfg.k = 5.0

# case: a shape that decides
table = {(3,): 2.0}
def f(x):
    return x * table[tuple(x.shape)]
def change():
    table[(3,)] = 5.0

# case: a deque rotated
order = collections.deque([2.0, 3.0, 5.0])
def f(x):
    return x * order[0] + order[-1]
def change():
    order.rotate()

# case: an array given another dtype in place
cfg = types.SimpleNamespace(w=np.array([1.0, 2.0, 3.0]))
def f(x):
    return x * cfg.w
def change():
    cfg.w = cfg.w.astype(np.float32) / 3

# case: an array given another shape in place
w = np.arange(6.0)
w.shape = (2, 3)
def f(x):
    return (x.sum() * w).sum(0)
def change():
    w.shape = (3, 2)

# case: the flags of a tensor from outside
w = wg.tensor(np.ones(3), requires_grad=True)
def f(x):
    return x * 2 if w.requires_grad else x
def change():
    w.requires_grad_(False)

# case: a tensor in an object replaced
state = types.SimpleNamespace(w=wg.tensor(np.ones(3)))
def f(x):
    s = state
    return x * s.w
def change():
    state.w = wg.tensor(np.full(3, 5.0))

# case: a tensor of another shape in its place
state = [wg.tensor(np.ones(3))]
def f(x):
    return (x.sum() * state[0]).sum()
def change():
    state[0] = wg.tensor(np.ones(5))
