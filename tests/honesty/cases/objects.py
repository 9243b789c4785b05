"""Objects of the user's own classes: attributes, properties, descriptors."""
# ruff: noqa: F811, RUF012

import functools
import types

# fmt: off

# case: an attribute
class Scale:
    def __init__(self):
        self.k = 2.0
scale = Scale()
def f(x):
    return x * scale.k
def change():
    scale.k = 5.0

# case: an alias (long)
o = types.SimpleNamespace(k=2.0)
def f(x):
    c = o
    return x * c.k
def change():
    o.k = 5.0

# case: an alias of an inner object
o = types.SimpleNamespace(inner=types.SimpleNamespace(k=2.0))
def f(x):
    c = o.inner
    return x * c.k
def change():
    o.inner = types.SimpleNamespace(k=5.0)

# case: one of two objects, chosen inside
a, b = types.SimpleNamespace(k=2.0), types.SimpleNamespace(k=3.0)
def f(x):
    c = a if x.ndim == 2 else b
    return x * c.k
def change():
    b.k = 5.0

# case: a or b
a, b = None, types.SimpleNamespace(k=3.0)
def f(x):
    return x * (a or b).k
def change():
    b.k = 5.0

# case: __slots__
class Scale:
    __slots__ = ("k",)
    def __init__(self, k):
        self.k = k
scale = Scale(2.0)
def f(x):
    return x * scale.k
def change():
    scale.k = 5.0

# case: a class attribute
class Settings:
    k = 2.0
def f(x):
    return x * Settings.k
def change():
    Settings.k = 5.0

# case: a class attribute read through an object
class Settings:
    k = 2.0
settings = Settings()
def f(x):
    return x * settings.k
def change():
    Settings.k = 5.0

# case: a class attribute shadowed by an object's own
class Settings:
    k = 2.0
settings = Settings()
def f(x):
    s = settings
    return x * s.k
def change():
    settings.k = 5.0

# case: an inherited class attribute shadowed in the subclass
class Base:
    k = 2.0
class Derived(Base):
    pass
def f(x):
    return x * Derived.k
def change():
    Derived.k = 5.0

# case: a dict that is a class attribute
class Settings:
    options = {"k": 2.0}
def f(x):
    return x * Settings.options["k"]
def change():
    Settings.options["k"] = 5.0

# case: an attribute of a metaclass
class Meta(type):
    k = 2.0
class Settings(metaclass=Meta):
    pass
def f(x):
    return x * Settings.k
def change():
    Meta.k = 5.0

# case: a property
class Scale:
    def __init__(self):
        self._k = 2.0
    @property
    def k(self):
        return self._k
scale = Scale()
def f(x):
    return x * scale.k
def change():
    scale._k = 5.0

# case: a property over an alias
class Scale:
    def __init__(self):
        self.options = {"k": 2.0}
    @property
    def k(self):
        options = self.options
        return options["k"]
scale = Scale()
def f(x):
    s = scale
    return x * s.k
def change():
    scale.options["k"] = 5.0

# case: a property replaced
class Scale:
    k = property(lambda self: 2.0)
scale = Scale()
def f(x):
    return x * scale.k
def change():
    Scale.k = property(lambda self: 5.0)

# case: a cached_property cleared
class Scale:
    base = 2.0
    @functools.cached_property
    def k(self):
        return self.base * 2
scale = Scale()
def f(x):
    return x * scale.k
def change():
    scale.base = 5.0
    del scale.k

# case: a cached_property overwritten
class Scale:
    @functools.cached_property
    def k(self):
        return 2.0
scale = Scale()
def f(x):
    return x * scale.k
def change():
    scale.k = 5.0

# case: __getattr__
class Settings:
    def __init__(self):
        self.values = {"k": 2.0}
    def __getattr__(self, name):
        return self.__dict__["values"][name]
settings = Settings()
def f(x):
    return x * settings.k
def change():
    settings.values["k"] = 5.0

# case: __getattribute__
values = {"k": 2.0}
class Settings:
    def __getattribute__(self, name):
        return object.__getattribute__(self, name) if name.startswith("__") else values[name]
settings = Settings()
def f(x):
    return x * settings.k
def change():
    values["k"] = 5.0

# case: __getattribute__ that knows its own names alone -> follows or refuses
values = {"k": 2.0}
class Settings:
    def __getattribute__(self, name):
        return values[name]
settings = Settings()
def f(x):
    return x * settings.k
def change():
    values["k"] = 5.0

# case: a descriptor
class Field:
    def __init__(self, value):
        self.value = value
    def __get__(self, owner, kind):
        return self.value
class Scale:
    k = Field(2.0)
scale = Scale()
def f(x):
    return x * scale.k
def change():
    vars(Scale)["k"].value = 5.0

# case: a descriptor that stores by name
class Field:
    def __set_name__(self, owner, name):
        self.name = "_" + name
    def __get__(self, owner, kind):
        return getattr(owner, self.name)
    def __set__(self, owner, value):
        setattr(owner, self.name, value)
class Scale:
    k = Field()
scale = Scale()
scale.k = 2.0
def f(x):
    return x * scale.k
def change():
    scale.k = 5.0
