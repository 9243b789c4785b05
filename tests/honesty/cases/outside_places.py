"""Places that C code reads: classes behind objects, weak references, subclasses of containers, super()."""
# ruff: noqa: F811, B019

import ctypes
import enum
import functools
import gc
import math
import operator
import string
import threading
import types
import weakref

# fmt: off

# case: attrgetter of a class attribute
class C:
    k = 2.0
o = C()
def f(x):
    return x * operator.attrgetter("k")(o)
def change():
    C.k = 5.0

# case: a format spec with an attribute of the class
class C:
    k = 2.0
o = C()
def f(x):
    return x * float(f"{o.k}")
def change():
    C.k = 5.0

# case: map of attrgetter over class attributes
class C:
    k = 2.0
objs = [C(), C()]
def f(x):
    return x * sum(map(operator.attrgetter("k"), objs))
def change():
    C.k = 5.0

# case: a weak reference
class C:
    pass
o = C()
o.k = 2.0
r = weakref.ref(o)
def f(x):
    return x * r().k
def change():
    o.k = 5.0

# case: a weak proxy
class C:
    pass
o = C()
o.k = 2.0
r = weakref.proxy(o)
def f(x):
    return x * r.k
def change():
    o.k = 5.0

# case: a dead weak reference
class C:
    pass
box = [C()]
r = weakref.ref(box[0])
def f(x):
    return x * (2.0 if r() is not None else 5.0)
def change():
    box.clear()
    gc.collect()

# case: a ctypes structure
class S(ctypes.Structure):
    _fields_ = [("k", ctypes.c_double)]
o = S(2.0)
def f(x):
    return x * o.k
def change():
    o.k = 5.0

# case: super().__getitem__ of a dict subclass
class D(dict):
    def __getitem__(self, key):
        return super().__getitem__(key) + 1.0
d = D(k=2.0)
def f(x):
    return x * d["k"]
def change():
    d["k"] = 5.0

# case: get of a dict subclass with __getitem__
class D(dict):
    def __getitem__(self, key):
        return 0.0
d = D(k=2.0)
def f(x):
    return x * d.get("k")
def change():
    d["k"] = 5.0

# case: super().__iter__ of a list subclass
class D(list):
    def __iter__(self):
        return (v + 1 for v in super().__iter__())
d = D([2.0])
def f(x):
    return x * sum(d)
def change():
    list.__setitem__(d, 0, 5.0)

# case: an attribute of a dict subclass read by a library
class D(dict):
    pass
d = D()
d.k = 2.0
def f(x):
    return x * operator.attrgetter("k")(d)
def change():
    d.k = 5.0

# case: an attribute put on a library's module
math.attack_k = 2.0
def f(x):
    return x * math.attack_k
def change():
    math.attack_k = 5.0

# case: a library's function replaced
string.capwords_ = math.sqrt
def f(x):
    return x * string.capwords_(4.0)
def change():
    string.capwords_ = math.exp

# case: an attribute of members gone through
class E(enum.Enum):
    A = 1
    B = 2
    def __init__(self, v):
        self.k = 2.0
def f(x):
    return x * sum(e.k for e in E)
def change():
    E.A.k = 5.0

# case: a member found by value
class E(enum.Enum):
    A = 1
    def __init__(self, v):
        self.k = 2.0
def f(x):
    return x * E(1).k
def change():
    E.A.k = 5.0

# case: all subclasses
class Base:
    k = 2.0
class One(Base):
    pass
def f(x):
    return x * sum(c.k for c in Base.__subclasses__())
def change():
    globals()["Two"] = type("Two", (Base,), {})

# case: C.__dict__ get
class C:
    k = 2.0
def f(x):
    return x * C.__dict__.get("k")
def change():
    C.k = 5.0

# case: cached method over state
class D:
    def __init__(self):
        self.k = 2.0
    @functools.lru_cache
    def g(self):
        return [self.k]
d = D()
def f(x):
    return x * d.g()[0]
def change():
    d.g()[0] = 5.0

# case: __getattr__ = dict.__getitem__
class Attr(dict):
    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__
o = Attr(k=2.0)
def f(x):
    return x * o.k
def change():
    o.k = 5.0

# case: nested attrdict with absent key default
class Attr(dict):
    __getattr__ = dict.get
o = Attr(k=2.0)
def f(x):
    return x * (o.z or 2.0)
def change():
    o["z"] = 5.0

# case: hasattr on attrdict
class Attr(dict):
    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError as e:
            raise AttributeError(name) from e
o = Attr(k=2.0)
def f(x):
    return x * (o.z if hasattr(o, "z") else 2.0)
def change():
    o["z"] = 5.0

# case: super() with an attribute
class A:
    k = 2.0
class B(A):
    def get(self):
        return super().k
b = B()
def f(x):
    return x * b.get()
def change():
    A.k = 5.0

# case: super() method replaced in the base
class A:
    def k(self):
        return 2.0
class B(A):
    def k(self):
        return super().k()
b = B()
def f(x):
    return x * b.k()
def change():
    A.k = lambda self: 5.0

# case: an object that becomes None
class C:
    k = 2.0
o = types.SimpleNamespace(c=C())
def f(x):
    return x * (5.0 if o.c is None else 2.0)
def change():
    o.c = None

# case: __getattribute__ counting
class A:
    def __getattribute__(self, name):
        return object.__getattribute__(self, "_" + name)
a = A()
a.__dict__ if False else None
object.__setattr__(a, "_k", 2.0)
def f(x):
    return x * a.k
def change():
    object.__setattr__(a, "_k", 5.0)

# case: a weak method
class C:
    k = 2.0
    def go(self, v):
        return v * self.k
c = C()
m = weakref.WeakMethod(c.go)
def f(x):
    return m()(x)
def change():
    c.k = 5.0

# case: a finalizer's liveness
class C:
    pass
box = [C()]
fin = weakref.finalize(box[0], int)
def f(x):
    return x * (2.0 if fin.alive else 5.0)
def change():
    box.clear()
    gc.collect()

# case: an attribute of a thread
t = threading.Thread(name="a")
def f(x):
    return x * len(t.name)
def change():
    t.name = "abcd"
