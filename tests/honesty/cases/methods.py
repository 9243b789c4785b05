"""Methods, classes that change, reflection (getattr, vars, globals) and modules."""
# ruff: noqa: F811, B009

import sys
import types

# fmt: off

# case: a method
class Scale:
    k = 2.0
    def apply(self, x):
        return x * self.k
scale = Scale()
def f(x):
    return scale.apply(x)
def change():
    scale.k = 5.0

# case: a method compiled itself
class Scale:
    def __init__(self):
        self.cfg = types.SimpleNamespace(k=2.0)
    def apply(self, x):
        c = self.cfg
        return x * c.k
scale = Scale()
f = scale.apply
def change():
    scale.cfg.k = 5.0

# case: a method replaced in its class
class Scale:
    def apply(self, x):
        return x * 2
scale = Scale()
def f(x):
    return scale.apply(x)
def change():
    Scale.apply = lambda self, x: x * 5

# case: a method replaced on one object
class Scale:
    def apply(self, x):
        return x * 2
scale = Scale()
def f(x):
    s = scale
    return s.apply(x)
def change():
    scale.apply = lambda x: x * 5

# case: an inherited method replaced
class Base:
    def factor(self):
        return 2.0
class Derived(Base):
    def apply(self, x):
        return x * self.factor()
scale = Derived()
def f(x):
    return scale.apply(x)
def change():
    Base.factor = lambda self: 5.0

# case: super()
class Base:
    k = 2.0
    def apply(self, x):
        return x * self.k
class Derived(Base):
    def apply(self, x):
        return super().apply(x) + 1
scale = Derived()
def f(x):
    return scale.apply(x)
def change():
    Base.k = 5.0

# case: a staticmethod replaced
class Scale:
    @staticmethod
    def apply(x):
        return x * 2
def f(x):
    return Scale.apply(x)
def change():
    Scale.apply = staticmethod(lambda x: x * 5)

# case: a classmethod
class Scale:
    k = 2.0
    @classmethod
    def apply(cls, x):
        return x * cls.k
def f(x):
    return Scale.apply(x)
def change():
    Scale.k = 5.0

# case: bound methods kept in a dict
class Scale:
    def __init__(self, k):
        self.k = k
    def apply(self, x):
        return x * self.k
scale = Scale(2.0)
table = {"scale": scale.apply}
def f(x):
    return table["scale"](x)
def change():
    scale.k = 5.0

# case: __class__ changed
class Double:
    def apply(self, x):
        return x * 2
class Triple:
    def apply(self, x):
        return x * 3
scale = Double()
def f(x):
    return scale.apply(x)
def change():
    scale.__class__ = Triple

# case: isinstance, with __class__ changed
class Double:
    pass
class Triple:
    pass
scale = Double()
def f(x):
    return x * 2 if isinstance(scale, Double) else x * 3
def change():
    scale.__class__ = Triple

# case: an object replaced by one of another class with equal attributes
class Double:
    k = 2.0
class Negative(Double):
    pass
scale = Double()
def f(x):
    return -x if type(scale) is Negative else x
def change():
    global scale
    scale = Negative()

# case: getattr
o = types.SimpleNamespace(k=2.0)
def f(x):
    return x * getattr(o, "k")
def change():
    o.k = 5.0

# case: getattr with a computed name
o = types.SimpleNamespace(k1=2.0)
def f(x):
    return x * getattr(o, f"k{x.ndim}")
def change():
    o.k1 = 5.0

# case: getattr with a default
o = types.SimpleNamespace()
def f(x):
    return x * getattr(o, "k", 2.0)
def change():
    o.k = 5.0

# case: hasattr
o = types.SimpleNamespace()
def f(x):
    return x * 2 if hasattr(o, "doubled") else x
def change():
    o.doubled = True

# case: vars
o = types.SimpleNamespace(k=2.0)
def f(x):
    return x * vars(o)["k"]
def change():
    o.k = 5.0

# case: __dict__
o = types.SimpleNamespace(k=2.0)
def f(x):
    return x * o.__dict__["k"]
def change():
    o.k = 5.0

# case: dir -> follows or refuses
o = types.SimpleNamespace(k=2.0)
def f(x):
    return x * len([name for name in dir(o) if not name.startswith("_")])
def change():
    o.j = 1.0

# case: globals()
k = 2.0
def f(x):
    return x * globals()["k"]
def change():
    global k
    k = 5.0

# case: locals() -> follows or refuses
o = types.SimpleNamespace(k=2.0)
def f(x):
    c = o
    return x * locals()["c"].k
def change():
    o.k = 5.0

# case: an attribute deleted, so that the class's shows
class Scale:
    k = 2.0
scale = Scale()
scale.k = 5.0
def f(x):
    return x * scale.k
def change():
    del scale.k

# case: an attribute of a module without a file
constants = types.ModuleType("constants")
constants.k = 2.0
def f(x):
    return x * constants.k
def change():
    constants.k = 5.0

# case: a function in a module without a file replaced
helpers = types.ModuleType("helpers")
helpers.scaled = lambda x: x * 2
def f(x):
    return helpers.scaled(x)
def change():
    helpers.scaled = lambda x: x * 5

# case: an attribute of this module
k = 2.0
me = sys.modules[__name__]
def f(x):
    return x * me.k
def change():
    me.k = 5.0

# case: a module found by its name
k = 2.0
def f(x):
    return x * sys.modules[__name__].k
def change():
    global k
    k = 5.0
