"""Builtins and the standard library over what lies outside."""
# ruff: noqa: F811, RUF015

import bisect
import copy
import functools
import heapq
import itertools
import json
import math
import operator
import statistics
import types

import numpy as np

import wengert as wg


def space(**values):
    return types.SimpleNamespace(**values)


# fmt: off

# case: attrgetter
cfg = types.SimpleNamespace(model=types.SimpleNamespace(k=2.0))
read = operator.attrgetter("model.k")
def f(x):
    return x * read(cfg)
def change():
    cfg.model.k = 5.0

# case: itemgetter
cfg = {"k": 2.0}
read = operator.itemgetter("k")
def f(x):
    return x * read(cfg)
def change():
    cfg["k"] = 5.0

# case: methodcaller
class Scale:
    k = 2.0
    def apply(self, x):
        return x * self.k
scale = Scale()
call = operator.methodcaller("apply", wg.ones(3))
def f(x):
    return x * call(scale)
def change():
    scale.k = 5.0

# case: sorted with a key
objs = [space(order=1, k=2.0), space(order=2, k=3.0)]
def f(x):
    for o in sorted(objs, key=lambda o: o.order):
        x = x * o.k + 1
    return x
def change():
    objs[0].order = 3

# case: min
objs = [space(k=2.0), space(k=3.0)]
def f(x):
    return x * min(o.k for o in objs)
def change():
    objs[0].k = 1.0

# case: max with a key
objs = [space(k=2.0, rank=1), space(k=3.0, rank=2)]
def f(x):
    return x * max(objs, key=lambda o: o.rank).k
def change():
    objs[0].rank = 3

# case: sum of a list
scales = [2.0, 3.0]
def f(x):
    return x * sum(scales)
def change():
    scales[0] = 5.0

# case: zip
a, b = [space(k=2.0)], [space(k=3.0)]
def f(x):
    for p, q in zip(a, b):
        x = x * p.k + q.k
    return x
def change():
    b[0].k = 5.0

# case: enumerate
objs = [space(k=2.0), space(k=3.0)]
def f(x):
    for i, o in enumerate(objs):
        x = x * o.k + i
    return x
def change():
    objs[1].k = 5.0

# case: map
objs = [space(k=2.0), space(k=3.0)]
def f(x):
    return sum(map(lambda o: x * o.k, objs))
def change():
    objs[1].k = 5.0

# case: map of attrgetter
objs = [space(k=2.0), space(k=3.0)]
def f(x):
    return x * sum(map(operator.attrgetter("k"), objs))
def change():
    objs[1].k = 5.0

# case: filter
objs = [space(k=2.0, on=True), space(k=3.0, on=True)]
def f(x):
    return sum(x * o.k for o in filter(lambda o: o.on, objs))
def change():
    objs[1].on = False

# case: any
objs = [space(on=False), space(on=False)]
def f(x):
    return x * 2 if any(o.on for o in objs) else x
def change():
    objs[1].on = True

# case: all
flags = [True, True]
def f(x):
    return x * 2 if all(flags) else x
def change():
    flags[1] = False

# case: reversed
scales = [2.0, 3.0]
def f(x):
    for k in reversed(scales):
        x = x * k + 1
    return x
def change():
    scales[0] = 5.0

# case: iter and next of a list
scales = [2.0, 3.0]
def f(x):
    return x * next(iter(scales))
def change():
    scales[0] = 5.0

# case: dict of a list of pairs
pairs = [("k", 2.0)]
def f(x):
    return x * dict(pairs)["k"]
def change():
    pairs[0] = ("k", 5.0)

# case: list of a tuple of objects
objs = (space(k=2.0),)
def f(x):
    return x * list(objs)[0].k
def change():
    objs[0].k = 5.0

# case: str.join and split
names = ["double", "double"]
def f(x):
    for _ in "-".join(names).split("-"):
        x = x * 2
    return x
def change():
    names.append("double")

# case: functools.reduce
objs = [space(k=2.0), space(k=3.0)]
def f(x):
    return functools.reduce(lambda v, o: v * o.k, objs, x)
def change():
    objs[1].k = 5.0

# case: itertools.chain
a, b = [space(k=2.0)], [space(k=3.0)]
def f(x):
    for o in itertools.chain(a, b):
        x = x * o.k
    return x
def change():
    b[0].k = 5.0

# case: itertools.accumulate
scales = [2.0, 3.0]
def f(x):
    for k in itertools.accumulate(scales, operator.mul):
        x = x + k
    return x
def change():
    scales[1] = 5.0

# case: math.prod
scales = [2.0, 3.0]
def f(x):
    return x * math.prod(scales)
def change():
    scales[1] = 5.0

# case: statistics.mean
scales = [2.0, 4.0]
def f(x):
    return x * statistics.mean(scales)
def change():
    scales[1] = 10.0

# case: np.mean of a list
scales = [2.0, 4.0]
def f(x):
    return x * np.mean(scales)
def change():
    scales[1] = 10.0

# case: np.interp of two lists
at, values = [0.0, 1.0], [2.0, 4.0]
def f(x):
    return x * float(np.interp(0.5, at, values))
def change():
    values[1] = 10.0

# case: copy.deepcopy
cfg = {"inner": {"k": 2.0}}
def f(x):
    mine = copy.deepcopy(cfg)
    mine["inner"]["k"] += 1
    return x * mine["inner"]["k"]
def change():
    cfg["inner"]["k"] = 5.0

# case: copy of a list changed inside
scales = [2.0, 3.0]
def f(x):
    mine = scales.copy()
    mine.append(1.0)
    return x * sum(mine)
def change():
    scales[0] = 5.0

# case: json.dumps
cfg = {"k": [2.0]}
def f(x):
    return x * json.loads(json.dumps(cfg))["k"][0]
def change():
    cfg["k"][0] = 5.0

# case: bisect
edges = [1.0, 2.0, 3.0]
def f(x):
    return x * bisect.bisect(edges, 1.5)
def change():
    edges[0] = 1.7

# case: heapq.nsmallest
costs = [3.0, 1.0, 2.0]
def f(x):
    return x * sum(heapq.nsmallest(2, costs))
def change():
    costs[0] = 0.5

# case: list.index
order = ["a", "b"]
def f(x):
    return x * (1 + order.index("b"))
def change():
    order.reverse()

# case: str methods of a global
mode = ["Sum"]
def f(x):
    return x.sum() if mode[0].lower().startswith("s") else x.mean()
def change():
    mode[0] = "Mean"

# case: hash of a tuple
key = [(1, 2)]
def f(x):
    return x * (hash(key[0]) % 1000)
def change():
    key[0] = (3, 4)

# case: id as a key
a, b = space(), space()
table, current = {id(a): 2.0, id(b): 5.0}, [a]
def f(x):
    return x * table[id(current[0])]
def change():
    current[0] = b

# case: sum of an attribute over a dict
objs = {"a": space(k=2.0), "b": space(k=3.0)}
def f(x):
    return x * sum(o.k for o in objs.values())
def change():
    objs["b"].k = 5.0

# case: setdefault on a local dict of global values
cfg = {"k": 2.0}
def f(x):
    mine = dict(cfg)
    return x * mine.setdefault("k", 1.0)
def change():
    cfg["k"] = 5.0

# case: a sort of a local copy
scales = [3.0, 2.0]
def f(x):
    mine = list(scales)
    mine.sort()
    return x * mine[0]
def change():
    scales[0] = 1.0
