"""Ways in which Python reads things: loops, comprehensions, unpacking, match, truth, and builtins over objects."""
# ruff: noqa: F811, B007

import dataclasses
import types


def space(**values):
    return types.SimpleNamespace(**values)


# fmt: off

# case: for over objects (long)
objs = [space(k=2.0), space(k=3.0)]
def f(x):
    for o in objs:
        x = x * o.k
    return x
def change():
    objs[1].k = 5.0

# case: for over a list that grows
objs = [space(k=2.0)]
def f(x):
    for o in objs:
        x = x * o.k
    return x
def change():
    objs.append(space(k=3.0))

# case: for over a list of 300 objects that grows
objs = [space(k=1.0) for _ in range(300)]
def f(x):
    return x * sum(o.k for o in objs)
def change():
    objs.append(space(k=3.0))

# case: a while loop over a linked list
chain = space(k=2.0, next=space(k=3.0, next=None))
def f(x):
    node = chain
    while node:
        x = x * node.k
        node = node.next
    return x
def change():
    chain.next.next = space(k=5.0, next=None)

# case: a nested loop
grid = [[2.0, 3.0], [4.0, 5.0]]
def f(x):
    for row in grid:
        for value in row:
            x = x * value
    return x
def change():
    grid[1][0] = 7.0

# case: a list comprehension
objs = [space(k=2.0), space(k=3.0)]
def f(x):
    return sum([x * o.k for o in objs])
def change():
    objs[1].k = 5.0

# case: a dict comprehension
objs = {"a": space(k=2.0), "b": space(k=3.0)}
def f(x):
    return {name: x * o.k for name, o in objs.items()}
def change():
    objs["b"].k = 5.0

# case: a generator expression
objs = [space(k=2.0), space(k=3.0)]
def f(x):
    return sum(x * o.k for o in objs)
def change():
    objs[1].k = 5.0

# case: a filtered comprehension
objs = [space(k=2.0, on=True), space(k=3.0, on=True)]
def f(x):
    return sum(x * o.k for o in objs if o.on)
def change():
    objs[1].on = False

# case: unpacking
cfg = [2.0, 3.0]
def f(x):
    a, b = cfg
    return x * a + b
def change():
    cfg[1] = 5.0

# case: nested unpacking
cfg = [2.0, [3.0, 4.0]]
def f(x):
    a, (b, c) = cfg
    return x * a + b * c
def change():
    cfg[1][1] = 5.0

# case: unpacking with a star
cfg = [2.0, 3.0, 4.0]
def f(x):
    first, *rest = cfg
    return x * first + sum(rest)
def change():
    cfg.append(5.0)

# case: star arguments
scales = [2.0, 3.0]
def combined(x, a, b):
    return x * a + b
def f(x):
    return combined(x, *scales)
def change():
    scales[1] = 5.0

# case: keyword arguments from a dict
options = {"a": 2.0, "b": 3.0}
def combined(x, a, b):
    return x * a + b
def f(x):
    return combined(x, **options)
def change():
    options["b"] = 5.0

# case: a list with a star inside
scales = [2.0, 3.0]
def f(x):
    return x * sum([1.0, *scales])
def change():
    scales[1] = 5.0

# case: dicts merged inside
base, more = {"k": 2.0}, {}
def f(x):
    return x * {**base, **more}["k"]
def change():
    more["k"] = 5.0

# case: dicts merged by |
base, more = {"k": 2.0}, {}
def f(x):
    return x * (base | more)["k"]
def change():
    more["k"] = 5.0

# case: lists added
first, second = [2.0], [3.0]
def f(x):
    for k in first + second:
        x = x * k
    return x
def change():
    second[0] = 5.0

# case: a walrus
o = space(inner=space(k=2.0))
def f(x):
    if (c := o.inner) is not None:
        return x * c.k
    return x
def change():
    o.inner.k = 5.0

# case: match on a string
mode = space(name="double")
def f(x):
    match mode.name:
        case "double":
            return x * 2
        case _:
            return x
def change():
    mode.name = "other"

# case: match on a mapping
cfg = {"kind": "scale", "k": 2.0}
def f(x):
    match cfg:
        case {"kind": "scale", "k": k}:
            return x * k
        case _:
            return x
def change():
    cfg["k"] = 5.0

# case: match on a sequence
cfg = [2.0]
def f(x):
    match cfg:
        case [k]:
            return x * k
        case [a, b]:
            return x * a + b
def change():
    cfg.append(3.0)

# case: match on a class
@dataclasses.dataclass
class Scale:
    k: float
cfg = Scale(2.0)
def f(x):
    match cfg:
        case Scale(k=k):
            return x * k
def change():
    cfg.k = 5.0

# case: a conditional expression
o = space(on=True)
def f(x):
    return x * 2 if o.on else x
def change():
    o.on = False

# case: the truth of a list
objs = []
def f(x):
    if objs:
        return x * 2
    return x
def change():
    objs.append(1)

# case: not of a list
objs = []
def f(x):
    return x if not objs else x * 2
def change():
    objs.append(1)

# case: a chained comparison
low, value = 0, [1]
def f(x):
    return x * 2 if low < value[0] < 3 else x
def change():
    value[0] = 4

# case: equality of two lists
mine, theirs = [1, [2]], [1, [2]]
def f(x):
    return x * 2 if mine == theirs else x
def change():
    theirs[1][0] = 3

# case: identity of two objects
o = space(a=space(), b=None)
o.b = o.a
def f(x):
    return x * 2 if o.a is o.b else x
def change():
    o.b = space()

# case: len
objs = [1, 2]
def f(x):
    return x * len(objs)
def change():
    objs.append(3)

# case: in a list
names = ["a"]
def f(x):
    return x * 2 if "b" in names else x
def change():
    names.append("b")

# case: in a dict
names = {"a": 1}
def f(x):
    return x * 2 if "b" in names else x
def change():
    names["b"] = 1

# case: iteration over the keys of a dict
factors = {2: None, 3: None}
def f(x):
    for k in factors:
        x = x * k
    return x
def change():
    factors[5] = None

# case: iteration over items
factors = {"a": [2.0], "b": [3.0]}
def f(x):
    for name, (k,) in factors.items():
        x = x * k
    return x
def change():
    factors["b"][0] = 5.0

# case: the order of a dict
factors = {"double": 2.0, "triple": 3.0}
def f(x):
    for k in factors.values():
        x = x * k + 1
    return x
def change():
    factors["double"] = factors.pop("double")

# case: a try that depends on an object
o = space(k=2.0)
def f(x):
    try:
        return x * o.k
    except AttributeError:
        return x
def change():
    del o.k

# case: an assertion on an object that fails later -> follows or refuses
o = space(ready=True)
def f(x):
    c = o
    assert c.ready
    return x * 2
def change():
    o.ready = False

# case: an f-string as a key
o, table = space(n=1), {"k1": 2.0, "k2": 3.0}
def f(x):
    c = o
    return x * table[f"k{c.n}"]
def change():
    o.n = 2
