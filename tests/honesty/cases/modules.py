"""Modules and optimizers: configurations in forward, modes, parts and parameters replaced, options changed."""
# ruff: noqa: F811

import types

import numpy as np

import wengert as wg
from wengert import nn


def batch():
    return wg.tensor(np.arange(6, dtype=np.float32).reshape(2, 3) / 6)


# fmt: off

# case: an alias of the configuration in forward (long)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cfg = types.SimpleNamespace(k=2.0)
    def forward(self, x):
        c = self.cfg
        return x * c.k
f = Net()
def change():
    f.cfg.k = 5.0

# case: a dict as the configuration
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cfg = {"k": 2.0, "bias": True}
    def forward(self, x):
        x = x * self.cfg["k"]
        return x + 1 if self.cfg.get("bias") else x
net = Net()
def f(x):
    return net(x)
def change():
    net.cfg["bias"] = False

# case: a plain attribute
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.k = 2.0
    def forward(self, x):
        return x * self.k
net = Net()
def f(x):
    return net(x)
def change():
    net.k = 5.0

# case: a plain attribute stored past __setattr__
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.k = 2.0
    def forward(self, x):
        return x * self.k
net = Net()
def f(x):
    return net(x)
def change():
    net.__dict__["k"] = 5.0

# case: a list of numbers
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.scales = [2.0, 3.0]
    def forward(self, x):
        for scale in self.scales:
            x = x * scale
        return x
net = Net()
def f(x):
    return net(x)
def change():
    net.scales[1] = 5.0

# case: a plain list of modules edited
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = [nn.ReLU(), nn.Tanh()]
    def forward(self, x):
        for part in self.parts:
            x = part(x)
        return x
net = Net()
def f(x):
    return net(x)
def change():
    net.parts[1] = nn.Sigmoid()

# case: a ModuleList edited
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList([nn.ReLU(), nn.Tanh()])
    def forward(self, x):
        for part in self.parts:
            x = part(x)
        return x
net = Net()
def f(x):
    return net(x)
def change():
    net.parts[1] = nn.Sigmoid()

# case: a Sequential that grows
net = nn.Sequential(nn.ReLU())
def f(x):
    return net(x)
def change():
    net.append(nn.Tanh())

# case: eval mode
wg.manual_seed(0)
net = nn.BatchNorm1d(3)
args = (batch(),)
def f(x):
    return net(x)
def change():
    net.eval()

# case: a mode that forward reads through an alias
class Net(nn.Module):
    def forward(self, x):
        me = self
        return x * 2 if me.training else x
net = Net()
def f(x):
    return net(x)
def change():
    net.eval()

# case: a forward hook
net = nn.ReLU()
def f(x):
    return net(x)
def change():
    net.register_forward_hook(lambda module, args, output: output * 5)

# case: what a forward hook reads
cfg = types.SimpleNamespace(k=2.0)
net = nn.ReLU()
def hook(module, args, output):
    c = cfg
    return output * c.k
net.register_forward_hook(hook)
def f(x):
    return net(x)
def change():
    cfg.k = 5.0

# case: a parameter replaced
wg.manual_seed(0)
net = nn.Linear(3, 2)
args = (batch(),)
def f(x):
    return net(x)
def change():
    net.weight = nn.Parameter(wg.ones((2, 3)))

# case: a bias taken away
wg.manual_seed(0)
net = nn.Linear(3, 2)
args = (batch(),)
def f(x):
    return net(x)
def change():
    net.bias = None

# case: a parameter assigned
wg.manual_seed(0)
net = nn.Linear(3, 2)
args = (batch(),)
def f(x):
    return net(x)
def change():
    net.weight.assign(net.weight.detach() * 2)

# case: a parameter frozen
wg.manual_seed(0)
net = nn.Linear(3, 2)
args = (batch(),)
def f(x):
    net(x).sum().backward()
    return sum(p.grad.sum() for p in net.parameters() if p.requires_grad)
def change():
    net.weight.requires_grad_(False)

# case: a buffer replaced
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", wg.zeros(3))
    def forward(self, x):
        return x - self.mean
net = Net()
def f(x):
    return net(x)
def change():
    net.mean = wg.ones(3)

# case: the probability of a Dropout
wg.manual_seed(0)
net = nn.Dropout(0.0)
args = (wg.ones(64),)
def f(x):
    return net(x)
def change():
    net.p = 1.0

# case: the eps of a LayerNorm
net = nn.LayerNorm(3)
args = (batch(),)
def f(x):
    return net(x)
def change():
    net.eps = 1.0

# case: a function as an attribute replaced
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.activation = wg.relu
    def forward(self, x):
        return self.activation(x - 2)
net = Net()
def f(x):
    return net(x)
def change():
    net.activation = wg.tanh

# case: forward replaced in the class
class Net(nn.Module):
    def forward(self, x):
        return x * 2
net = Net()
def f(x):
    return net(x)
def change():
    Net.forward = lambda self, x: x * 5

# case: a class attribute of a module
class Net(nn.Module):
    scale = 2.0
    def forward(self, x):
        return x * self.scale
net = Net()
def f(x):
    return net(x)
def change():
    Net.scale = 5.0

# case: a submodule taken from a dict
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.choices = nn.ModuleDict({"relu": nn.ReLU(), "tanh": nn.Tanh()})
        self.options = {"act": "tanh"}
    def forward(self, x):
        return self.choices[self.options["act"]](x - 2)
net = Net()
def f(x):
    return net(x)
def change():
    net.options["act"] = "relu"

# case: another module in a global
wg.manual_seed(0)
models = {"net": nn.Linear(3, 2)}
args = (batch(),)
def f(x):
    return models["net"](x)
def change():
    models["net"] = nn.Linear(3, 2)

# case: the learning rate of an optimizer
w = wg.tensor(np.array([1.0, 2.0]), requires_grad=True)
optimizer = wg.optim.SGD([w], lr=0.01)
args = ()
def f():
    optimizer.zero_grad()
    loss = (w * w).sum()
    loss.backward()
    optimizer.step()
    return loss, w
def change():
    optimizer.param_groups[0]["lr"] = 0.25

# case: the momentum of an optimizer
w = wg.tensor(np.array([1.0, 2.0]), requires_grad=True)
optimizer = wg.optim.SGD([w], lr=0.01, momentum=0.9)
args = ()
def f():
    optimizer.zero_grad()
    loss = (w * w).sum()
    loss.backward()
    optimizer.step()
    return loss, w
def change():
    optimizer.param_groups[0]["momentum"] = 0.1

# case: a scheduler steps
w = wg.tensor(np.array([1.0, 2.0]), requires_grad=True)
optimizer = wg.optim.SGD([w], lr=0.1)
scheduler = wg.optim.StepLR(optimizer, step_size=1, gamma=0.1)
args = ()
def f():
    optimizer.zero_grad()
    loss = (w * w).sum()
    loss.backward()
    optimizer.step()
    return loss, w
def change():
    scheduler.step()

# case: a parameter group added
w, v = (wg.tensor(np.array([1.0, 2.0]), requires_grad=True) for _ in range(2))
optimizer = wg.optim.SGD([w], lr=0.1)
args = ()
def f():
    optimizer.zero_grad()
    loss = (w * w * v).sum()
    loss.backward()
    optimizer.step()
    return loss, w, v
def change():
    optimizer.add_param_group({"params": [v], "lr": 0.5})

# case: a training step with its options in an object
w = wg.tensor(np.array([1.0, 2.0]), requires_grad=True)
optimizer = wg.optim.SGD([w], lr=0.1)
opts = types.SimpleNamespace(decay=0.0)
args = ()
def f():
    o = opts
    optimizer.zero_grad()
    loss = (w * w).sum() + o.decay * w.sum()
    loss.backward()
    optimizer.step()
    return loss, w
def change():
    opts.decay = 1.0

# case: a clipping bound in an object
w = wg.tensor(np.array([1.0, 2.0]), requires_grad=True)
optimizer = wg.optim.SGD([w], lr=0.1)
opts = types.SimpleNamespace(clip=0.5)
args = ()
def f():
    o = opts
    optimizer.zero_grad()
    loss = (w * w).sum()
    loss.backward()
    wg.optim.clip_grad_norm_([w], o.clip)
    optimizer.step()
    return loss, w
def change():
    opts.clip = 0.01
