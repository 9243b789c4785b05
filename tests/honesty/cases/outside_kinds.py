"""What is read behind other names: proxies, contexts, patterns, classes that gain methods later, registers."""
# ruff: noqa: F811, B024

import abc
import contextlib
import contextvars
import dataclasses
import decimal
import enum
import inspect
import sys
import threading
import types
import typing
import weakref

import numpy as np

# fmt: off

# case: a context run inside
v = contextvars.ContextVar("v3", default=2.0)
ctx = contextvars.copy_context()
def f(x):
    return x * ctx.run(v.get)
def change():
    ctx.run(v.set, 5.0)

# case: an IntEnum from a config
class E(enum.IntEnum):
    A = 2
    B = 5
class C:
    mode = E.A
def f(x):
    return x * C.mode
def change():
    C.mode = E.B

# case: an attribute of a float's subclass
class T(float):
    pass
t = T(1.0)
t.k = 2.0
def f(x):
    return x * t.k * t
def change():
    t.k = 5.0

# case: a float's subclass alone
class T(float):
    pass
t = T(2.0)
def f(x):
    return x * t
def change():
    global t
    t = T(5.0)

# case: a weak proxy called
class C:
    k = 2.0
    def __call__(self, x):
        return x * self.k
o = C()
p = weakref.proxy(o)
def f(x):
    return p(x)
def change():
    o.k = 5.0

# case: a WeakSet gone through
class C:
    pass
a = C()
a.k = 2.0
b = C()
b.k = 3.0
s = weakref.WeakSet([a])
def f(x):
    for o in s:
        x = x * o.k
    return x
def change():
    s.add(b)

# case: a dataclass made inside with a default from outside
d = {"k": 2.0}
def f(x):
    @dataclasses.dataclass
    class P:
        k: float = d["k"]
    return x * P().k
def change():
    d["k"] = 5.0

# case: match on a class with __match_args__
class P:
    __match_args__ = ("a", "b")
    def __init__(self, a, b):
        self.a, self.b = a, b
p = P(2.0, 3.0)
def f(x):
    match p:
        case P(a, b):
            return x * a * b
def change():
    P.__match_args__ = ("b", "b")

# case: match on a dotted value
class C:
    A = 1
sel = 1
def f(x):
    match sel:
        case C.A:
            return x * 2
        case _:
            return x * 5
def change():
    C.A = 3

# case: filter by a set
l, keep = [1.0, 2.0, 3.0], {1.0, 2.0}
def f(x):
    return x * sum(filter(keep.__contains__, l))
def change():
    keep.add(3.0)

# case: a decimal context kept outside
c = decimal.Context(prec=3)
def f(x):
    return x * float(c.divide(decimal.Decimal(1), decimal.Decimal(3)))
def change():
    c.prec = 1

# case: a module's __getattr__
m = types.ModuleType("honest_module")
m.table = {"k": 2.0}
head = "def __getattr__(name):\n    if name[:2] == '__':\n        raise AttributeError(name)\n"
exec(head + "    return table[name]", m.__dict__)
sys.modules["honest_module"] = m
def f(x):
    return x * m.k
def change():
    m.table["k"] = 5.0

# case: metadata of a dataclass field
@dataclasses.dataclass
class P:
    a: float = dataclasses.field(default=1.0, metadata={"k": [2.0]})
def f(x):
    return x * dataclasses.fields(P)[0].metadata["k"][0]
def change():
    dataclasses.fields(P)[0].metadata["k"][0] = 5.0

# case: __getattr__ added later
class C:
    pass
c = C()
def f(x):
    return x * getattr(c, "k", 2.0)
def change():
    C.__getattr__ = lambda self, n: 5.0

# case: __getattribute__ added later
class C:
    k = 2.0
c = C()
def f(x):
    return x * c.k
def change():
    C.__getattribute__ = lambda self, n: 5.0

# case: __len__ added later
class C:
    pass
c = C()
def f(x):
    return x * (2.0 if c else 5.0)
def change():
    C.__bool__ = lambda self: False

# case: __eq__ added later
class C:
    pass
a, b = C(), C()
def f(x):
    return x * (5.0 if a == b else 2.0)
def change():
    C.__eq__ = lambda s, o: True

# case: abc register
class A(abc.ABC):
    pass
class C:
    pass
c = C()
def f(x):
    return x * (5.0 if isinstance(c, A) else 2.0)
def change():
    A.register(C)

# case: issubclass by register
class A(abc.ABC):
    pass
class C:
    pass
def f(x):
    return x * (5.0 if issubclass(C, A) else 2.0)
def change():
    A.register(C)

# case: the code of a function read
def g():
    return 2.0
def f(x):
    return x * len(inspect.signature(g).parameters) + x * g.__code__.co_argcount
def h(a):
    return a
def change():
    global g
    g = h

# case: type hints of a class
class C:
    a: int
def f(x):
    return x * len(typing.get_type_hints(C))
def change():
    C.__annotations__["b"] = int

# case: __array_interface__
base = np.array([2.0, 2.0, 2.0])
class C:
    @property
    def __array_interface__(self):
        return base.__array_interface__
c = C()
def f(x):
    return x * np.asarray(c)
def change():
    base[:] = 5.0

# case: locked of a Lock -> follows or refuses
l = threading.Lock()
def f(x):
    return x * (5.0 if l.locked() else 2.0)
def change():
    l.acquire()

# case: contextlib.nullcontext with a value
n = contextlib.nullcontext(2.0)
def f(x):
    with n as k:
        return x * k
def change():
    n.enter_result = 5.0
