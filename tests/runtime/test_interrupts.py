"""Ctrl-C: a long program raises KeyboardInterrupt, and what comes after it computes as before."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

SETUP = """
import os, signal, threading, time
import numpy as np, wengert as wg

def interrupted(run):
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    start = time.perf_counter()
    try:
        run()
    except KeyboardInterrupt:
        return time.perf_counter() - start
    raise SystemExit("it was not interrupted")

x = wg.ones(3)
w = wg.tensor(np.ones(3), requires_grad=True)
count = wg.tensor(0.0)
"""

LONG = {
    "ops, one by one": "interrupted(lambda: [(x + i).numpy() for i in range(10**7)])",
    "a pending graph": "interrupted(lambda: sum((x * i for i in range(10**6)), x).numpy())",
    "a loop over a compiled function": """
        step = wg.compile(lambda: (count.assign(count + 1), w.assign((w + 1).detach()), None)[-1])
        interrupted(lambda: [step() for _ in range(10**8)])
        assert w.detach().tolist() == [count.item() + 1] * 3, (w, count)
        step()
        assert w.detach().tolist() == [count.item() + 1] * 3
    """,
    "backward passes": "interrupted(lambda: [(w * w).sum().backward() for _ in range(10**8)])",
    "a while loop": "interrupted(lambda: wg.while_loop(lambda x: x.sum() > -1, lambda x: x + 1, x).numpy())",
    "a compiled while loop": """
        endless = wg.compile(lambda x: wg.while_loop(lambda x: x.sum() > -1, lambda x: x + 1, x))
        interrupted(lambda: endless(x).numpy())
    """,
    "lanes that do not end": """
        endless = wg.vmap(lambda x: wg.while_loop(lambda x: x > -1, lambda x: wg.sin(x) + 2, x))
        many = wg.compile(lambda x: (endless(x), wg.grad(lambda x: endless(x).sum())(x)))
        interrupted(lambda: [part.numpy() for part in many(wg.ones((3000,)))])
    """,
    "a compiled scan": """
        many = wg.compile(lambda x: wg.scan(lambda c, _: (c + 1, c), x, wg.zeros(10**7))[0])
        interrupted(lambda: [many(x).numpy() for _ in range(10**6)])
    """,
    "one long kernel": """
        total = wg.compile(lambda: wg.sum(wg.sin(wg.arange(10**9, dtype=wg.float32))))
        interrupted(lambda: [total().numpy() for _ in range(1000)])
    """,
}


@pytest.mark.parametrize("name", LONG)
def test_a_long_program_is_interrupted_and_the_next_one_runs(name: str) -> None:
    after = "assert (x + 1).tolist() == [2.0] * 3 and wg.compile(lambda x: x * 2)(x).tolist() == [2.0] * 3"
    script = "\n".join([SETUP, textwrap.dedent(LONG[name]), after, "print('went on')"])
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert result.stdout == "went on\n", result.stderr[-2000:]
