"""Functions given to transforms and to control flow of Wengert's."""
# ruff: noqa: F811

import types

import numpy as np

import wengert as wg

# fmt: off

# case: grad of a lambda
cfg = types.SimpleNamespace(k=2.0)
f = wg.grad(lambda x: (x * x * cfg.k).sum())
def change():
    cfg.k = 5.0

# case: grad of a function with an alias
cfg = types.SimpleNamespace(k=2.0)
def loss(x):
    c = cfg
    return (x * x * c.k).sum()
def f(x):
    return wg.grad(loss)(x)
def change():
    cfg.k = 5.0

# case: grad of a function over a list of objects
objs = [types.SimpleNamespace(k=2.0), types.SimpleNamespace(k=3.0)]
f = wg.grad(lambda x: sum((x * x * o.k).sum() for o in objs))
def change():
    objs[1].k = 5.0

# case: grad of a nested function
cfg = types.SimpleNamespace(k=2.0)
def f(x):
    c = cfg
    def loss(v):
        return (v * v * c.k).sum()
    return wg.grad(loss)(x)
def change():
    cfg.k = 5.0

# case: grad of grad
cfg = types.SimpleNamespace(k=[2.0])
f = wg.grad(lambda x: wg.grad(lambda v: (v**3 * cfg.k[0]).sum())(x).sum())
def change():
    cfg.k[0] = 5.0

# case: value_and_grad
cfg = types.SimpleNamespace(k=2.0)
def loss(x):
    c = cfg
    return (x * x * c.k).sum()
f = wg.value_and_grad(loss)
def change():
    cfg.k = 5.0

# case: jvp
cfg = types.SimpleNamespace(k=2.0)
def scaled(x):
    c = cfg
    return x * c.k
def f(x):
    return wg.jvp(scaled, (x,), (x,))[1]
def change():
    cfg.k = 5.0

# case: vjp
scales = [2.0]
def scaled(x):
    s = scales
    return x * s[0]
def f(x):
    value, pull = wg.vjp(scaled, x)
    return value, pull(x)
def change():
    scales[0] = 5.0

# case: vmap
cfg = types.SimpleNamespace(k=2.0)
def one(v):
    c = cfg
    return v * c.k
f = wg.vmap(one)
def change():
    cfg.k = 5.0

# case: vmap of grad
cfg = {"k": 2.0}
def one(v):
    return v * v * dict(cfg)["k"]
f = wg.vmap(wg.grad(one))
def change():
    cfg["k"] = 5.0

# case: scan
cfg = types.SimpleNamespace(k=2.0)
def step(carry, v):
    c = cfg
    return carry * c.k + v, carry
def f(x):
    return wg.scan(step, wg.asarray(np.float64(0.0)), x)[0]
def change():
    cfg.k = 5.0

# case: cond
cfg = types.SimpleNamespace(k=2.0)
def positive(v):
    c = cfg
    return v * c.k
def f(x):
    return wg.cond(x.sum() > 0, positive, lambda v: -v, x)
def change():
    cfg.k = 5.0

# case: while_loop
limits = [types.SimpleNamespace(top=10.0)]
def f(x):
    return wg.while_loop(lambda v: v.sum() < limits[0].top, lambda v: v * 2, x)
def change():
    limits[0].top = 50.0

# case: checkpoint
cfg = types.SimpleNamespace(k=2.0)
@wg.checkpoint
def block(v):
    c = cfg
    return wg.sin(v * c.k)
f = wg.grad(lambda x: block(x).sum())
def change():
    cfg.k = 5.0

# case: the backward rule of a custom_vjp
cfg = types.SimpleNamespace(limit=1.0)
@wg.custom_vjp
def clipped(x):
    return x
def backward(needed, g):
    c = cfg
    return (wg.clip(g, -c.limit, c.limit),)
clipped.defvjp(lambda x: (x, None), backward)
f = wg.grad(lambda x: (clipped(x) * 5).sum())
def change():
    cfg.limit = 3.0

# case: the forward rule of a custom_vjp
cfg = types.SimpleNamespace(k=2.0)
@wg.custom_vjp
def scaled(x):
    return x * 2
def forward(x):
    c = cfg
    return x * c.k, None
scaled.defvjp(forward, lambda needed, g: (g * 2,))
f = wg.value_and_grad(lambda x: scaled(x).sum())
def change():
    cfg.k = 5.0

# case: a compiled function that another calls
cfg = types.SimpleNamespace(k=2.0)
@wg.compile
def inner(x):
    c = cfg
    return x * c.k
def f(x):
    return inner(x) + 1
def plain(x):
    return x * cfg.k + 1
def change():
    cfg.k = 5.0

# case: tree.map
cfg = types.SimpleNamespace(k=2.0)
def scaled(v):
    c = cfg
    return v * c.k
def f(x):
    return wg.tree.map(scaled, {"a": x, "b": x + 1})
def change():
    cfg.k = 5.0

# case: a switch of autocast
settings = types.SimpleNamespace(on=False)
def f(x):
    s = settings
    with wg.autocast(enabled=s.on, dtype=wg.bfloat16):
        return (wg.ones((3, 3)) * 1.01) @ x.astype(wg.float32)
def change():
    settings.on = True
