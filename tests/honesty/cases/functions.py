"""What belongs to functions: closures, defaults, partials, decorators, helpers and their code."""
# ruff: noqa: F811, B006, B008

import functools
import types

# fmt: off

# case: a closure variable (long)
def make():
    k = 2.0
    def f(x):
        return x * k
    def change():
        nonlocal k
        k = 5.0
    return f, change
f, change = make()

# case: a closure variable two functions up
def make():
    k = 2.0
    def middle():
        def f(x):
            return x * k
        return f
    def change():
        nonlocal k
        k = 5.0
    return middle(), change
f, change = make()

# case: a list in a closure
def make():
    scales = [2.0]
    def f(x):
        return x * scales[0]
    def change():
        scales[0] = 5.0
    return f, change
f, change = make()

# case: an object in a closure
def make():
    cfg = types.SimpleNamespace(k=2.0)
    def f(x):
        return x * cfg.k
    def change():
        cfg.k = 5.0
    return f, change
f, change = make()

# case: a cell given another content
def make():
    k = 2.0
    def f(x):
        return x * k
    return f
f = make()
def change():
    f.__closure__[0].cell_contents = 5.0

# case: an item of a mutable default (long)
def f(x, scales=[2.0]):
    return x * scales[0]
def change():
    f.__defaults__[0][0] = 5.0

# case: an attribute of a default
def f(x, cfg=types.SimpleNamespace(k=2.0)):
    return x * cfg.k
def change():
    f.__defaults__[0].k = 5.0

# case: __defaults__ replaced
def f(x, k=2.0):
    return x * k
def change():
    f.__defaults__ = (5.0,)

# case: __kwdefaults__ changed
def f(x, *, k=2.0):
    return x * k
def change():
    f.__kwdefaults__["k"] = 5.0

# case: __kwdefaults__ replaced
def f(x, *, k=2.0):
    return x * k
def change():
    f.__kwdefaults__ = {"k": 5.0}

# case: a default of a helper
def scaled(x, k=2.0):
    return x * k
def f(x):
    return scaled(x)
def change():
    scaled.__defaults__ = (5.0,)

# case: __kwdefaults__ of a helper replaced
def scaled(x, *, k=2.0):
    return x * k
def f(x):
    return scaled(x)
def change():
    scaled.__kwdefaults__ = {"k": 5.0}

# case: a keyword of a partial
def scaled(x, k):
    return x * k
f = functools.partial(scaled, k=2.0)
def change():
    f.keywords["k"] = 5.0

# case: a list among the arguments of a partial
def scaled(scales, x):
    return x * scales[0]
f = functools.partial(scaled, [2.0])
def change():
    f.args[0][0] = 5.0

# case: a keyword of a partial that a helper calls
scaled = functools.partial(lambda x, k: x * k, k=2.0)
def f(x):
    return scaled(x)
def change():
    scaled.keywords["k"] = 5.0

# case: the state of a partial -> follows or refuses
def scaled(x, k):
    return x * k
f = functools.partial(scaled, k=2.0)
def change():
    f.__setstate__((scaled, (), {"k": 5.0}, None))

# case: an lru_cache cleared
k = 2.0
@functools.lru_cache
def factor():
    return k
def f(x):
    return x * factor()
def change():
    global k
    k = 5.0
    factor.cache_clear()

# case: an lru_cache of arguments, whose function reads a global
k = 2.0
@functools.lru_cache
def factor(n):
    return k * n
def f(x):
    return x * factor(3)
def change():
    global k
    k = 5.0
    factor.cache_clear()

# case: a partialmethod's class attribute
class Scaler:
    factor = 2.0
    def _scale(self, x, sign):
        return x * self.factor * sign
    negative = functools.partialmethod(_scale, sign=-1.0)
scaler = Scaler()
def f(x):
    return scaler.negative(x)
def change():
    Scaler.factor = 5.0

# case: a singledispatch function given another case -> follows or refuses
@functools.singledispatch
def scaled(k, x):
    return x
def f(x):
    return scaled(2, x)
def change():
    scaled.register(int, lambda k, x: x * k)

# case: a helper replaced
def helper(x):
    return x * 2
def f(x):
    return helper(x)
def change():
    global helper
    helper = lambda x: x * 5

# case: a helper's code replaced
def helper(x):
    return x * 2
def other(x):
    return x * 5
def f(x):
    return helper(x)
def change():
    helper.__code__ = other.__code__

# case: a global that a helper of a helper reads
k = 2.0
def inner(x):
    return x * k
def outer(x):
    return inner(x)
def f(x):
    return outer(x)
def change():
    global k
    k = 5.0

# case: an attribute of a function
def helper(x):
    return x * helper.k
helper.k = 2.0
def f(x):
    return helper(x)
def change():
    helper.k = 5.0

# case: a lambda in a list
k = 2.0
stages = [lambda x: x + 1, lambda x: x * k]
def f(x):
    for stage in stages:
        x = stage(x)
    return x
def change():
    global k
    k = 5.0

# case: a lambda in a list replaced
stages = [lambda x: x + 1, lambda x: x * 2]
def f(x):
    for stage in stages:
        x = stage(x)
    return x
def change():
    stages[1] = lambda x: x * 5

# case: nested lambdas
k = types.SimpleNamespace(v=2.0)
f = lambda x: (lambda y: (lambda z: z * k.v)(y + 1))(x)
def change():
    k.v = 5.0

# case: two lambdas on one line
k = types.SimpleNamespace(a=2.0, b=3.0)
first, f = (lambda x: x * k.a), (lambda x: x * k.b)
def change():
    k.b = 5.0

# case: a decorated function
def doubled(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args) * settings.factor
    return wrapper
settings = types.SimpleNamespace(factor=2.0)
@doubled
def f(x):
    return x + 1
def change():
    settings.factor = 5.0

# case: the function inside of a decorated one
settings = types.SimpleNamespace(shift=2.0)
def doubled(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs) * 2
    return wrapper
@doubled
def f(x):
    return x + settings.shift
def change():
    settings.shift = 5.0

# case: a decorator that is a class
class Scaled:
    def __init__(self, function):
        self.function, self.factor = function, 2.0
    def __call__(self, *args):
        return self.function(*args) * self.factor
@Scaled
def f(x):
    return x + 1
def change():
    f.factor = 5.0

# case: a function made by exec, without source -> follows or refuses
space = {"k": 2.0}
exec("def f(x):\n    return x * k", space)
f = space["f"]
def change():
    space["k"] = 5.0

# case: an object read by a function made by exec -> follows or refuses
space = {"cfg": types.SimpleNamespace(scales=[2.0])}
exec("def g(x):\n    c = cfg\n    return x * c.scales[0]", space)
g = space["g"]
def f(x):
    return g(x)
def change():
    space["cfg"].scales[0] = 5.0

# case: an eval'd lambda -> follows or refuses
cfg = types.SimpleNamespace(k=2.0)
f = eval("lambda x: x * cfg.k")
def change():
    cfg.k = 5.0

# case: eval of an expression inside -> follows or refuses
k = 2.0
def f(x):
    return x * eval("k")
def change():
    global k
    k = 5.0

# case: recursion over a tree of objects
tree = types.SimpleNamespace(k=2.0, children=[types.SimpleNamespace(k=3.0, children=[])])
def walk(node, x):
    x = x * node.k
    for child in node.children:
        x = walk(child, x)
    return x
def f(x):
    return walk(tree, x)
def change():
    tree.children[0].k = 5.0

# case: a generator function
scales = [2.0, 3.0]
def scaled(x):
    for scale in scales:
        yield x * scale
def f(x):
    return sum(scaled(x))
def change():
    scales[1] = 5.0

# case: an attribute read in a generator
cfg = types.SimpleNamespace(k=2.0)
def powers(x):
    c = cfg
    for n in range(3):
        yield x**n * c.k
def f(x):
    return sum(powers(x))
def change():
    cfg.k = 5.0

# case: an object passed to a helper (long)
cfg = types.SimpleNamespace(k=2.0)
def scaled(x, c):
    return x * c.k
def f(x):
    return scaled(x, cfg)
def change():
    cfg.k = 5.0

# case: an object passed by keyword
cfg = types.SimpleNamespace(k=2.0)
def scaled(x, *, c):
    return x * c.k
def f(x):
    return scaled(x, c=cfg)
def change():
    cfg.k = 5.0

# case: an object that a helper returns
cfg = types.SimpleNamespace(k=2.0)
def config():
    return cfg
def f(x):
    return x * config().k
def change():
    cfg.k = 5.0
