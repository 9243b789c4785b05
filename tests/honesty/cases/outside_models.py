"""Models that are gone through and not called, and the parts that they are given later."""
# ruff: noqa: F811

import wengert as wg
from wengert import nn

# case: the number of a model's parameters
model = nn.Linear(3, 3)


def f(x):
    return x * sum(p.size for p in model.parameters())


def change():
    model.extra = nn.Linear(2, 2)


# case: a penalty over a model that is not called
model = nn.Linear(3, 3, bias=False)
model.weight.assign(wg.ones((3, 3)))


def f(x):
    return x + sum(wg.sum(p * p) for p in model.parameters())


def change():
    model.extra = nn.Parameter(wg.ones(3))


# case: the state of a model
model = nn.Linear(3, 3)


def f(x):
    return x * len(model.state_dict())


def change():
    model.extra = nn.Linear(2, 2)


# case: modules within a model
model = nn.Sequential(nn.Linear(3, 3))


def f(x):
    return x * len(dict(model.named_modules()))


def change():
    model.append(nn.ReLU())


# case: a ModuleList gone through that grows
parts = nn.ModuleList([nn.Tanh()])


def f(x):
    for part in parts:
        x = part(x)
    return x


def change():
    parts.append(nn.Tanh())


# case: the length of a ModuleList
parts = nn.ModuleList([nn.Tanh()])


def f(x):
    return x * len(parts)


def change():
    parts.append(nn.Tanh())


# case: a name in a ModuleDict
parts = nn.ModuleDict({"a": nn.Tanh()})


def f(x):
    return parts["b"](x) if "b" in parts else parts["a"](x)


def change():
    parts["b"] = nn.Sigmoid()


# case: a ParameterList that grows
parts = nn.ParameterList([wg.ones(3)])


def f(x):
    for part in parts:
        x = x + part
    return x


def change():
    parts.append(wg.ones(3))


# case: a buffer registered later
model = nn.Linear(3, 3)


def f(x):
    return x * len(list(model.buffers()))


def change():
    model.register_buffer("scale", wg.ones(3))


# case: a submodule by its path
model = nn.Sequential(nn.Sequential(nn.Tanh()))


def f(x):
    return dict(model.named_modules()).get("0.1", nn.Tanh())(x)


def change():
    model[0].append(nn.Sigmoid())


# case: a part of a plain Module counted
model = nn.Module()
model.first = nn.Tanh()


def f(x):
    return x * len(list(model.children()))


def change():
    model.second = nn.Tanh()
