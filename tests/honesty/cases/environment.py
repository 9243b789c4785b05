"""Reads of the process and of the world outside: environment, clock, random numbers, files, iterators."""
# ruff: noqa: F811

import contextvars
import datetime
import itertools
import locale
import logging
import os
import pathlib
import queue
import random
import secrets
import sys
import tempfile
import threading
import time
import uuid
import warnings

import numpy as np

FOLDER = tempfile.TemporaryDirectory()


def scratch(text):
    path = pathlib.Path(FOLDER.name, "text")
    path.write_text(text)
    return path


# fmt: off

# case: os.environ[...] -> follows or refuses
os.environ["HONESTY_SCALE"] = "2"
def f(x):
    return x * float(os.environ["HONESTY_SCALE"])
def change():
    os.environ["HONESTY_SCALE"] = "5"

# case: os.environ.get -> follows or refuses
os.environ.pop("HONESTY_SCALE", None)
def f(x):
    return x * float(os.environ.get("HONESTY_SCALE", "2"))
def change():
    os.environ["HONESTY_SCALE"] = "5"

# case: os.getenv -> follows or refuses
os.environ["HONESTY_DEBUG"] = "0"
def f(x):
    return x * 2 if os.getenv("HONESTY_DEBUG") == "1" else x
def change():
    os.environ["HONESTY_DEBUG"] = "1"

# case: a name in os.environ -> follows or refuses
os.environ.pop("HONESTY_FAST", None)
def f(x):
    return x * 2 if "HONESTY_FAST" in os.environ else x
def change():
    os.environ["HONESTY_FAST"] = "1"

# case: time.time -> refuses (fresh)
def f(x):
    return x * time.time()
def change():
    pass

# case: time.perf_counter -> refuses (fresh)
def f(x):
    started = time.perf_counter()
    return x + started

# case: time.monotonic_ns imported by another name -> refuses (fresh)
now = time.monotonic_ns
def f(x):
    return x * float(now() % 10**9)

# case: datetime.now -> refuses (fresh)
def f(x):
    return x * datetime.datetime.now().timestamp()

# case: uuid -> refuses (fresh)
def f(x):
    return x * float(uuid.uuid4().int % 10**9)

# case: secrets -> refuses (fresh)
def f(x):
    return x * secrets.randbelow(10**9)

# case: os.urandom -> refuses (fresh)
def f(x):
    return x * float(int.from_bytes(os.urandom(4), "big"))

# case: random.random -> refuses (fresh)
def f(x):
    return x * random.random()

# case: random.choice -> refuses
random.seed(3)
scales = list(range(1000))
def f(x):
    return x * random.choice(scales)
def change():
    random.seed(4)

# case: random.shuffle of a local list -> refuses
random.seed(3)
def f(x):
    order = list(range(100))
    random.shuffle(order)
    return x * order[0] + order[1]
def change():
    random.seed(4)

# case: a random.Random of one's own -> refuses
rng = random.Random(3)
def f(x):
    return x * rng.random()
def change():
    rng.seed(4)

# case: np.random.rand -> refuses
np.random.seed(3)
def f(x):
    return x * np.random.rand()
def change():
    np.random.seed(4)

# case: np.random.randn as an array -> refuses
np.random.seed(3)
def f(x):
    return x + np.random.randn(3)
def change():
    np.random.seed(4)

# case: a NumPy Generator -> refuses
rng = np.random.default_rng(3)
def f(x):
    return x + rng.normal(size=3)
def change():
    rng.normal()

# case: noise in a helper -> refuses
np.random.seed(3)
def noisy(x):
    return x + np.random.uniform(-1, 1, size=x.shape)
def f(x):
    return noisy(x) * 2
def change():
    np.random.seed(4)

# case: open(...).read -> follows or refuses
path = scratch("2")
def f(x):
    with open(path) as file:
        return x * float(file.read())
def change():
    scratch("5")

# case: Path.read_text -> follows or refuses
path = scratch("2")
def f(x):
    return x * float(path.read_text())
def change():
    scratch("5")

# case: np.loadtxt -> follows or refuses
path = scratch("2 3 4")
def f(x):
    return x * np.loadtxt(path)
def change():
    scratch("5 6 7")

# case: os.path.exists -> follows or refuses
path = scratch("")
def f(x):
    return x * 2 if os.path.exists(path) else x
def change():
    path.unlink()

# case: os.path.getsize -> follows or refuses
path = scratch("ab")
def f(x):
    return x * os.path.getsize(path)
def change():
    scratch("abcde")

# case: os.listdir -> follows or refuses
folder = tempfile.TemporaryDirectory()
def f(x):
    return x * (1 + len(os.listdir(folder.name)))
def change():
    pathlib.Path(folder.name, "a").write_text("")

# case: os.getcwd -> follows or refuses
os.chdir(tempfile.gettempdir())
def f(x):
    return x * len(os.getcwd())
def change():
    os.chdir("/")

# case: next of an iterator -> refuses
source = iter([float(i) for i in range(2000)])
def f(x):
    return x * next(source)
def change():
    next(source)

# case: itertools.count -> refuses
numbers = itertools.count(1)
def f(x):
    return x * next(numbers)
def change():
    next(numbers)

# case: itertools.cycle -> refuses
signs = itertools.cycle([1.0, -2.0, 3.0])
def f(x):
    return x * next(signs)
def change():
    next(signs)

# case: a generator advanced -> refuses
def counting():
    n = 0.0
    while True:
        n += 1.0
        yield n
numbers = counting()
def f(x):
    return x * next(numbers)
def change():
    next(numbers)

# case: for over a generator that is used up -> refuses
numbers = (float(n) for n in range(100))
def f(x):
    for n in numbers:
        x = x * n + 1
        if n % 3 == 2:
            break
    return x
def change():
    next(numbers)

# case: a queue -> refuses
todo = queue.Queue()
for n in range(2000):
    todo.put(float(n))
def f(x):
    return x * todo.get()
def change():
    todo.get()

# case: sys.argv
def f(x):
    return x * len(sys.argv)
def change():
    sys.argv.append("--more")

# case: a logging level -> follows or refuses
log = logging.getLogger("honesty")
log.setLevel(logging.INFO)
def f(x):
    return x * 2 if log.isEnabledFor(logging.DEBUG) else x
def change():
    log.setLevel(logging.DEBUG)

# case: a logging level by attribute
log = logging.getLogger("honesty")
log.setLevel(logging.INFO)
def f(x):
    return x * log.level
def change():
    log.setLevel(logging.DEBUG)

# case: warnings.filters -> follows or refuses
def f(x):
    return x * (1 + len(warnings.filters))
def change():
    warnings.filterwarnings("ignore", message="honesty")

# case: locale -> follows or refuses
locale.setlocale(locale.LC_ALL, "C")
def f(x):
    return x * len(locale.setlocale(locale.LC_CTYPE))
def change():
    locale.setlocale(locale.LC_CTYPE, "C.UTF-8")

# case: np.geterr -> follows or refuses
np.seterr(all="warn")
def f(x):
    return x * 2 if np.geterr()["divide"] == "raise" else x
def change():
    np.seterr(divide="raise")

# case: the current thread's name -> follows or refuses
thread = threading.current_thread()
thread.name = "MainThread"
def f(x):
    return x * len(threading.current_thread().name)
def change():
    thread.name = "another"

# case: threading.local -> follows or refuses
local = threading.local()
local.k = 2.0
def f(x):
    return x * local.k
def change():
    local.k = 5.0

# case: a context variable -> follows or refuses
scale = contextvars.ContextVar("scale", default=2.0)
def f(x):
    return x * scale.get()
def change():
    scale.set(5.0)
