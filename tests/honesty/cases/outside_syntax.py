"""Names and parts that statements bind: unpacking, imports, globals, stores into what is local."""
# ruff: noqa: F811, E402, F821, UP028

import builtins
import importlib
import sys
import types
import typing

import numpy as np

import wengert as wg

# fmt: off

# case: a key absent, then there
d = {}
def f(x):
    try:
        return x * d["k"]
    except KeyError:
        return x
def change():
    d["k"] = 5.0

# case: a name put into builtins
builtins.attack_k = 2.0
def f(x):
    return x * attack_k
def change():
    builtins.attack_k = 5.0

# case: a builtin replaced
builtins.attack_len = len
def f(x):
    return x * attack_len([1, 2])
def change():
    builtins.attack_len = lambda v: 7

# case: walrus in a call with global -> follows or refuses
n = 0
def f(x):
    global n
    return wg.multiply(x, (n := (n + 1)))
def effect():
    return n

# case: global import -> follows or refuses
import math as m


def f(x):
    global m
    import cmath as m
    return x * 2
def effect():
    global m
    r = m.__name__
    import math as m
    return r == "cmath"
def undo():
    global m
    import math as m

# case: global def -> follows or refuses
def g():
    return 1.0
seen = [0]
def f(x):
    global g
    def g():
        return 2.0
    return x * 2
def effect():
    global g
    r = g()
    g = lambda: 1.0
    return r
def undo():
    global g
    g = lambda: 1.0

# case: importlib of another module
sys.modules["attack_m4"] = types.ModuleType("attack_m4")
sys.modules["attack_m4"].k = 2.0
def f(x):
    return x * importlib.import_module("attack_m4").k
def change():
    new = types.ModuleType("attack_m4")
    new.k = 5.0
    sys.modules["attack_m4"] = new

# case: import inside of another module
sys.modules["attack_m5"] = types.ModuleType("attack_m5")
sys.modules["attack_m5"].k = 2.0
def f(x):
    import attack_m5
    return x * attack_m5.k
def change():
    new = types.ModuleType("attack_m5")
    new.k = 5.0
    sys.modules["attack_m5"] = new

# case: from import inside
sys.modules["attack_m6"] = types.ModuleType("attack_m6")
sys.modules["attack_m6"].k = 2.0
def f(x):
    from attack_m6 import k
    return x * k
def change():
    sys.modules["attack_m6"].k = 5.0

# case: next of a generator expression
rows = [[1.0, 2.0], [2.0, 3.0]]
def f(x):
    return x * next((a for a, b in rows if b > 1))
def change():
    rows[0][1] = 0.0

# case: rows unpacked in a loop
rows = [[1.0, 2.0], [3.0, 4.0]]
def f(x):
    t = 0.0
    for a, b in rows:
        t += a * b
    return x * t
def change():
    rows[0][0] = 7.0

# case: rows of a generator unpacked
rows = [[1.0, 2.0], [3.0, 4.0]]
def pairs():
    for r in rows:
        yield r
def f(x):
    return x * sum((a * b for a, b in pairs()))
def change():
    rows[0][0] = 7.0

# case: unpacking of a conditional
p, q = ([1.0, 2.0], [3.0, 4.0])
def f(x):
    a, b = p if x.ndim == 1 else q
    return x * (a + b)
def change():
    p[0] = 7.0

# case: unpacking of a tuple with a list
p = [1.0, 2.0]
def f(x):
    (a, b), c = (p, 2.0)
    return x * (a + b + c)
def change():
    p[0] = 7.0

# case: with as a tuple
p = [1.0, 2.0]
class CM:
    def __enter__(self):
        return p
    def __exit__(self, *a):
        pass
def f(x):
    with CM() as (a, b):
        return x * (a + b)
def change():
    p[0] = 7.0

# case: truth of a conditional
p, q = ([], [3.0, 4.0])
def f(x):
    if p if x.ndim == 1 else q:
        return x * 2
    return x
def change():
    p.append(1)

# case: match on a tuple of objects
class C:
    __match_args__ = ("k",)
    def __init__(self, k):
        self.k = k
o = C(2.0)
def f(x):
    match ("a", o):
        case ["a", C(k)]:
            return x * k
    return x
def change():
    o.k = 5.0

# case: a local array filled from a list
w = [1.0, 2.0, 3.0]
def f(x):
    b = np.zeros(3)
    b[:] = w
    return x * b
def change():
    w[0] = 5.0

# case: a local array filled from an array
w = np.array([1.0, 2.0, 3.0])
def f(x):
    b = np.zeros(3)
    b[:] = w
    return x * b
def change():
    w[0] = 5.0

# case: a local array added to
w = np.array([1.0, 2.0, 3.0])
def f(x):
    b = np.zeros(3)
    b += w
    return x * b
def change():
    w[0] = 5.0

# case: an item of a local array added to
w = np.array([1.0, 2.0, 3.0])
def f(x):
    b = np.zeros((2, 3))
    b[0] += w
    return x * b[0]
def change():
    w[0] = 5.0

# case: a local list's slice
w = [1.0, 2.0, 3.0]
def f(x):
    b = [0.0]
    b[1:] = w
    return x * sum(b)
def change():
    w[0] = 5.0

# case: a local array with keys from a list
w = [0, 1]
def f(x):
    b = np.zeros(3)
    b[w] = 2.0
    return x * b
def change():
    w[0] = 2

# case: a local array read by a list of keys
w = [0, 1, 1]
def f(x):
    b = np.arange(3.0)
    return x * b[w]
def change():
    w[0] = 2

# case: a namedtuple with a list
class N(typing.NamedTuple):
    v: list
n = N([2.0])
def f(x):
    v, = n
    return x * v[0]
def change():
    n.v[0] = 5.0
