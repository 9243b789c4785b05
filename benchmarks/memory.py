"""Predicted memory against measured: `step.memory(*args)` before a call, and what the system reports after it.

    python benchmarks/memory.py [--device cuda] [--programs mlp_adam,gpt] [--json] [--calibrate]

A process for each program, twice: the first run fills the caches of compiled code. On the CPU the measure is how much
the peak of resident memory (VmHWM) grows in three calls, after the function was recorded and planned, so that
Python's own objects are there; the prediction is what a call adds to its arguments and parameters. On a GPU it is
everything that the driver reports as taken: the pool's high-water mark, the arena, and the rest (context, code,
libraries) by cuMemGetInfo. The aim is 1% and 2 MiB. `--calibrate` shows what the driver and the libraries take by
themselves.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import io
import json
import subprocess
import sys
from typing import Any

from cpu import write
from memory_programs import PROGRAMS

MIB = 1 << 20
CALLS = 3


def aim(measured: int) -> float:
    """How far a prediction may be off."""
    return 0.01 * measured + 2 * MIB


# --- in a process of its own ----------------------------------------------------------------------------------------


def predicted_and_measured(name: str, device: str) -> dict[str, Any]:
    """A program's memory before and after it has run, in bytes."""
    import wengert as wg

    wg.manual_seed(0)
    _warm_up(wg, device)
    step, args = PROGRAMS[name](wg, device)
    wg.synchronize()
    with contextlib.redirect_stdout(io.StringIO()):
        step.memory(*args)
        memory = step.memory(*args)  # once more: Python's own objects find their places as at a call
    measure = _on_host if wg.devices.is_host(device) else _on_gpu
    return measure(wg, step, args, memory) | {"parts": memory.parts}


def _warm_up(wg: Any, device: str) -> None:
    """Load what every program needs: BLAS and the threads, or the driver's context."""
    x = wg.ones((2048, 1024), device=device)
    wg.compile(lambda x: ((x @ x.T).sum(), (x.T @ x).sum()))(x)[0].item()


def _on_host(wg: Any, step: Any, args: tuple[Any, ...], memory: Any) -> dict[str, int]:
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak begins anew
    before = _status("VmRSS")
    for _ in range(CALLS):
        step(*args)
    wg.synchronize()
    return {"predicted": memory.new, "measured": _status("VmHWM") - before}


def _status(field: str) -> int:
    """A field of the process's status, in bytes."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith(field))


def _on_gpu(wg: Any, step: Any, args: tuple[Any, ...], memory: Any) -> dict[str, int]:
    from wengert.backends.cuda.bindings import check
    from wengert.backends.cuda.memory import opened

    driver: Any = opened("cuda:0")
    attributes = driver.cu.CUmemPool_attribute
    driver.trim()
    for name in ("USED_MEM_HIGH", "RESERVED_MEM_HIGH"):
        attribute = getattr(attributes, f"CU_MEMPOOL_ATTR_{name}")
        check(driver.cu.cuMemPoolSetAttribute(driver.pool, attribute, driver.cu.cuuint64_t(0)))
    for _ in range(CALLS):
        step(*args)
    wg.synchronize()

    def pool(name: str) -> int:
        attribute = getattr(attributes, f"CU_MEMPOOL_ATTR_{name}")
        return int(check(driver.cu.cuMemPoolGetAttribute(driver.pool, attribute)))

    free, total = driver.memory_info()
    others = total - free - driver.reserved() - driver.arena_size
    found = {"used": pool("USED_MEM_HIGH"), "reserved": pool("RESERVED_MEM_HIGH"), "arena": driver.arena_size}
    return {
        "predicted": memory.peak,
        "measured": found["used"] + found["arena"] + others,
        **found,
        "others": others,
    }


def calibration(device: str) -> dict[str, int]:
    """What a GPU has given away after each thing that is loaded, in bytes."""
    import wengert as wg
    from wengert.backends.cuda.memory import opened

    driver: Any = opened("cuda:0")

    def given() -> int:
        wg.synchronize()
        free, total = driver.memory_info()
        return total - free - driver.reserved() - driver.arena_size

    found = {"context": given()}
    x = wg.ones((1024, 1024), device=device)
    wg.compile(lambda x: wg.gelu(x))(x)
    found["one kernel"] = given()
    wg.compile(lambda x: x @ x)(x)
    found["cuBLASLt"] = given()
    image = wg.ones((8, 64, 32, 32), device=device)
    weights = wg.ones((64, 64, 3, 3), device=device)
    wg.compile(lambda x, w: wg.conv2d(x, w))(image, weights)
    found["cuDNN"] = given()
    for k in range(64):
        wg.compile(lambda x, k=k: wg.tanh(x * (k + 0.5)) + k)(x)
    found["64 kernels more"] = given()
    return found


# --- all of them ----------------------------------------------------------------------------------------------------


def run(names: list[str], device: str) -> dict[str, dict[str, Any]]:
    """Every program in a process of its own, with warm caches."""
    found = {}
    for name in names:
        command = [sys.executable, __file__, "--program", name, "--device", device]
        subprocess.run(command, capture_output=True, check=False)
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        if answer.returncode:
            raise SystemExit(f"{name} failed:\n{answer.stderr}")
        found[name] = json.loads(answer.stdout.splitlines()[-1])
        show(name, found[name])
    return found


def show(name: str, result: dict[str, Any]) -> None:
    """Print a line of the table."""
    predicted, measured = result["predicted"], result["measured"]
    difference = predicted - measured
    mark = "" if abs(difference) <= aim(measured) else "  beyond 1% and 2 MiB"
    share = f"{100 * difference / max(measured, 1):+.2f}%"
    print(
        f"{name:<22}{predicted / MIB:>10.1f}{measured / MIB:>10.1f}{difference / MIB:>+9.2f}{share:>9}{mark}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--programs", default=",".join(PROGRAMS))
    parser.add_argument("--json", action="store_true", help="write benchmarks/results/memory-DEVICE-DATE.json")
    parser.add_argument("--calibrate", action="store_true", help="on a GPU: what the driver and libraries take")
    parser.add_argument("--program", choices=sorted(PROGRAMS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.program:
        print(json.dumps(predicted_and_measured(options.program, options.device)))
        return
    if options.calibrate:
        print("\n".join(f"{size / MIB:>10.1f} MiB  {what}" for what, size in calibration(options.device).items()))
        return
    print(f"{'MiB':<22}{'predicted':>10}{'measured':>10}{'off by':>9}")
    found = run(options.programs.split(","), options.device)
    within = sum(abs(one["predicted"] - one["measured"]) <= aim(one["measured"]) for one in found.values())
    print(f"{within} of {len(found)} programs within 1% and 2 MiB")
    if options.json:
        print(f"written to {write(found, CALLS, f'memory-{options.device}')}")


if __name__ == "__main__":
    main()
