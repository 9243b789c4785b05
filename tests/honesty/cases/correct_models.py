"""Correct models, steps and transforms: they run compiled, are recorded once, and are not refused."""
# ruff: noqa: F811

import types

import numpy as np

import wengert as wg
from wengert import nn


def batch():
    return wg.tensor(np.arange(6, dtype=np.float32).reshape(2, 3) / 6)


X = wg.tensor(np.array([1.0, 2.0, 3.0]))

# fmt: off

# case: a comprehension over parameters
wg.manual_seed(0)
net = nn.Linear(3, 2)
args = (batch(),)
def f(x):
    penalty = sum((p * p).sum() for p in net.parameters())
    return net(x).sum() + 0.1 * penalty

# case: a causal mask built with NumPy
args = (wg.tensor(np.arange(9.0).reshape(3, 3)),)
def f(x):
    mask = np.tril(np.ones(x.shape, dtype=bool))
    return wg.softmax(wg.where(mask, x, -np.inf), axis=-1)

# case: enumerate(self.layers)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)])
    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = layer(x)
            if i < len(self.layers) - 1:
                x = wg.relu(x)
        return x
wg.manual_seed(0)
f = Net()
args = (batch(),)

# case: getattr(self, f"layer{i}")
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        for i in range(2):
            setattr(self, f"layer{i}", nn.Linear(3, 3))
    def forward(self, x):
        for i in range(2):
            x = getattr(self, f"layer{i}")(x)
        return x
wg.manual_seed(0)
f = Net()
args = (batch(),)

# case: dict dispatch to activation functions
ACTIVATIONS = {"relu": wg.relu, "tanh": wg.tanh, "none": lambda v: v}
class Net(nn.Module):
    def __init__(self, act):
        super().__init__()
        self.act = act
    def forward(self, x):
        return ACTIVATIONS[self.act](x)
f = Net("tanh")

# case: a configuration in forward
class Net(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.out = nn.Linear(cfg["width"], 2, bias=cfg.get("bias", True))
    def forward(self, x):
        cfg = self.cfg
        x = self.out(x)
        return x * cfg["scale"] if cfg.get("scale") else x
wg.manual_seed(0)
f = Net({"width": 3, "scale": 2.0})
args = (batch(),)

# case: outputs kept in a local list of a forward
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(3, 3) for _ in range(3)])
    def forward(self, x):
        skips = []
        for block in self.blocks:
            x = block(x)
            skips.append(x)
        while skips:
            x = x + skips.pop()
        return x
wg.manual_seed(0)
f = Net()
args = (batch(),)

# case: with no_grad
w = wg.tensor(np.ones(3), requires_grad=True)
def f(x):
    with wg.no_grad():
        scale = (w * 2).sum()
    return x * scale

# case: grad inside
def f(x):
    return wg.grad(lambda v: (v**3).sum())(x)

# case: tree.map over gradients
params = {"w": wg.tensor(np.ones(3)), "b": wg.tensor(np.zeros(3))}
args = (params, X)
def loss(p, x):
    return ((p["w"] * x + p["b"]) ** 2).sum()
def f(p, x):
    grads = wg.grad(loss)(p, x)
    return wg.tree.map(lambda v, g: v - 0.1 * g, p, grads)

# case: scan with a closure
def f(x):
    decay = 0.9
    return wg.scan(lambda c, v: (c * decay + v, c), wg.asarray(np.float64(0.0)), x)

# case: a training step
wg.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
optimizer = wg.optim.Adam(net.parameters(), lr=0.01)
args = (batch(), wg.tensor(np.array([0, 1])))
def f(x, y):
    optimizer.zero_grad()
    loss = wg.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
    return loss

# case: a training step as a method
class Trainer:
    def __init__(self):
        self.net = nn.Linear(3, 2)
        self.optimizer = wg.optim.SGD(self.net.parameters(), lr=0.1, momentum=0.9)
        self.cfg = types.SimpleNamespace(clip=1.0, smoothing=0.0)
    def step(self, x, y):
        cfg = self.cfg
        self.optimizer.zero_grad()
        loss = wg.cross_entropy(self.net(x), y)
        loss.backward()
        if cfg.clip:
            wg.optim.clip_grad_norm_(self.net.parameters(), cfg.clip)
        self.optimizer.step()
        return {"loss": loss}
wg.manual_seed(0)
f = Trainer().step
args = (batch(), wg.tensor(np.array([0, 1])))

# case: running statistics
wg.manual_seed(0)
f = nn.BatchNorm1d(3)
args = (batch(),)

# case: an optimizer step over zipped lists
w = [wg.tensor(np.ones(3)), wg.tensor(np.zeros(3))]
def f(x):
    grads = [x, x * 2]
    for p, g in zip(w, grads):
        p.assign(p - 0.1 * g)
    return w[0] + w[1]

# case: a total in a tensor
total = wg.tensor(np.zeros(3))
def f(x):
    total.assign(total + x)
    return total * 2

# case: hasattr and getattr on a model
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 2.0
    def forward(self, x):
        if hasattr(self, "bias"):
            x = x + self.bias
        return x * getattr(self, "scale", 1.0)
f = Net()

# case: random numbers of Wengert's
wg.manual_seed(0)
def f(x):
    return x + wg.random.normal((3,))

# case: dropout
wg.manual_seed(0)
net = nn.Dropout(0.5)
args = (wg.ones(64),)
def f(x):
    return net(x)
