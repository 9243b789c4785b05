"""`wg.static(x)`: a value that is frozen on purpose."""
# ruff: noqa: F811

import types

import wengert as wg

# fmt: off

# case: a number -> frozen
k = 2.0
def f(x):
    return x * wg.static(k)
def change():
    global k
    k = 5.0

# case: an object -> frozen
cfg = types.SimpleNamespace(scales=[2.0, 3.0])
def f(x):
    c = wg.static(cfg)
    return x * c.scales[1]
def change():
    cfg.scales[1] = 5.0

# case: an object passed to a helper -> frozen
cfg = types.SimpleNamespace(k=2.0)
def scaled(x, c):
    return x * c.k
def f(x):
    return scaled(x, wg.static(cfg))
def change():
    cfg.k = 5.0
