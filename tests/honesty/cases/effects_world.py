"""Functions that change arrays, files, random states and tensors outside."""
# ruff: noqa: F811

import contextvars
import io
import logging
import os
import pathlib
import random
import sys
import tempfile
import types

import numpy as np

import wengert as wg

# fmt: off

# case: an item of a NumPy array -> follows or refuses
counts = np.zeros(2)
def f(x):
    counts[0] += 1
    return x * 2
def effect():
    return counts.copy()

# case: a NumPy array in place -> follows or refuses
counts = np.zeros(2)
def f(x):
    np.add(counts, 1, out=counts)
    return x * 2
def effect():
    return counts.copy()

# case: array.fill -> follows or refuses
counts = np.zeros(2)
def f(x):
    c = counts
    c.fill(c[0] + 1)
    return x * 2
def effect():
    return counts.copy()

# case: del of an item -> follows or refuses
todo = list(range(100))
def f(x):
    del todo[0]
    return x * 2
def effect():
    return len(todo)

# case: a file written -> follows or refuses
folder = tempfile.TemporaryDirectory()
path = pathlib.Path(folder.name, "log")
def f(x):
    with open(path, "a") as file:
        file.write("f")
    return x * 2
def effect():
    return path.read_text()

# case: an open file written -> follows or refuses
out = io.StringIO()
def f(x):
    out.write("f")
    return x * 2
def effect():
    return out.getvalue()

# case: a directory made -> follows or refuses
folder = tempfile.TemporaryDirectory()
def f(x):
    os.mkdir(os.path.join(folder.name, str(len(os.listdir(folder.name)))))
    return x * 2
def effect():
    return len(os.listdir(folder.name))

# case: print -> follows or refuses or said
out = io.StringIO()
def f(x):
    print("shape", x.shape, file=out)
    return x * 2
def effect():
    return out.getvalue()

# case: logging -> follows or refuses or said
out = io.StringIO()
log = logging.getLogger(f"honesty.{id(out)}")
log.addHandler(logging.StreamHandler(out))
log.propagate = False
def f(x):
    log.warning("shape %s", x.shape)
    return x * 2
def effect():
    return out.getvalue()

# case: sys.stdout.write -> follows or refuses or said
class Out(io.StringIO):
    pass
out = Out()
def f(x):
    before, sys.stdout = sys.stdout, out
    try:
        sys.stdout.write("f")
    finally:
        sys.stdout = before
    return x * 2
def effect():
    return out.getvalue()

# case: random.seed -> follows or refuses
def f(x):
    random.seed(3)
    return x * 2
def undo():
    random.seed(99)
def effect():
    return hash(random.getstate())

# case: np.random.seed -> follows or refuses
def f(x):
    np.random.seed(3)
    return x * 2
def undo():
    np.random.seed(99)
def effect():
    return int(np.random.get_state()[1][0])

# case: wg.manual_seed
def f(x):
    wg.manual_seed(3)
    return x * 2
def undo():
    wg.manual_seed(99)
def effect():
    return wg.random.uniform((3,)).numpy().copy()

# case: a setting stored at every call -> follows or refuses
cfg = types.SimpleNamespace(mode="eval")
def f(x):
    cfg.mode = "train"
    return x * 2
def undo():
    cfg.mode = "eval"
def effect():
    return cfg.mode

# case: a list cleared -> follows or refuses
pending = [1, 2]
def f(x):
    pending.clear()
    return x * 2
def undo():
    pending.append(1)
def effect():
    return list(pending)

# case: a random number drawn and not used -> follows or refuses
random.seed(3)
def f(x):
    random.random()
    return x * 2
def effect():
    return hash(random.getstate())

# case: a NumPy random number drawn and not used -> follows or refuses
rng = np.random.default_rng(3)
def f(x):
    rng.normal()
    return x * 2
def effect():
    return str(rng.bit_generator.state)

# case: a generator advanced -> follows or refuses
def counting():
    global n
    while True:
        n += 1
        yield n
n = 0
numbers = counting()
def f(x):
    next(numbers)
    return x * 2
def effect():
    return n

# case: os.environ stored -> follows or refuses
os.environ["HONESTY_CALLS"] = "0"
def f(x):
    os.environ["HONESTY_CALLS"] = str(int(os.environ["HONESTY_CALLS"]) + 1)
    return x * 2
def effect():
    return os.environ["HONESTY_CALLS"]

# case: a context variable set -> follows or refuses
calls = contextvars.ContextVar("calls", default=0)
def f(x):
    calls.set(calls.get() + 1)
    return x * 2
def effect():
    return calls.get()

# case: a callback of the user's -> follows or refuses
seen = []
callbacks = [lambda n: seen.append(n)]
def f(x):
    for callback in callbacks:
        callback(x.ndim)
    return x * 2
def effect():
    return len(seen)

# case: an effect inside of grad -> follows or refuses
seen = []
def loss(x):
    seen.append(1)
    return (x * x).sum()
f = wg.grad(loss)
def effect():
    return len(seen)

# case: a __setitem__ of the user's -> follows or refuses
class Log:
    def __init__(self):
        self.rows = {}
    def __setitem__(self, key, value):
        self.rows[key] = value
log = Log()
def f(x):
    log[len(log.rows)] = 1
    return x * 2
def effect():
    return len(log.rows)

# case: a __enter__ that counts -> follows or refuses
class Timer:
    calls = 0
    def __enter__(self):
        self.calls += 1
    def __exit__(self, *exception):
        pass
timer = Timer()
def f(x):
    with timer:
        return x * 2
def effect():
    return timer.calls

# case: a tensor from outside assigned
total = wg.tensor(np.zeros(3))
def f(x):
    total.assign(total + x)
    return x * 2
def effect():
    return total.numpy().copy()

# case: += on a tensor from outside
state = types.SimpleNamespace(total=wg.tensor(np.zeros(3)))
def f(x):
    state.total += x
    return x * 2
def effect():
    return state.total.numpy().copy()

# case: grad accumulated on a parameter
w = wg.tensor(np.ones(3), requires_grad=True)
def f(x):
    (w * x).sum().backward()
    return x * 2
def effect():
    return w.grad.numpy().copy()
