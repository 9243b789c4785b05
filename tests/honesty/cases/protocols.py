"""Classes with Python's special methods, which read the state of their objects."""
# ruff: noqa: F811

import contextlib

import wengert as wg

# fmt: off

# case: __getitem__
class Table:
    def __init__(self):
        self.rows = {"k": 2.0}
    def __getitem__(self, key):
        return self.rows[key]
table = Table()
def f(x):
    return x * table["k"]
def change():
    table.rows["k"] = 5.0

# case: __len__
class Stack:
    def __init__(self):
        self.items = [1, 2]
    def __len__(self):
        return len(self.items)
stack = Stack()
def f(x):
    return x * len(stack)
def change():
    stack.items.append(3)

# case: __iter__
class Scales:
    def __init__(self):
        self.values = [2.0, 3.0]
    def __iter__(self):
        return iter(self.values)
scales = Scales()
def f(x):
    for scale in scales:
        x = x * scale
    return x
def change():
    scales.values[1] = 5.0

# case: __iter__ that is a generator
class Scales:
    def __init__(self):
        self.first, self.second = 2.0, 3.0
    def __iter__(self):
        yield self.first
        yield self.second
scales = Scales()
def f(x):
    a, b = scales
    return x * a + b
def change():
    scales.second = 5.0

# case: iteration by __getitem__ and IndexError
class Scales:
    def __init__(self):
        self.values = [2.0, 3.0]
    def __getitem__(self, i):
        return self.values[i]
scales = Scales()
def f(x):
    for scale in scales:
        x = x * scale
    return x
def change():
    scales.values.append(5.0)

# case: __bool__
class Switch:
    on = True
    def __bool__(self):
        return self.on
switch = Switch()
def f(x):
    return x * 2 if switch else x
def change():
    switch.on = False

# case: truth by __len__
class Bag:
    def __init__(self):
        self.items = []
    def __len__(self):
        return len(self.items)
bag = Bag()
def f(x):
    return x * 2 if bag else x
def change():
    bag.items.append(1)

# case: __mul__
class Factor:
    def __init__(self, k):
        self.k = k
    def __mul__(self, other):
        return self.k * other
factor = Factor(2.0)
def f(x):
    return x * (factor * 3.0)
def change():
    factor.k = 5.0

# case: __rmul__
class Factor:
    def __init__(self, k):
        self.k = k
    def __rmul__(self, other):
        return other * self.k
factor = Factor(2.0)
def f(x):
    return x + 3.0 * factor
def change():
    factor.k = 5.0

# case: __add__ and __neg__
class Money:
    def __init__(self, amount):
        self.amount = amount
    def __add__(self, other):
        return Money(self.amount + other.amount)
    def __neg__(self):
        return Money(-self.amount)
a, b = Money(2.0), Money(3.0)
def f(x):
    return x * (a + -b).amount
def change():
    b.amount = 5.0

# case: __iadd__ on a local copy
class Total:
    def __init__(self, value):
        self.value = value
    def __iadd__(self, other):
        return Total(self.value + other.value)
start, step = Total(1.0), Total(2.0)
def f(x):
    total = start
    total += step
    return x * total.value
def change():
    step.value = 5.0

# case: __float__
class Scalar:
    value = 2.0
    def __float__(self):
        return self.value
scalar = Scalar()
def f(x):
    return x * float(scalar)
def change():
    scalar.value = 5.0

# case: __index__
class Position:
    at = 0
    def __index__(self):
        return self.at
position = Position()
scales = [2.0, 3.0]
def f(x):
    return x * scales[position]
def change():
    position.at = 1

# case: __index__ in range
class Count:
    n = 2
    def __index__(self):
        return self.n
count = Count()
def f(x):
    for _ in range(count):
        x = x * 2
    return x
def change():
    count.n = 4

# case: __call__
class Scale:
    def __init__(self):
        self.k = 2.0
    def __call__(self, x):
        return x * self.k
scale = Scale()
def f(x):
    return scale(x)
def change():
    scale.k = 5.0

# case: a callable object compiled itself
class Scale:
    __slots__ = ("k",)
    def __init__(self):
        self.k = 2.0
    def __call__(self, x):
        return x * self.k
f = Scale()
def change():
    f.k = 5.0

# case: __enter__
class Scaling:
    k = 2.0
    def __enter__(self):
        return self.k
    def __exit__(self, *exception):
        return False
scaling = Scaling()
def f(x):
    with scaling as k:
        return x * k
def change():
    scaling.k = 5.0

# case: a contextmanager
options = {"k": 2.0}
@contextlib.contextmanager
def scaling():
    yield options["k"]
def f(x):
    with scaling() as k:
        return x * k
def change():
    options["k"] = 5.0

# case: an ExitStack
options = {"k": 2.0}
@contextlib.contextmanager
def scaling():
    yield options["k"]
def f(x):
    with contextlib.ExitStack() as stack:
        k = stack.enter_context(scaling())
        return x * k
def change():
    options["k"] = 5.0

# case: __contains__
class Names:
    def __init__(self):
        self.known = ["a"]
    def __contains__(self, name):
        return name in self.known
names = Names()
def f(x):
    return x * 2 if "b" in names else x
def change():
    names.known.append("b")

# case: __eq__
class Version:
    def __init__(self, number):
        self.number = number
    def __eq__(self, other):
        return self.number == other.number
    __hash__ = None
mine, theirs = Version(1), Version(1)
def f(x):
    return x * 2 if mine == theirs else x
def change():
    theirs.number = 2

# case: __lt__ in sorted
class Stage:
    def __init__(self, order, k):
        self.order, self.k = order, k
    def __lt__(self, other):
        return self.order < other.order
stages = [Stage(1, 2.0), Stage(2, 3.0)]
def f(x):
    for stage in sorted(stages):
        x = x * stage.k + stage.k
    return x
def change():
    stages[0].order = 3

# case: __hash__ and __eq__ as a key
class Key:
    def __init__(self, name):
        self.name = name
    def __hash__(self):
        return hash(self.name)
    def __eq__(self, other):
        return self.name == other.name
table = {Key("a"): 2.0, Key("b"): 3.0}
key = Key("a")
def f(x):
    return x * table[key]
def change():
    key.name = "b"

# case: __str__
class Mode:
    name = "sum"
    def __str__(self):
        return self.name
mode = Mode()
def f(x):
    return x.sum() if str(mode) == "sum" else x.mean()
def change():
    mode.name = "mean"

# case: __format__ in an f-string
class Mode:
    name = "sum"
    def __format__(self, spec):
        return self.name
mode = Mode()
def f(x):
    return getattr(x, f"{mode}")()
def change():
    mode.name = "mean"

# case: __missing__
class Config(dict):
    fallback = 2.0
    def __missing__(self, key):
        return self.fallback
cfg = Config()
def f(x):
    return x * cfg["k"]
def change():
    cfg.fallback = 5.0

# case: __new__ and __init__ that read a global
k = 2.0
class Scale:
    def __init__(self):
        self.k = k
def f(x):
    return x * Scale().k
def change():
    global k
    k = 5.0

# case: __array__
class Column:
    def __init__(self):
        self.values = [2.0, 3.0, 4.0]
    def __array__(self, dtype=None, copy=None):
        import numpy as np
        return np.array(self.values, dtype=dtype)
column = Column()
def f(x):
    return x * wg.asarray(column)
def change():
    column.values[0] = 5.0
