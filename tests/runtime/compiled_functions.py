"""Compiled functions at the top of a module, where another process can find them."""

from __future__ import annotations

import functools

import wengert as wg


@wg.compile
def doubled(x):
    return x * 2


def plain(x):
    return x * 3


tripled = wg.compile(plain, cache=7)
again = wg.compile(doubled._function, cache=3)
unnamed = wg.compile(lambda x: x * 4)
partly = wg.compile(functools.partial(plain))


def cubed(x):
    return (x**3).sum()


@wg.grad
def slope(x):
    return (x**2).sum()


@wg.compile
@wg.grad
def both(x):
    return (x**2).sum()


class Scale:
    def __init__(self, factor):
        self.factor = factor

    @wg.compile
    def scaled(self, x):
        return x * self.factor

    def plain(self, x):
        return x * self.factor

    @functools.partial(wg.grad, argnums=1)
    def slope(self, x):
        return x.sum() * self.factor


class Gone:
    @wg.compile
    def scaled(self, x):
        return x


lost = Gone.scaled
del Gone.scaled
