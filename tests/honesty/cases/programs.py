"""Longer programs as people write them: training loops with settings, schedules, registries, callbacks."""
# ruff: noqa: F811

import argparse
import collections
import dataclasses
import functools
import random
import types

import numpy as np

import wengert as wg
from wengert import nn


def batch():
    return wg.tensor(np.arange(6, dtype=np.float32).reshape(2, 3) / 6)


# fmt: off

# case: argparse options in a loss
options = argparse.Namespace(weight=0.1, reduction="mean")
def f(x):
    opt = options
    loss = (x * x).mean() if opt.reduction == "mean" else (x * x).sum()
    return loss * opt.weight
def change():
    options.reduction = "sum"

# case: a registry filled by a decorator
LAYERS = {}
def register(name):
    def add(function):
        LAYERS[name] = function
        return function
    return add
@register("act")
def double(x):
    return x * 2
def f(x):
    return LAYERS["act"](x)
def change():
    @register("act")
    def triple(x):
        return x * 3

# case: a pipeline object whose stages are edited
class Pipeline:
    def __init__(self, *stages):
        self.stages = list(stages)
    def __call__(self, x):
        for stage in self.stages:
            x = stage(x)
        return x
f = Pipeline(lambda x: x * 2, lambda x: x + 1)
def change():
    f.stages.pop()

# case: a curriculum that an epoch selects
class Curriculum:
    def __init__(self):
        self.epoch, self.weights = 0, {0: 1.0, 1: 0.5}
    @property
    def weight(self):
        return self.weights.get(self.epoch, 0.0)
curriculum = Curriculum()
def f(x):
    return (x * x).sum() * curriculum.weight
def change():
    curriculum.epoch += 1

# case: a loss of weighted terms
@dataclasses.dataclass
class Term:
    function: object
    weight: float
terms = [Term(lambda x: x.sum(), 1.0), Term(lambda x: (x * x).sum(), 0.5)]
def f(x):
    return sum(term.weight * term.function(x) for term in terms)
def change():
    terms[1].weight = 2.0

# case: a loss of weighted terms, one added
terms = {"sum": (lambda x: x.sum(), 1.0)}
def f(x):
    total = 0.0
    for function, weight in terms.values():
        total = total + weight * function(x)
    return total
def change():
    terms["square"] = (lambda x: (x * x).sum(), 0.5)

# case: annealing by an object's step
class Schedule:
    def __init__(self):
        self.step = 0
    def __call__(self):
        return 1.0 / (1 + self.step)
beta = Schedule()
def f(x):
    return x.sum() + beta() * (x * x).sum()
def change():
    beta.step = 10

# case: a model with a switch for a branch
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.options = types.SimpleNamespace(residual=True)
        self.layer = nn.Linear(3, 3)
    def forward(self, x):
        y = self.layer(x)
        return x + y if self.options.residual else y
wg.manual_seed(0)
net = Net()
args = (batch(),)
def f(x):
    return net(x)
def change():
    net.options.residual = False

# case: a model that freezes layers by a set of names
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.frozen = set()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)
    def forward(self, x):
        for name in ("first", "second"):
            y = getattr(self, name)(x)
            x = x if name in self.frozen else y
        return x
wg.manual_seed(0)
net = Net()
args = (batch(),)
def f(x):
    return net(x)
def change():
    net.frozen.add("second")

# case: stochastic depth by Python's random numbers -> refuses
class Net(nn.Module):
    def forward(self, x):
        for n in range(1, 40):
            if random.random() < 0.5:
                x = x * (1.0 + 1.0 / n)
        return x
random.seed(3)
net = Net()
def f(x):
    return net(x)
def change():
    random.seed(4)

# case: augmentation by NumPy's random numbers -> refuses
rng = np.random.default_rng(0)
def augment(x):
    return x + rng.normal(scale=0.1, size=x.shape)
def f(x):
    return augment(x).sum()
def change():
    rng.normal()

# case: a temperature in a sampler
class Sampler:
    __slots__ = ("temperature", "top")
    def __init__(self):
        self.temperature, self.top = 1.0, 3
    def __call__(self, logits):
        return wg.softmax(logits / self.temperature)
sampler = Sampler()
def f(x):
    return sampler(x)
def change():
    sampler.temperature = 0.5

# case: an environment's constants in a simulation
class World:
    gravity, dt, bodies = 9.81, 0.1, [1.0, 2.0]
def step(x, world):
    for mass in world.bodies:
        x = x - world.gravity * world.dt * mass
    return x
def f(x):
    return step(x, World)
def change():
    World.bodies.append(3.0)

# case: a boundary condition in a dict of functions
conditions = {"left": lambda x: x[:1], "right": lambda x: x[-1:] * 2}
def f(x):
    return wg.concat([conditions["left"](x), x, conditions["right"](x)])
def change():
    conditions["right"] = lambda x: x[-1:] * 5

# case: a kernel's length scale in a closure of a closure
def kernel(params):
    def build():
        def k(x):
            return wg.exp(-x * x / params["scale"] ** 2)
        return k
    return build()
params = {"scale": 1.0}
k = kernel(params)
def f(x):
    return k(x).sum()
def change():
    params["scale"] = 2.0

# case: a layer whose sizes decide a reshape
class Heads:
    def __init__(self, heads):
        self.heads = heads
    def split(self, x):
        h = self.heads
        return x.reshape((h, -1)).sum(axis=1)
heads = Heads(2)
args = (wg.tensor(np.arange(12.0)),)
def f(x):
    return heads.split(x)
def change():
    heads.heads = 3

# case: an optimizer of one's own
class Momentum:
    def __init__(self, params):
        self.params, self.lr = params, 0.1
        self.velocity = [wg.tensor(np.zeros(3)) for _ in params]
    def step(self, grads):
        lr = self.lr
        for p, v, g in zip(self.params, self.velocity, grads):
            v.assign(v * 0.9 + g)
            p.assign(p - lr * v)
w = wg.tensor(np.ones(3))
optimizer = Momentum([w])
def f(x):
    optimizer.step([x])
    return w
def change():
    optimizer.lr = 0.01

# case: gradient clipping by a global tuple of options
Options = collections.namedtuple("Options", "clip scale")
options = {"train": Options(1.0, 2.0)}
def f(x):
    clip, scale = options["train"]
    return wg.clip(wg.grad(lambda v: (v**2).sum() * scale)(x), -clip, clip)
def change():
    options["train"] = options["train"]._replace(clip=3.0)

# case: a cache of constants by size
@functools.lru_cache
def table(n):
    return [settings["base"] ** i for i in range(n)]
settings = {"base": 2.0}
def f(x):
    return x * table(3)[2]
def change():
    settings["base"] = 3.0
    table.cache_clear()

# case: a singleton of settings
class Settings:
    _instance = None
    def __new__(cls):
        if cls._instance is None:
            cls._instance = super().__new__(cls)
            cls._instance.k = 2.0
        return cls._instance
Settings()
def f(x):
    return x * Settings().k
def change():
    Settings().k = 5.0

# case: a feature flag deep in a library of one's own
flags = types.ModuleType("flags")
flags.registry = {"fast": types.SimpleNamespace(enabled=False)}
flags.is_enabled = lambda name: flags.registry[name].enabled
def f(x):
    return x * 2 if flags.is_enabled("fast") else x
def change():
    flags.registry["fast"].enabled = True

# case: an ensemble of models
wg.manual_seed(0)
models = [nn.Linear(3, 2) for _ in range(3)]
args = (batch(),)
def f(x):
    return wg.stack([model(x) for model in models]).mean(axis=0)
def change():
    models.pop()

# case: callbacks that transform a loss
class Callback:
    def __init__(self, scale):
        self.scale = scale
    def on_loss(self, loss):
        return loss * self.scale
callbacks = [Callback(2.0), Callback(1.0)]
def f(x):
    loss = x.sum()
    for callback in callbacks:
        loss = callback.on_loss(loss)
    return loss
def change():
    callbacks[1].scale = 5.0

# case: class weights in a list
weights = [1.0, 2.0]
args = (batch(), wg.tensor(np.array([0, 1])))
def f(x, y):
    return wg.cross_entropy(x[:, :2], y, weight=wg.tensor(weights))
def change():
    weights[1] = 5.0

# case: padding from a configuration file read at the start
config = {"pad": {"left": 1, "right": 2}}
def padded(x, left, right):
    return wg.concat([wg.zeros(left, dtype=x.dtype), x, wg.zeros(right, dtype=x.dtype)])
def f(x):
    return padded(x, **config["pad"])
def change():
    config["pad"]["left"] = 3
