"""NumPy arrays and indices: views of subclasses, indices, masks, what is copied out of an array."""
# ruff: noqa: F811

import array
import os
import tempfile

import numpy as np

import wengert as wg

# fmt: off

# case: an index list for a tensor
idx = [0, 1]
def f(x):
    return x[idx]
def change():
    idx[1] = 2

# case: an index list in a tuple for a tensor
idx = [0, 1]
def f(x):
    return wg.stack([x, 2 * x])[:, idx]
def change():
    idx[1] = 2

# case: an index array for a tensor
idx = np.array([0, 1])
def f(x):
    return x[idx]
def change():
    idx[1] = 2

# case: an array.array as a tensor
w = array.array("d", [1.0, 2.0, 3.0])
def f(x):
    return x * wg.tensor(w)
def change():
    w[1] = 5.0

# case: an array.array through asarray
w = array.array("d", [1.0, 2.0, 3.0])
def f(x):
    return x * wg.asarray(w)
def change():
    w[1] = 5.0

# case: a deep list as a tensor
w = [[[[[[1.0]]]]]]
def f(x):
    return x * wg.tensor(w).sum()
def change():
    w[0][0][0][0][0][0] = 5.0

# case: flat of an array
w = np.array([2.0, 3.0])
def f(x):
    return x * w.flat[0]
def change():
    w[0] = 5.0

# case: iteration of flat -> follows or refuses
w = np.array([2.0, 3.0])
def f(x):
    return x * sum(float(v) for v in w.flat)
def change():
    w[0] = 5.0

# case: data of an array
w = np.array([2.0, 3.0])
def f(x):
    return x * w.data[0]
def change():
    w[0] = 5.0

# case: a record of a recarray
w = np.rec.array([(2.0, 1), (3.0, 2)], dtype=[("k", float), ("n", int)])
def f(x):
    return x * float(w[0].k)
def change():
    w.k[0] = 5.0

# case: a matrix
w = np.matrix([[2.0, 3.0]])
def f(x):
    return x * float(w[0][0, 0])
def change():
    w[0, 0] = 5.0

# case: a memmap view
_d = tempfile.TemporaryDirectory()
w = np.memmap(os.path.join(_d.name, "m"), dtype=float, mode="w+", shape=(4,))
w[:] = 2.0
def f(x):
    return x * float(w[1:3][0])
def change():
    w[1] = 5.0

# case: a mask from outside as an index
a = np.array([1.0, 2.0, 3.0])
m = np.array([True, False, True])
def f(x):
    return x * float(a[m].sum())
def change():
    m[1] = True

# case: a table by an array of keys
w = np.array([0, 1, 1])
T = np.arange(3.0)
def f(x):
    return x * T[w]
def change():
    w[0] = 2

# case: a table by an array of keys, the table changed
w = np.array([0, 1, 1])
T = np.arange(3.0)
def f(x):
    return x * T[w]
def change():
    T[1] = 7.0

# case: a tensor's part assigned from a raw list
w = [5.0, 6.0]
def f(x):
    y = x * 1
    y[:2] = w
    return y
def change():
    w[0] = 7.0

# case: a tensor's places by a list
w = [0, 1]
def f(x):
    y = x * 1
    y[w] = 0.0
    return y
def change():
    w[0] = 2

# case: a tensor's elements by a mask array
w = np.array([True, False, True])
def f(x):
    return x[w].sum() * x
def change():
    w[0] = False

# case: the state of a Generator
rng = np.random.default_rng(0)
def f(x):
    return x * (rng.bit_generator.state["state"]["state"] % 1000)
def change():
    rng.random()
