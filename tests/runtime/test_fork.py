"""Fork after use: a child computes what its parent computes, on one thread, and never waits for threads it has not got.

Each case runs in a process of its own, which forks after threads have worked, with a time limit.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
SECONDS = 120

START = """
import multiprocessing, os, sys, threading
import numpy as np
import wengert as wg

def in_child(function):
    '''What a function gives in a forked child, as bytes.'''
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            content = function()
            with open(write, "wb") as file:
                file.write(content)
        finally:
            os._exit(0)
    os.close(write)
    with open(read, "rb") as file:
        content = file.read()
    os.waitpid(child, 0)
    return content

def agree(found, expected, exactly):
    # with fewer threads NumPy's BLAS may add in another order
    if exactly:
        return found == expected
    a, b = (np.frombuffer(content, np.float32) for content in (found, expected))
    return a.shape == b.shape and np.allclose(a, b, rtol=1e-4, atol=1e-4)

def threads_of_process():
    return len(os.listdir("/proc/self/task"))

x = wg.tensor(np.random.default_rng(0).normal(size=(1 << 20,)).astype(np.float32))
large = wg.compile(lambda x: wg.exp(x) * 2 + x)
before = large(x).numpy().tobytes()
"""

CASES = {
    "elementwise": "compute = lambda: large(x).numpy().tobytes()",
    "another program": """
other = wg.compile(lambda x: wg.sin(x) * 3 - wg.sum(x))
compute = lambda: other(x).numpy().tobytes()
""",
    "matmul": """
a = wg.tensor(np.random.default_rng(1).normal(size=(700, 900)).astype(np.float32))
product = wg.compile(lambda a: wg.relu(a @ a.T))
product(a)
compute = lambda: product(a).numpy().tobytes() + (a @ a.T).numpy().tobytes() + (a.numpy() @ a.numpy().T).tobytes()
""",
    "float64 matmul": """
a = wg.tensor(np.random.default_rng(1).normal(size=(400, 500)))
product = wg.compile(lambda a: a @ a.T)
product(a)
compute = lambda: product(a).numpy().tobytes()
""",
    "convolution": """
image = wg.tensor(np.random.default_rng(1).normal(size=(8, 16, 32, 32)).astype(np.float32))
kernel = wg.tensor(np.random.default_rng(2).normal(size=(32, 16, 3, 3)).astype(np.float32), requires_grad=True)
def convolved(image):
    return wg.grad(lambda k: wg.sum(wg.conv2d(image, k, padding=1) ** 2))(kernel)
step = wg.compile(convolved)
step(image)
compute = lambda: step(image).detach().numpy().tobytes()
""",
    "attention": """
q = wg.tensor(np.random.default_rng(1).normal(size=(4, 8, 128, 32)).astype(np.float32))
attend = wg.compile(lambda q: wg.scaled_dot_product_attention(q, q, q))
attend(q)
compute = lambda: attend(q).numpy().tobytes()
""",
    "dynamic training": """
def compute():
    wg.manual_seed(0)
    model = wg.models.MLP(64, [512, 10])
    optimizer = wg.optim.SGD(model.parameters(), lr=0.1)
    data = wg.tensor(np.random.default_rng(1).normal(size=(512, 64)).astype(np.float32))
    for _ in range(6):
        optimizer.zero_grad()
        loss = (model(data) ** 2).mean()
        loss.backward()
        optimizer.step()
    return b"".join(p.detach().numpy().tobytes() for p in model.parameters())
compute()
""",
    "compiled training": """
model = wg.models.MLP(64, [512, 10])
optimizer = wg.optim.AdamW(model.parameters(), lr=0.1)
data = wg.tensor(np.random.default_rng(1).normal(size=(512, 64)).astype(np.float32))
def step(data):
    optimizer.zero_grad()
    loss = (model(data) ** 2).mean()
    loss.backward()
    optimizer.step()
    return loss
step = wg.compile(step)
for _ in range(4):
    step(data)
def compute():
    for _ in range(3):
        step(data)
    return b"".join(p.detach().numpy().tobytes() for p in model.parameters())
""",
    "random draws": """
def compute():
    wg.manual_seed(4)
    return wg.random.normal((1 << 20,)).numpy().tobytes()
compute()
""",
}


def run(text):
    """Run a script that must end in time and print `good`."""
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    command = [sys.executable, "-c", START + text]
    with subprocess.Popen(command, stdout=-1, stderr=-2, text=True, env=environment, start_new_session=True) as process:
        try:
            out, _ = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # the child that waits, too
            raise
    assert process.returncode == 0 and out.endswith("good\n"), out


BY_NUMPY = ("matmul", "dynamic training")  # products that are not compiled


@pytest.mark.parametrize("case", CASES)
def test_a_child_computes_what_its_parent_computes(case):
    check = f"assert found and agree(found, compute(), {case not in BY_NUMPY})"
    run(f"{CASES[case]}\nfound = in_child(compute)\n{check}\nprint('good')\n")


def test_a_child_starts_no_threads_and_neither_does_its_child():
    run(
        "def compute():\n"
        "    count = threads_of_process()\n"
        "    assert large(x).numpy().tobytes() == before\n"
        "    more = threads_of_process() - count\n"
        "    inner = in_child(compute) if len(depth) < 2 and not depth.append(1) else b''\n"
        "    return bytes([more]) + inner\n"
        "depth = []\n"
        "assert in_child(compute) == bytes([0, 0, 0])\n"
        "assert large(x).numpy().tobytes() == before\n"  # the parent goes on with its threads
        "print('good')\n"
    )


def test_threads_of_a_child_compute_too():
    run(
        "def compute():\n"
        "    found = []\n"
        "    threads = [threading.Thread(target=lambda: found.append(large(x).numpy().tobytes())) for _ in range(3)]\n"
        "    for thread in threads: thread.start()\n"
        "    for thread in threads: thread.join()\n"
        "    assert found == [before] * 3\n"
        "    return b'yes'\n"
        "assert in_child(compute) == b'yes'\nprint('good')\n"
    )


def test_a_child_forked_while_other_threads_compute_is_not_locked_out():
    run(
        "stop = threading.Event()\n"
        "def work():\n"
        "    while not stop.is_set():\n"
        "        large(x).numpy(); wg.random.normal((1000,)).numpy(); wg.compile(lambda y: y + 1)(x)\n"
        "workers = [threading.Thread(target=work) for _ in range(2)]\n"
        "for worker in workers: worker.start()\n"
        "def compute():\n"
        "    wg.random.normal((3,)).numpy()\n"
        "    assert wg.compile(lambda y: y * 2)(x).numpy()[0] == x.numpy()[0] * 2\n"
        "    return large(x).numpy().tobytes()\n"
        "for _ in range(12):\n"
        "    assert in_child(compute) == before\n"
        "stop.set()\n"
        "for worker in workers: worker.join()\n"
        "print('good')\n"
    )


def test_a_pool_of_forked_processes_computes():
    run(
        "def total(n):\n"
        "    return float(large(x * n).numpy().sum())\n"
        "with multiprocessing.get_context('fork').Pool(2) as pool:\n"
        "    assert pool.map(total, [1, 2, 1]) == [total(1), total(2), total(1)]\n"
        "print('good')\n"
    )


def test_a_loader_goes_on_in_a_child():
    run(
        "loader = wg.data.DataLoader(wg.data.ArrayDataset(np.arange(40)), 4)\n"
        "first = [batch[0].sum() for batch in loader]\n"
        "compute = lambda: bytes([int(batch[0].sum()) for batch in loader])\n"
        "assert in_child(compute) == bytes(map(int, first))\nprint('good')\n"
    )
