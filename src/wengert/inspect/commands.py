"""The commands `wengert view`, `profile`, `tune` and `scale`: they run a script and show what it computes."""

from __future__ import annotations

import inspect
import os
import runpy
import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wengert.core.errors import ArgumentError
from wengert.inspect.page import page
from wengert.inspect.profile import Profile
from wengert.runtime.static.compile import Compiled


def view(target: str, expressions: Sequence[str], out: str | None, opens: bool) -> Path:
    """Write the page of a script's function or Tensor, and open it in the browser.

    `target` is `script.py:name`; the inputs are expressions over the script's names.
    """
    name, subject, inputs = _target(target, expressions, "view")
    try:
        found = page(subject, out or f"{name}.html", *inputs)
    except TypeError as error:  # arguments that do not fit
        raise ArgumentError(f"view: {error}. Inputs follow the function: wengert view {target} 2.0 x") from error
    print(found)
    if opens:
        webbrowser.open(found.resolve().as_uri())
    return found


def tune(target: str, expressions: Sequence[str], seconds: float) -> None:
    """Compile a script's function, choose the kernels for these inputs by timing them, and print the winners."""
    name, function, inputs = _target(target, expressions, "tune")
    _check_inputs(name, function, inputs, target)
    tuned = Compiled(getattr(function, "__wrapped__", function), tune=seconds)
    tuned(*inputs)
    program: Any = tuned._newest("tune").program
    if not program.is_compiled or program.tuning() is None:
        raise ArgumentError(f"tune: {name} ran on the CPU, where there is nothing to choose; pass tensors on a GPU")
    tuned.explain("tuning")


def scale(
    target: str, expressions: Sequence[str], ranks: Sequence[int], machine: str, step: float | None = None
) -> str:
    """Predict how long a script's step takes on several numbers of ranks of a machine.

    The script runs once for each number of ranks, as rank 0 of a pretended world. Without expressions for the inputs of
    the step, the script's `example()` returns them. `step` is the time of one rank on that machine, in seconds.
    """
    from wengert.distributed.scale import machines, measure, model, pretend, rank_program, report

    if not ranks or min(ranks) < 1:
        raise ArgumentError(f"scale: numbers of ranks start at 1, not {list(ranks)}")
    cluster = machines.cluster(machine) if machine != machines.HERE else None
    links = measure.measured() if cluster is None else None
    factor, found, name = 1.0, dict[int, model.Prediction](), ""
    for count in sorted({1, *ranks}):
        on = cluster or machines.this_machine(count, links)  # type: ignore[arg-type]
        with pretend.pretended(count, on.overlaps), pretend.share_of(on.cores):
            name, function, inputs = _example(target, expressions)
            programs = rank_program.rank_programs(function, tuple(inputs), count, on)
            times = {id(plan): rank_program.seconds_of(plan, on) for one in programs for plan in one.plans}
        if count == 1 and step is not None:
            factor = _slower(step, sum(map(sum, times.values())))
        scaled = {plan: [factor * each for each in own] for plan, own in times.items()}
        found[count] = model.predict(programs, lambda plan, scaled=scaled: scaled[id(plan)], on)  # type: ignore[misc]
    text = report.report(name, found, on, factor)
    print(text)
    return text


def _slower(measured: float, least: float) -> float:
    if measured < least:
        raise ArgumentError(
            f"scale: one rank of that machine takes at least {least * 1e3:.3g} ms, not {measured * 1e3:.3g} ms"
        )
    return measured / least


def _example(target: str, expressions: Sequence[str]) -> tuple[str, Compiled, list[Any]]:
    """A compiled step of a script, and inputs for it."""
    given = list(expressions) or ["example()"]
    name, function, inputs = _target(target, given, "scale")
    if not expressions:
        inputs = list(inputs[0]) if isinstance(inputs[0], (tuple, list)) else inputs
    if not isinstance(function, Compiled):
        raise ArgumentError(f"scale: {name} is not a compiled function; use wg.compile({name})")
    return name, function, inputs


def _check_inputs(name: str, function: Any, inputs: Sequence[Any], target: str) -> None:
    """Raise unless a function can be called with these inputs."""
    if not callable(function):
        raise ArgumentError(f"tune: {name} is a {type(function).__name__}, not a function")
    try:
        inspect.signature(function).bind(*inputs)
    except TypeError as error:
        raise ArgumentError(f"tune: {name}: {error}. Inputs follow the function: wengert tune {target} x") from None
    except ValueError:  # a function without a signature tells by itself
        pass


def profile(
    script: str,
    arguments: Sequence[str],
    by: Sequence[str],
    top: int,
    trace: str | None = None,
    timeline: str | None = None,
) -> Profile:
    """Run a script under a profile and print its tables."""
    found = Profile()
    try:
        with found:
            _run(script, arguments, "__main__")
    except SystemExit as error:
        if error.code not in (None, 0):
            print(f"wengert: the script exited with {error.code}", file=sys.stderr)
    print(found.table(by, top))
    if trace is not None:
        print(f"trace: {found.trace(trace)}")
    if timeline is not None:
        print(f"timeline: {found.timeline(timeline)}")
    return found


def _target(target: str, expressions: Sequence[str], command: str) -> tuple[str, Any, list[Any]]:
    """The name, the object that `script.py:name` refers to, and the values of the input expressions."""
    script, _, name = target.rpartition(":")
    if not script or not name:
        raise ArgumentError(f"{command}: {target!r} does not name a function: write script.py:function")
    names = _run(script, [], "__wengert__")
    subject = _evaluated(name, names, script, command)
    return name, subject, [_evaluated(text, names, script, command) for text in expressions]


def _run(script: str, arguments: Sequence[str], name: str) -> dict[str, Any]:
    """Run a script as `python script.py arguments` would; return its names."""
    if not Path(script).is_file():
        raise ArgumentError(f"no such script: {script!r}")
    kept = sys.argv, list(sys.path)
    sys.argv = [script, *arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    try:
        return runpy.run_path(script, run_name=name)
    finally:
        sys.argv, sys.path[:] = kept


def _evaluated(text: str, names: dict[str, Any], script: str, command: str) -> Any:
    try:
        return eval(text, names)
    except Exception as error:
        known = ", ".join(sorted(name for name, value in names.items() if callable(value) and not name.startswith("_")))
        raise ArgumentError(f"{command}: {text!r} is not in {script} ({error}); there are {known}") from error
