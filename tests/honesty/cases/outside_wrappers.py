"""What wrappers and models keep: bound methods, partials, functions with rules, parts."""
# ruff: noqa: F811

import functools

import wengert as wg
from wengert import nn


# case: a bound method as a hook
class C:
    k = 2.0

    def hook(self, m, a, o):
        return o * self.k


O = C()
M = nn.Tanh()
M.register_forward_hook(O.hook)


def f(x):
    return M(x)


def change():
    O.k = 3.0


# case: a grad of a method of a nameless object
class C:
    k = 2.0

    def loss(self, x):
        return (x * self.k).sum()


G = wg.grad(C().loss)


def f(x):
    return G(x)


def change():
    G.__wrapped__.__self__.k = 3.0


# case: a vmap of a callable object that is nameless
class C:
    k = 2.0

    def __call__(self, x):
        return x * self.k


G = wg.vmap(C())


def f(x):
    return G(x)


def change():
    G.__wrapped__.k = 3.0


# case: a checkpoint of a method of a nameless object
class C:
    k = 2.0

    def g(self, x):
        return wg.sin(x * self.k)


G = wg.checkpoint(C().g)


def f(x):
    return G(x)


def change():
    G.__wrapped__.__self__.k = 3.0


# case: a compiled method of a nameless object
class C:
    k = 2.0

    def g(self, x):
        return wg.sin(x * self.k)


G = wg.compile(C().g)


def f(x):
    return G(x) * 2


def change():
    G.__wrapped__.__self__.k = 3.0


# case: custom_vjp whose rules are methods
class C:
    k = 2.0

    def fwd(self, x):
        return x * 1.0, ()

    def bwd(self, res, g):
        return (g * self.k,)


O = C()


@wg.custom_vjp
def h(x):
    return x * 1.0


h.defvjp(O.fwd, O.bwd)


def f(x):
    return wg.grad(lambda y: h(y).sum())(x)


def change():
    O.k = 3.0


# case: a slice of a ModuleList
M = nn.ModuleList([nn.Tanh(), nn.Tanh()])


def f(x):
    for m in M[1:]:
        x = m(x)
    return x


def change():
    M[1] = nn.Sigmoid()


# case: a slice of a Sequential
M = nn.Sequential(nn.Tanh(), nn.Tanh())


def f(x):
    return M[:1](x)


def change():
    M[0] = nn.Sigmoid()


# case: partial of append -> refuses
L = []
push = functools.partial(L.append, 1)


def f(x):
    push()
    return x


def effect():
    return len(L)
