"""The world again: files, decimal contexts, frames, and changes made by libraries."""
# ruff: noqa: F811

import configparser
import decimal
import filecmp
import inspect
import linecache
import os
import pathlib
import tempfile
import threading

import numpy as np

import wengert as wg

# fmt: off

# case: the precision of decimals
decimal.getcontext().prec = 28
def f(x):
    return x * float(decimal.Decimal(1) / decimal.Decimal(3))
def change():
    decimal.getcontext().prec = 2

# case: the decimal context read -> follows or refuses
def f(x):
    return x * decimal.getcontext().prec
def change():
    decimal.getcontext().prec = 3

# case: a frame from inspect -> follows or refuses
k = 2.0
def f(x):
    return x * inspect.currentframe().f_globals["k"]
def change():
    globals()["k"] = 5.0

# case: a ConfigParser that reads a file -> follows or refuses
_d = tempfile.TemporaryDirectory()
p = os.path.join(_d.name, "a.ini")
pathlib.Path(p).write_text('[a]\nk=2.0\n')
def f(x):
    c = configparser.ConfigParser()
    c.read(p)
    return x * c.getfloat("a", "k")
def change():
    pathlib.Path(p).write_text('[a]\nk=5.0\n')

# case: linecache -> follows or refuses
_d = tempfile.TemporaryDirectory()
p = os.path.join(_d.name, "a.txt")
pathlib.Path(p).write_text("2.0\n")
def f(x):
    linecache.checkcache(p)
    return x * float(linecache.getline(p, 1))
def change():
    pathlib.Path(p).write_text("5.00\n")

# case: wg.load inside -> follows or refuses
_d = tempfile.TemporaryDirectory()
p = os.path.join(_d.name, "a.safetensors")
wg.save(p, {"k": wg.tensor([2.0])})
def f(x):
    return x * wg.load(p)["k"]
def change():
    wg.save(p, {"k": wg.tensor([5.0])})

# case: wg.save inside -> follows or refuses
_d = tempfile.TemporaryDirectory()
p = os.path.join(_d.name, "a.safetensors")
def f(x):
    wg.save(p, {"k": wg.tensor([2.0])})
    return x * 2
def effect():
    found = os.path.exists(p)
    if found:
        os.unlink(p)
    return found
def undo():
    if os.path.exists(p):
        os.unlink(p)

# case: expandvars -> follows or refuses
os.environ["ATTACK_K"] = "2.0"
def f(x):
    return x * float(os.path.expandvars("$ATTACK_K"))
def change():
    os.environ["ATTACK_K"] = "5.0"

# case: filecmp -> follows or refuses
_d = tempfile.TemporaryDirectory()
p, q = (os.path.join(_d.name, "a"), os.path.join(_d.name, "b"))
pathlib.Path(p).write_text("1")
pathlib.Path(q).write_text("1")
def f(x):
    filecmp.clear_cache()
    return x * (2.0 if filecmp.cmp(p, q, shallow=False) else 5.0)
def change():
    pathlib.Path(q).write_text("2")

# case: lexists -> follows or refuses
_d = tempfile.TemporaryDirectory()
p = os.path.join(_d.name, "a")
def f(x):
    return x * (2.0 if os.path.lexists(p) else 5.0)
def change():
    pathlib.Path(p).write_text("2")

# case: Path.samefile -> follows or refuses
_d = tempfile.TemporaryDirectory()
p = pathlib.Path(_d.name, "a")
q = pathlib.Path(_d.name, "b")
p.write_text("a")
q.write_text("b")
def f(x):
    return x * (2.0 if p.samefile(q) else 5.0)
def change():
    q.unlink()
    q.symlink_to(p)

# case: object.__setattr__ -> follows or refuses
class C:
    n = 0
o = C()
o.n = 0
def f(x):
    object.__setattr__(o, "n", o.n + 1)
    return x * 2
def effect():
    return o.n

# case: threads alive -> follows or refuses
ev = threading.Event()
def f(x):
    return x * threading.active_count()
def change():
    threading.Thread(target=ev.wait, daemon=True).start()

# case: np.get_printoptions -> follows or refuses
def f(x):
    return x * np.get_printoptions()["precision"]
def change():
    np.set_printoptions(precision=3 + np.get_printoptions()["precision"])

# case: a local Path read -> follows or refuses
_d = tempfile.TemporaryDirectory()
p = os.path.join(_d.name, "a.txt")
pathlib.Path(p).write_text("2.0\n")
def f(x):
    return x * float(pathlib.Path(p).read_text())
def change():
    pathlib.Path(p).write_text("5.00\n")
