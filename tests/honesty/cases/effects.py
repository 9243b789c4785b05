"""Functions that change something outside, which plain code does at every call: a replay must not lose it silently."""
# ruff: noqa: F811, B010

import collections
import types

import numpy as np

import wengert as wg

X = wg.tensor(np.array([1.0, 2.0, 3.0]))

# fmt: off

# case: list.append -> follows or refuses
seen = []
def f(x):
    seen.append(1)
    return x * 2
def effect():
    return len(seen)

# case: list.append through an alias -> follows or refuses
seen = []
def f(x):
    log = seen
    log.append(x.ndim)
    return x * 2
def effect():
    return len(seen)

# case: list.append by a bound method -> follows or refuses
seen = []
note = seen.append
def f(x):
    note(1)
    return x * 2
def effect():
    return len(seen)

# case: list.append in a helper -> follows or refuses
seen = []
def note(log):
    log.append(1)
def f(x):
    note(seen)
    return x * 2
def effect():
    return len(seen)

# case: += on a list -> follows or refuses
seen = []
def f(x):
    global seen
    seen += [1]
    return x * 2
def effect():
    return len(seen)

# case: list.extend, insert and pop -> follows or refuses
seen = [0] * 1000
def f(x):
    seen.extend([1, 2])
    seen.insert(0, 3)
    seen.pop()
    return x * 2
def effect():
    return list(seen)

# case: list.sort -> follows or refuses
order = [3, 1, 2]
def f(x):
    order.sort()
    return x * 2
def undo():
    order.reverse()
def effect():
    return list(order)

# case: an item of a list stored -> follows or refuses
counts = [0]
def f(x):
    counts[0] += 1
    return x * 2
def effect():
    return counts[0]

# case: an item of a dict stored -> follows or refuses
stats = {"calls": 0}
def f(x):
    stats["calls"] = stats["calls"] + 1
    return x * 2
def effect():
    return stats["calls"]

# case: a new key of a dict -> follows or refuses
cache = {}
def f(x):
    cache[len(cache)] = x.shape
    return x * 2
def effect():
    return len(cache)

# case: dict.update -> follows or refuses
cfg = {"calls": 0}
def f(x):
    cfg.update(calls=cfg["calls"] + 1)
    return x * 2
def effect():
    return cfg["calls"]

# case: dict.setdefault -> follows or refuses
cfg = {}
def f(x):
    cfg.setdefault(len(cfg), 1)
    return x * 2
def effect():
    return len(cfg)

# case: dict.pop -> follows or refuses
todo = dict.fromkeys(range(100))
def f(x):
    todo.popitem()
    return x * 2
def effect():
    return len(todo)

# case: a defaultdict counted up -> follows or refuses
counts = collections.defaultdict(int)
def f(x):
    counts["f"] += 1
    return x * 2
def effect():
    return counts["f"]

# case: a Counter updated -> follows or refuses
counts = collections.Counter()
def f(x):
    counts.update(["f"])
    return x * 2
def effect():
    return counts["f"]

# case: set.add -> follows or refuses
seen = set()
def f(x):
    seen.add(len(seen))
    return x * 2
def effect():
    return len(seen)

# case: deque.append -> follows or refuses
recent = collections.deque(maxlen=100)
def f(x):
    recent.append(1)
    return x * 2
def effect():
    return len(recent)

# case: an attribute of a global object -> follows or refuses
state = types.SimpleNamespace(calls=0)
def f(x):
    state.calls += 1
    return x * 2
def effect():
    return state.calls

# case: an attribute that the result depends on -> follows or refuses
state = types.SimpleNamespace(step=0)
def f(x):
    s = state
    s.step += 1
    return x * s.step
def effect():
    return state.step

# case: setattr -> follows or refuses
state = types.SimpleNamespace(calls=0)
def f(x):
    setattr(state, "calls", state.calls + 1)
    return x * 2
def effect():
    return state.calls

# case: vars(...) stored -> follows or refuses
state = types.SimpleNamespace(calls=0)
def f(x):
    vars(state)["calls"] += 1
    return x * 2
def effect():
    return state.calls

# case: an attribute of a slots object -> follows or refuses
class State:
    __slots__ = ("calls",)
state = State()
state.calls = 0
def f(x):
    s = state
    s.calls += 1
    return x * 2
def effect():
    return state.calls

# case: an attribute of self -> follows or refuses
class Model:
    def __init__(self):
        self.calls = 0
    def apply(self, x):
        self.calls += 1
        return x * 2
model = Model()
f = model.apply
def effect():
    return model.calls

# case: an attribute of a Module in forward -> follows or refuses
class Net(wg.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0
    def forward(self, x):
        self.calls += 1
        return x * 2
net = Net()
def f(x):
    return net(x)
def effect():
    return net.calls

# case: a list of a Module in forward -> follows or refuses
class Net(wg.nn.Module):
    def __init__(self):
        super().__init__()
        self.history = []
    def forward(self, x):
        self.history.append(x.shape)
        return x * 2
net = Net()
def f(x):
    return net(x)
def effect():
    return len(net.history)

# case: a class attribute -> follows or refuses
class Model:
    calls = 0
def f(x):
    Model.calls += 1
    return x * 2
def effect():
    return Model.calls

# case: an attribute of a function -> follows or refuses
def f(x):
    f.calls += 1
    return x * 2
f.calls = 0
def effect():
    return f.calls

# case: an attribute that a property's setter stores -> follows or refuses
class Model:
    def __init__(self):
        self._calls = 0
    @property
    def calls(self):
        return self._calls
    @calls.setter
    def calls(self, value):
        self._calls = value
model = Model()
def f(x):
    model.calls = model.calls + 1
    return x * 2
def effect():
    return model.calls

# case: a nonlocal counter -> follows or refuses
def make():
    calls = 0
    def f(x):
        nonlocal calls
        calls += 1
        return x * 2
    return f, lambda: calls
f, effect = make()

# case: a global counter -> follows or refuses
calls = 0
def f(x):
    global calls
    calls += 1
    return x * 2
def effect():
    return calls

# case: globals() stored -> follows or refuses
calls = 0
def f(x):
    globals()["calls"] += 1
    return x * 2
def effect():
    return calls

# case: a mutable default appended to -> follows or refuses
def f(x, seen=[]):  # noqa: B006
    seen.append(1)
    return x * 2
def effect():
    return len(f.__defaults__[0])

# case: an argument changed in place -> follows or refuses
class Count:
    n = 0
stats = {"calls": Count()}
args = (X, stats)
def f(x, s):
    s["calls"].n += 1
    return x * 2
def effect():
    return stats["calls"].n

# case: a list argument appended to -> follows or refuses
class Names:
    def __init__(self):
        self.seen = []
names = Names()
args = (X, names)
def f(x, n):
    n.seen.append("f")
    return x * 2
def effect():
    return len(names.seen)
