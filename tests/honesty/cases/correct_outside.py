"""Correct programs of the kinds that are easily refused: logging, copies, local state, pure library calls."""
# ruff: noqa: F811

import collections
import contextlib
import copy
import csv
import dataclasses
import functools
import inspect
import io
import logging
import os
import pathlib
import random
import re
import threading
import time
import typing
import uuid
import warnings

import numpy as np

import wengert as wg

# fmt: off

# case: a lock
lock = threading.Lock()
def f(x):
    with lock:
        return x * 2

# case: getLogger inside
def f(x):
    logging.getLogger("attack").debug("%s", x.shape)
    return x * 2

# case: a logger from outside that is off
log = logging.getLogger("attack2")
def f(x):
    if log.isEnabledFor(logging.DEBUG):
        log.debug("hm")
    return x * 2

# case: warnings caught
def f(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        k = float(np.array(2.0))
    return x * k

# case: errstate
def f(x):
    with np.errstate(all="ignore"):
        k = float(np.float64(1.0) / np.float64(2.0))
    return x * k

# case: suppress
def f(x):
    with contextlib.suppress(KeyError):
        {}["a"]
    return x * 2

# case: a regular expression
P = re.compile('(\\d+)')
def f(x):
    return x * int(P.search("a12").group(1))

# case: a Protocol
@typing.runtime_checkable
class Has(typing.Protocol):
    def go(self):
        ...
class C:
    def go(self):
        return 2.0
c = C()
def f(x):
    return x * (c.go() if isinstance(c, Has) else 1.0)

# case: a Generic class
T = typing.TypeVar("T")
class Box(typing.Generic[T]):
    def __init__(self, v):
        self.v = v
def f(x):
    return x * Box[float](2.0).v

# case: signature
def g(a, b):
    return a
def f(x):
    return x * len(inspect.signature(g).parameters)

# case: a Y combinator
def f(x):
    return (lambda r: r(r, 3))(lambda s, n: x if n == 0 else x * s(s, n - 1))

# case: EMA
w = [wg.tensor([1.0, 2.0, 3.0]), wg.tensor([1.0, 2.0, 3.0])]
e = [wg.tensor([1.0, 2.0, 3.0]), wg.tensor([1.0, 2.0, 3.0])]
def f(x):
    return [0.9 * b + 0.1 * a for a, b in zip(w, e, strict=True)]

# case: local memo by dict
def f(x):
    memo = {}
    def fib(n):
        if n not in memo:
            memo[n] = x if n < 2 else fib(n - 1) + fib(n - 2)
        return memo[n]
    return fib(7)

# case: seeded generator inside
def f(x):
    return x * float(np.random.default_rng(0).normal())

# case: seeded Random inside
def f(x):
    return x * random.Random(3).random()

# case: a copy of a table changed
T = np.arange(3.0)
def f(x):
    a = T.copy()
    a[0] = 7.0
    return x * a

# case: np.add.at local
def f(x):
    a = np.zeros(3)
    np.add.at(a, [0, 1], 1.0)
    np.fill_diagonal(np.eye(3), 0)
    a.sort()
    return x * a

# case: eye indexed by labels
labels = [0, 2, 1]
def f(x):
    return x @ np.eye(3)[labels]

# case: list copies appended
L = [1.0, 2.0]
def f(x):
    a = list(L)
    a.append(3.0)
    b = L[:]
    b.extend(a)
    c = L.copy()
    c.pop()
    d = [*L]
    d.insert(0, 1.0)
    e = sorted(L)
    e.reverse()
    return x * (sum(a) + sum(b) + sum(c) + sum(d) + sum(e))

# case: dict copies changed
D = {"a": 1.0}
def f(x):
    a = dict(D)
    a["b"] = 2.0
    b = D.copy()
    b.pop("a")
    c = {**D}
    c.update(a)
    d = D | a
    d.clear()
    return x * sum(c.values())

# case: copies of objects changed
class C:
    pass
o = C()
o.k = 2.0
def f(x):
    c = copy.copy(o)
    c.k = 3.0
    d = copy.deepcopy(o)
    d.k = 4.0
    return x * (c.k + d.k + o.k)

# case: a local instance with a counter
class Meter:
    def __init__(self):
        self.n, self.t = (0, 0.0)
    def add(self, v):
        self.n += 1
        self.t = self.t + v
        return self
    @property
    def mean(self):
        return self.t / self.n
def f(x):
    m = Meter()
    for i in range(3):
        m.add(x * i)
    return m.mean

# case: match on a shape
def f(x):
    match x.shape:
        case [n, d]:
            return x * d
        case [n] if n > 2:
            return x * n
        case _:
            return x

# case: match on classes
@dataclasses.dataclass
class A:
    k: float
@dataclasses.dataclass
class B:
    k: float
v = B(2.0)
def f(x):
    match v:
        case A(k):
            return x * k
        case B(k=k):
            return x * k * 2

# case: a local of the same name as an inner global
def f(x):
    def g():
        global nn
        return nn
    def h():
        nn = 3.0
        nn += 1
        return nn
    return x * g() * h()
nn = 2.0

# case: a generator with send
def f(x):
    def acc():
        t = 0.0
        while True:
            v = (yield t)
            if v is None:
                return
            t = t + v
    g = acc()
    next(g)
    g.send(x)
    r = g.send(x)
    return r

# case: an ExitStack local
def f(x):
    with contextlib.ExitStack() as s:
        out = []
        s.callback(out.append, 1)
        k = 2.0
    return x * k * len(out)

# case: a ChainMap local over a global
D = {"a": 2.0}
def f(x):
    c = collections.ChainMap({}, D)
    c["b"] = 1.0
    return x * c["a"] * c["b"]

# case: os.path and Path pure
p = pathlib.Path("/a/b.txt")
def f(x):
    return x * len(os.path.join("a", "b")) * len(p.stem) * len((p.parent / "c").name) * len(p.with_suffix(".x").name)

# case: a namedtuple state
class S(typing.NamedTuple):
    a: object
    b: int = 0
def f(x):
    s = S(x)
    for _ in range(3):
        s = s._replace(a=s.a * 2, b=s.b + 1)
    return s.a * s.b

# case: closures in a loop
def make(i):
    return lambda v: v + i
fs = [make(i) for i in range(3)]
def f(x):
    return functools.reduce(lambda a, g: g(a), fs, x)

# case: exceptions of one's own
class Stop(Exception):
    def __init__(self, v):
        super().__init__("s")
        self.v = v
def g(x, n):
    if n == 0:
        raise Stop(x)
    return g(x * 2, n - 1)
def f(x):
    try:
        g(x, 3)
    except Stop as s:
        return s.v

# case: io.StringIO local
def f(x):
    b = io.StringIO()
    b.write("ab")
    return x * len(b.getvalue())

# case: csv of a local string
def f(x):
    rows = list(csv.reader(["1,2", "3,4"]))
    return x * float(rows[1][0])

# case: uuid of a name
def f(x):
    return x * (uuid.uuid5(uuid.NAMESPACE_DNS, "a").int % 5 + 1)

# case: time formatted
def f(x):
    return x * time.gmtime(0).tm_year

# case: a Counter's absent key from outside
c = collections.Counter(a=1)
def f(x):
    return x * (2.0 + c["b"])

# case: an iterator class local
class Up:
    def __init__(self, n):
        self.i, self.n = (0, n)
    def __iter__(self):
        return self
    def __next__(self):
        if self.i >= self.n:
            raise StopIteration
        self.i += 1
        return self.i
def f(x):
    return sum((x * i for i in Up(3)), 0.0 * x)

# case: nested comprehension and walrus
def f(x):
    return sum(y * j for i in range(3) if (y := (x * i)) is not None for j in range(i))

# case: decorated with several
def a(fn):
    @functools.wraps(fn)
    def inner(*args, **kw):
        return fn(*args, **kw) + 1
    return inner
def b(n):
    def deco(fn):
        @functools.wraps(fn)
        def inner(*args, **kw):
            return fn(*args, **kw) * n
        return inner
    return deco
@a
@b(3)
@a
def g(x):
    return x
def f(x):
    return g(x)
