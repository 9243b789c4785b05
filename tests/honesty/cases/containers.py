"""Containers outside of the function: of Python, of `collections`, of NumPy."""
# ruff: noqa: F811

import array
import collections
import types

import numpy as np

import wengert as wg

# fmt: off

# case: an item of a list
scales = [2.0, 3.0]
def f(x):
    return x * scales[0]
def change():
    scales[0] = 5.0

# case: an item of a long list (long)
scales = [2.0] * 1000
def f(x):
    return x * scales[700]
def change():
    scales[700] = 5.0

# case: the last item of a list that grows
scales = [2.0, 3.0]
def f(x):
    return x * scales[-1]
def change():
    scales.append(5.0)

# case: an item by a computed index
scales = [2.0, 3.0]
index = 0
def f(x):
    i = index + 1
    return x * scales[i]
def change():
    scales[1] = 5.0

# case: a slice of a list
scales = [2.0, 3.0, 4.0]
def f(x):
    for scale in scales[1:]:
        x = x * scale
    return x
def change():
    scales[2] = 5.0

# case: a dict
cfg = {"k": 2.0}
def f(x):
    return x * cfg["k"]
def change():
    cfg["k"] = 5.0

# case: a nested dict
cfg = {"model": {"block": {"k": 2.0}}}
def f(x):
    return x * cfg["model"]["block"]["k"]
def change():
    cfg["model"]["block"]["k"] = 5.0

# case: a dict four levels deep, by a variable
cfg = {"a": {"b": {"c": {"k": 2.0}}}}
def f(x):
    part = cfg
    for key in "abc":
        part = part[key]
    return x * part["k"]
def change():
    cfg["a"]["b"]["c"]["k"] = 5.0

# case: a dict of lists
cfg = {"scales": [2.0, 3.0]}
def f(x):
    return x * cfg["scales"][1]
def change():
    cfg["scales"][1] = 5.0

# case: dict.get with a default
cfg = {}
def f(x):
    return x * cfg.get("k", 2.0)
def change():
    cfg["k"] = 5.0

# case: dict.get of a key of a large dict
cfg = {i: float(i) for i in range(600)}
def f(x):
    return x * cfg.get(500)
def change():
    cfg[500] = 5.0

# case: a key that is a tuple
table = {(1, "a"): 2.0}
def f(x):
    return x * table[1, "a"]
def change():
    table[1, "a"] = 5.0

# case: a key removed, so that a KeyError is handled
cfg = {"k": 2.0}
def f(x):
    try:
        return x * cfg["k"]
    except KeyError:
        return x
def change():
    del cfg["k"]

# case: a defaultdict
cfg = collections.defaultdict(float, k=2.0)
def f(x):
    return x * cfg["k"]
def change():
    cfg["k"] = 5.0

# case: a Counter
seen = collections.Counter("aab")
def f(x):
    return x * seen["a"]
def change():
    seen.update("aaa")

# case: a deque
recent = collections.deque([2.0, 3.0])
def f(x):
    return x * recent[-1]
def change():
    recent.append(5.0)

# case: membership in a set
enabled = {"bias"}
def f(x):
    return x * 2 if "scale" in enabled else x
def change():
    enabled.add("scale")

# case: the length of a set
enabled = {"bias"}
def f(x):
    return x * len(enabled)
def change():
    enabled.add("scale")

# case: a frozenset replaced
enabled = frozenset({"bias"})
def f(x):
    return x * 2 if "scale" in enabled else x
def change():
    global enabled
    enabled = enabled | {"scale"}

# case: the order of an OrderedDict
stages = collections.OrderedDict(double=lambda v: v * 2, shift=lambda v: v + 1)
def f(x):
    for stage in stages.values():
        x = stage(x)
    return x
def change():
    stages.move_to_end("double")

# case: a ChainMap
defaults = {"k": 2.0}
cfg = collections.ChainMap({}, defaults)
def f(x):
    return x * cfg["k"]
def change():
    cfg["k"] = 5.0

# case: the map behind a ChainMap
defaults = {"k": 2.0}
cfg = collections.ChainMap({}, defaults)
def f(x):
    return x * cfg["k"]
def change():
    defaults["k"] = 5.0

# case: a UserDict
cfg = collections.UserDict(k=2.0)
def f(x):
    return x * cfg["k"]
def change():
    cfg["k"] = 5.0

# case: a UserList
scales = collections.UserList([2.0])
def f(x):
    return x * scales[0]
def change():
    scales[0] = 5.0

# case: a MappingProxyType
under = {"k": 2.0}
cfg = types.MappingProxyType(under)
def f(x):
    return x * cfg["k"]
def change():
    under["k"] = 5.0

# case: a bytearray
levels = bytearray([2, 3])
def f(x):
    return x * levels[0]
def change():
    levels[0] = 5

# case: an array.array
levels = array.array("d", [2.0, 3.0])
def f(x):
    return x * levels[0]
def change():
    levels[0] = 5.0

# case: a memoryview
under = bytearray([2, 3])
levels = memoryview(under)
def f(x):
    return x * levels[0]
def change():
    under[0] = 5

# case: a subclass of dict
class Config(dict):
    pass
cfg = Config(k=2.0)
def f(x):
    return x * cfg["k"]
def change():
    cfg["k"] = 5.0

# case: a subclass of list
class Scales(list):
    pass
scales = Scales([2.0])
def f(x):
    return x * scales[0]
def change():
    scales[0] = 5.0

# case: a dict whose keys are attributes
class Config(dict):
    def __getattr__(self, name):
        return self[name]
cfg = Config(k=2.0)
def f(x):
    return x * cfg.k
def change():
    cfg["k"] = 5.0

# case: an item of a NumPy array (long)
table = np.array([2.0, 3.0])
def f(x):
    return x * float(table[0])
def change():
    table[0] = 5.0

# case: an item of a NumPy array as a NumPy scalar
table = np.array([2.0, 3.0])
def f(x):
    return x * table[0]
def change():
    table[0] = 5.0

# case: a NumPy array read by an op (long)
weights = np.array([2.0, 3.0, 4.0])
def f(x):
    return x * weights
def change():
    weights[:] = [5.0, 6.0, 7.0]

# case: a NumPy array replaced
weights = np.array([2.0, 3.0, 4.0])
def f(x):
    return x * weights
def change():
    global weights
    weights = weights * 2

# case: a NumPy array made a tensor inside
weights = np.array([2.0, 3.0, 4.0])
def f(x):
    return x @ wg.tensor(weights)
def change():
    weights[1] = 9.0

# case: the mean of a NumPy array
history = np.array([2.0, 4.0])
def f(x):
    return x * history.mean()
def change():
    history[0] = 10.0

# case: NumPy arithmetic on an array
weights = np.array([2.0, 3.0, 4.0])
def f(x):
    return x * (weights + 1)
def change():
    weights[1] = 9.0

# case: a view of a NumPy array
base = np.array([1.0, 2.0, 3.0, 4.0])
view = base[1:]
def f(x):
    return x * view
def change():
    base[2] = 9.0

# case: a field of a structured array
table = np.array([(1, 2.0)], dtype=[("n", "i4"), ("k", "f8")])
def f(x):
    return x * float(table["k"][0])
def change():
    table["k"][0] = 5.0

# case: a dict of NumPy arrays
params = {"w": np.array([2.0, 3.0, 4.0])}
def f(x):
    return x * params["w"]
def change():
    params["w"] += 1.0

# case: a list of tensors, one replaced
layers = [wg.tensor(np.array([2.0, 2.0, 2.0])), wg.tensor(np.array([3.0, 3.0, 3.0]))]
def f(x):
    for w in layers:
        x = x * w
    return x
def change():
    layers[1] = wg.tensor(np.array([5.0, 5.0, 5.0]))
