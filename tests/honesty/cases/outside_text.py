"""Text made of arrays, which depends on NumPy's print options."""
# ruff: noqa: F811, UP031, UP032

import numpy as np

# fmt: off

# case: str of an array
a = np.array([0.123456789])
def f(x):
    return x * len(str(a))
def change():
    np.set_printoptions(precision=2)

# case: repr of an array
a = np.array([1.0, 2.0])
def f(x):
    return x * len(repr(a))
def change():
    np.set_printoptions(linewidth=5, floatmode="fixed", precision=1)

# case: an f-string of an array
a = np.array([0.123456789])
def f(x):
    return x * len(f"{a}")
def change():
    np.set_printoptions(precision=2)

# case: the format of an array by percent
a = np.array([0.123456789])
def f(x):
    return x * len("%s" % a)
def change():
    np.set_printoptions(precision=3)

# case: str.format of an array
a = np.array([0.123456789])
def f(x):
    return x * len("{}".format(a))
def change():
    np.set_printoptions(precision=3)

# case: array2string
a = np.array([0.123456789])
def f(x):
    return x * len(np.array2string(a))
def change():
    np.set_printoptions(precision=3)

# case: str of a local array
def f(x):
    return x * len(str(np.array([0.123456789])))
def change():
    np.set_printoptions(precision=3)

# case: str of a list of arrays
l = [np.array([0.123456789])]
def f(x):
    return x * len(str(l))
def change():
    np.set_printoptions(precision=3)

# case: str of a NumPy scalar
s = np.float64(0.123456789)
def f(x):
    return x * len(str([s]))
def change():
    np.set_printoptions(legacy="1.13")

# case: join of mapped arrays
a = np.array([0.123456789])
def f(x):
    return x * len(" ".join(map(str, [a])))
def change():
    np.set_printoptions(precision=3)


# case: __str__ of an array called
ARRAY = np.array([1.23456789, 2.0])


def f(x):
    return x * len(ARRAY.__str__())


def change():
    np.set_printoptions(precision=2)


# case: __repr__ of an array called
ARRAY = np.array([1.23456789, 2.0])


def f(x):
    return x * len(ARRAY.__repr__())


def change():
    np.set_printoptions(precision=2)


# case: a subclass of str made from an array
ARRAY = np.array([1.23456789, 2.0])


class Text(str):
    pass


def f(x):
    return x * len(Text(ARRAY))


def change():
    np.set_printoptions(precision=2)
