"""Correct programs beside which something else moves at every call: what they do not read must not matter."""
# ruff: noqa: F811

import collections
import dataclasses
import os
import random
import types

import numpy as np

import wengert as wg
from wengert import nn

# fmt: off

# case: another global counted up -> runs
k, step = 2.0, 0
def f(x):
    return x * k
def each():
    global step
    step += 1

# case: another attribute of the same object -> runs
state = types.SimpleNamespace(k=2.0, step=0)
def f(x):
    s = state
    return x * s.k
def each():
    state.step += 1

# case: another attribute of a slots object -> runs
@dataclasses.dataclass(slots=True)
class State:
    k: float = 2.0
    step: int = 0
state = State()
def f(x):
    return x * state.k
def each():
    state.step += 1

# case: another key of the same dict -> runs
state = {"k": 2.0, "step": 0}
def f(x):
    return x * state["k"]
def each():
    state["step"] += 1

# case: another key read through an alias -> runs
state = {"k": 2.0, "losses": []}
def f(x):
    s = state
    return x * s["k"]
def each():
    state["losses"].append(1.0)

# case: a history of the same object -> runs
class Trainer:
    def __init__(self):
        self.k, self.history = 2.0, []
    def apply(self, x):
        return x * self.k
trainer = Trainer()
f = trainer.apply
def each():
    trainer.history.append(1.0)

# case: a counter in a closure beside -> runs
def make():
    k, calls = 2.0, 0
    def f(x):
        return x * k
    def each():
        nonlocal calls
        calls += 1
    return f, each
f, each = make()

# case: a class attribute beside -> runs
class Settings:
    k = 2.0
    calls = 0
def f(x):
    return x * Settings.k
def each():
    Settings.calls += 1

# case: an item written back -> runs
scales = [2.0, 3.0]
def f(x):
    return x * scales[0]
def each():
    scales[0] = 4.0 / 2

# case: an equal number of another identity -> runs
k = 1234.5
def f(x):
    return x * k
def each():
    global k
    k = float("1234.5")

# case: an equal string of another identity -> runs
mode = "double-mode"
def f(x):
    return x * 2 if mode == "double-mode" else x
def each():
    global mode
    mode = "-".join(["double", "mode"])

# case: random numbers drawn outside -> runs
def f(x):
    return x * 2
def each():
    random.random()
    np.random.rand()

# case: the environment changed outside -> runs
def f(x):
    return x * 2
def each():
    os.environ["HONESTY_STEP"] = str(random.random())

# case: another module's mode -> runs or rerecords
wg.manual_seed(0)
net, other = nn.Linear(3, 2), nn.Dropout(0.5)
args = (wg.tensor(np.ones((2, 3), np.float32)),)
def f(x):
    return net(x)
def each():
    other.train(not other.training)

# case: a counter kept on the model by the caller -> runs or rerecords
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale, self.steps = 2.0, 0
    def forward(self, x):
        return x * self.scale
net = Net()
def f(x):
    return net(x)
def each():
    net.steps += 1

# case: a learning rate set at every call -> runs
w = wg.tensor(np.array([1.0, 2.0]), requires_grad=True)
optimizer = wg.optim.SGD([w], lr=0.1)
steps = [0]
args = ()
def f():
    optimizer.zero_grad()
    loss = (w * w).sum()
    loss.backward()
    optimizer.step()
    return loss
def each():
    steps[0] += 1
    optimizer.param_groups[0]["lr"] = 0.1 / steps[0]

# case: new tensors as arguments -> runs
args = (wg.tensor(np.ones(3)), 1.0)
def f(x, lr):
    return x * lr
def each():
    global args
    args = (args[0] + 1, args[1] + 0.5)

# case: new containers of arguments -> runs
args = ({"x": wg.tensor(np.ones(3)), "mode": "sum"},)
def f(batch):
    return batch["x"].sum() if batch["mode"] == "sum" else batch["x"]
def each():
    global args
    args = ({"x": args[0]["x"] + 1, "mode": "su" + "m"},)

# case: a queue of results that the caller keeps -> runs
recent = collections.deque(maxlen=3)
k = 2.0
def f(x):
    return x * k
def each():
    recent.append(f)

# case: a NumPy array as an argument, written between calls -> runs
buffer = np.ones(3)
args = (buffer,)
def f(x):
    return wg.asarray(x) * 2
def each():
    buffer[:] += 1

# case: a NumPy array from outside, written between calls -> runs
buffer = np.ones(3)
def f(x):
    return x * buffer
def each():
    buffer[:] += 1

# case: a tensor from outside assigned between calls -> runs
scale = wg.tensor(np.ones(3))
def f(x):
    return x * scale
def each():
    scale.assign(scale + 1)
