"""Random programs of views and writes, run by Wengert dynamically and compiled, and by PyTorch.

`python -m tests.torch.views 2000` runs so many, from `--seed` on. A program is text over a module `t`, so it can be
printed and run by hand. Compared are all values, the gradient of the leaf, who shares memory with whom, strides, and
the types of errors.
"""

from __future__ import annotations

import argparse
import random
import sys
from typing import Any

import numpy as np
import torch as theirs

import wengert as wg
import wengert.torch as ours

SHAPES = ((2, 3), (4,), (3, 2, 2), (1, 4), (6,), (2, 1, 3))


class Program:
    """Lines over `t`, the arguments `x0`, `x1` (and views of them, `a0`), a leaf `w`, and results by name."""

    def __init__(self, seed: int, length: int = 10, compiles: bool = False) -> None:
        self.random = random.Random(seed)
        self.compiles = compiles
        shapes = [self.random.choice(SHAPES) for _ in range(2)]
        self.arrays = [np.arange(np.prod(s), dtype=np.float64).reshape(s) + 10 * i for i, s in enumerate(shapes)]
        self.leaf = np.linspace(0.5, 2, 6).reshape(2, 3)
        self.lines: list[str] = []
        self.names = 0
        self.argument_views: list[str] = []
        while len(self.argument_views) < 2:
            text = self.a_view("x0", theirs.tensor(self.arrays[0]))
            if runs(text, {"t": theirs, "x0": theirs.tensor(self.arrays[0])}):
                self.argument_views.append(text)
        self.env = self.start(theirs, [theirs.tensor(a) for a in self.arrays], theirs.tensor(self.leaf))
        tries = 0
        while len(self.lines) < length and tries < 20 * length:
            tries += 1
            self.grow()
        self.kept = [name for name, x in self.env.items() if isinstance(x, theirs.Tensor)]
        self.tracked = [name for name in self.kept if self.env[name].requires_grad and name != "w"]

    def start(self, t: Any, xs: list[Any], w: Any) -> dict[str, Any]:
        """The names that a program begins with."""
        w.requires_grad_()
        env: dict[str, Any] = {"t": t, "x0": xs[0], "x1": xs[1], "w": w}
        for i, text in enumerate(self.argument_views):
            env[f"a{i}"] = eval(text, dict(env))
        env["z"] = w * 2
        return env

    def __str__(self) -> str:
        shapes = [a.shape for a in self.arrays]
        views = [f"a{i} = {text}" for i, text in enumerate(self.argument_views)]
        return "\n".join([f"x0, x1: {shapes}", *views, "z = w * 2", *self.lines])

    # --- growing --------------------------------------------------------------------------------------------------

    def grow(self) -> None:
        """Add a line, if PyTorch takes it; or one that it refuses, now and then."""
        r = self.random
        tensors = [name for name, x in self.env.items() if isinstance(x, theirs.Tensor)]
        name = r.choice(tensors)
        x = self.env[name]
        kind = r.random()
        if kind < 0.45:
            line = f"v{self.names} = {self.a_view(name, x)}"
        elif kind < 0.55:
            line = f"v{self.names} = {self.a_value(name, x)}"
        else:
            line = self.a_write(name, x)
        if kind >= 0.55 and r.random() < 0.3:
            line = f"with t.no_grad(): {line}"
        if kind >= 0.55 and "fill" not in line and "zero" not in line and has_hidden_overlap(x):
            return
        if 0 in x.stride() and kind >= 0.55 and ("[[" in line or ">" in line):
            return  # what PyTorch does then depends on the order in which it walks over the elements
        trial = [self.restart()]
        for old in self.lines:
            self.run_line(old, trial[0])
        try:
            exec(line, trial[0])
        except Exception as error:
            if "input tensor and the written-to" in str(error):
                return  # a partial overlap, that PyTorch finds sometimes
            if r.random() < 0.15 and not self.compiles and type(error) in (RuntimeError, ValueError, IndexError):
                self.lines.append(f"!{type(error).__name__} {line}")
            return
        if not is_readable(trial[0]):
            return
        if any(trial[0][k].requires_grad for k in ("x0", "x1", "a0", "a1")) or not trial[0]["w"].is_leaf:
            return
        self.lines.append(line)
        self.names += 1
        self.env = trial[0]

    def restart(self) -> dict[str, Any]:
        return self.start(theirs, [theirs.tensor(a) for a in self.arrays], theirs.tensor(self.leaf))

    def shape_for(self, count: int) -> tuple[int, ...]:
        options = [(count,), (1, count), (count, 1)] + [(n, count // n) for n in (2, 3) if count and count % n == 0]
        return self.random.choice(options)

    def a_view(self, name: str, x: Any) -> str:
        r, rank = self.random, x.dim()
        axis = r.randrange(rank) if rank else 0
        size = x.shape[axis] if rank else 1
        i = r.randrange(size) if size else 0
        other = r.randrange(rank) if rank else 0
        order = r.sample(range(rank), rank)
        key = ", ".join(
            r.choice([f"{k}:", f":{n}", f"::{1 + k % 2}", str(k), "None, :", f"{k}:{n}"])
            for n in x.shape
            for k in [r.randrange(n) if n else 0]
        )
        texts = [
            f"{name}[{key}]" if rank else f"{name}[...]",
            f"{name}[{i}]",
            f"{name}[..., {i if axis == rank - 1 else 0}]",
            f"{name}.view{self.shape_for(x.numel())}",
            f"{name}.view(-1)",
            f"{name}.reshape{self.shape_for(x.numel())}",
            f"{name}.permute({', '.join(map(str, order))})",
            f"{name}.transpose({axis}, {other})",
            f"{name}.t()",
            f"{name}.mT",
            f"{name}.squeeze()",
            f"{name}.squeeze({axis})",
            f"{name}.unsqueeze({axis})",
            f"{name}.narrow({axis}, {i}, {r.randint(0, size - i) if size else 0})",
            f"{name}.select({axis}, {i})",
            f"{name}.diagonal({r.randint(-1, 1)}, {axis}, {other})",
            f"{name}.unbind({axis})[{i}]",
            f"{name}.split({max(1, i)}, {axis})[0]",
            f"{name}.chunk(2, {axis})[-1]",
            f"{name}.tensor_split(2, {axis})[0]",
            f"{name}.unfold({axis}, {max(1, size // 2)}, {r.choice([1, 2])})",
            f"{name}.flatten()",
            f"{name}.movedim({axis}, {other})",
            f"{name}.expand(2, {', '.join('-1' for _ in range(rank))})" if rank else f"{name}.expand(2)",
            f"{name}.detach()",
            f"{name}.data",
            f"{name}.unflatten({axis}, (1, {size}))",
            f"{name}.view_as({name})",
            f"{name}.as_strided(({max(1, min(2, x.numel()))},), (1,), {r.choice([0, 1]) if x.numel() > 2 else 0})",
        ]
        reaches = x.requires_grad and x.numel() != x.untyped_storage().nbytes() // 8
        return r.choice(texts[:-1] if reaches else texts)  # of the last PyTorch has no gradient then

    def a_value(self, name: str, x: Any) -> str:
        r = self.random
        same = [n for n, y in self.env.items() if isinstance(y, theirs.Tensor) and y.shape == x.shape]
        return r.choice(
            [
                f"{name}.clone().contiguous()",
                f"({name} + {r.choice(same)}).contiguous()",
                f"({name} * 0.5).contiguous()",
                f"{name}.contiguous()",
                f"t.cat([{name}, {r.choice(same)}])",
            ]
        )

    def a_write(self, name: str, x: Any) -> str:
        r = self.random
        tensors = [(n, y) for n, y in self.env.items() if isinstance(y, theirs.Tensor)]
        same = [n for n, y in tensors if y.shape == x.shape] or ["1.5"]
        row = [n for n, y in tensors if x.dim() and y.shape == x.shape[1:]] or ["2.5"]
        i = r.randrange(x.shape[0]) if x.dim() and x.shape[0] else 0
        number = r.choice(["1.5", "-2", "0.25"])
        return r.choice(
            [
                f"{name}.add_({r.choice([*same, number])})",
                f"{name}.mul_({number})",
                f"{name}.fill_({number})",
                f"{name}.zero_()",
                f"{name}.copy_({r.choice([n for n in same if n != '1.5'] or [name])})",
                f"{name} += {r.choice([*same, number])}",
                f"{name}[{i}] = {r.choice([*row, number])}",
                f"{name}[...] = {number}",
                f"{name}[{i}:] *= {number}",
                f"{name}[{i}] += {number}",
                f"{name}[{name} > {number}] = {number}",
                f"{name}[[{i}, 0]] = {number}",
                f"{name}[..., {i}:] = {number}",
                f"{name}.data.mul_({number})",
                f"{name}.detach()[{i}] = {number}",
            ]
        )

    # --- running --------------------------------------------------------------------------------------------------

    def run_line(self, line: str, env: dict[str, Any]) -> None:
        """Run a line; one that PyTorch refuses must be refused with the same type of error."""
        if not line.startswith("!"):
            exec(line, env)
            return
        wanted, _, text = line[1:].partition(" ")
        try:
            exec(text, env)
        except Exception as error:
            names = [kind.__name__ for kind in type(error).__mro__]
            assert wanted in names, f"{text}: {type(error).__name__} {error}, not {wanted}\n{self}"
            return
        raise AssertionError(f"{text}: it was not refused by {wanted}\n{self}")

    def body(self, env: dict[str, Any]) -> dict[str, Any]:
        """Run the lines, then a backward pass from what is tracked."""
        for line in self.lines:
            self.run_line(line, env)
        total = None
        for k, name in enumerate(self.tracked):
            term = (env[name] * (k + 1)).sum()
            total = term if total is None else total + term
        if total is not None:
            total.backward()
        return env

    def run(self, t: Any, make: Any) -> dict[str, Any]:
        """The names at its end."""
        return self.body(self.start(t, [make(a) for a in self.arrays], make(self.leaf)))

    def as_function(self, inside: list[str]) -> Any:
        """The lines as one function, which gives these names of its."""
        terms = [f"({name} * {k + 1}).sum()" for k, name in enumerate(self.tracked)]
        lines = ["def body(x0, x1, w, a0, a1):", "z = w * 2", *self.lines]
        lines += [f"({' + '.join(terms)}).backward()"] if terms else []
        names: dict[str, Any] = {"t": ours}
        exec("\n    ".join([*lines, f"return [{', '.join(inside)}]"]), names)
        return names["body"]

    def run_compiled(self, make: Any) -> list[dict[str, Any]]:
        """The same with a compiled body, three times anew: recorded, run, and perhaps on the fast path."""
        given = ("x0", "x1", "w", "a0", "a1")
        inside = [name for name in self.kept if name not in given]

        body = wg.compile(self.as_function(inside))
        found = []
        for _ in range(3):
            env = self.start(ours, [make(a) for a in self.arrays], make(self.leaf))
            results = body(*[env[name] for name in given])
            env.update(zip(inside, results))
            found.append(env)
        return found


def runs(text: str, env: dict[str, Any]) -> bool:
    """Whether PyTorch takes an expression."""
    try:
        eval(text, env)
    except Exception:
        return False
    return True


def is_readable(env: dict[str, Any]) -> bool:
    """Whether PyTorch lets all views be read: it refuses some whose base was written."""
    try:
        return all(x.grad_fn is None or True for x in env.values() if isinstance(x, theirs.Tensor))
    except RuntimeError:
        return False


def has_hidden_overlap(x: Any) -> bool:
    """Whether elements share memory by steps that are not 0."""
    places = np.zeros((), np.int64)
    for n, step in zip(x.shape, x.stride()):
        if n > 1 and step == 0:
            return False
        places = places[..., None] + np.arange(n) * step
    return len(np.unique(places)) < places.size


def made(array: Any) -> Any:
    """A tensor of ours with the values of an array."""
    return ours.Tensor(wg.tensor(array).node)


def aliases(env: dict[str, Any], names: list[str]) -> list[tuple[str, str]]:
    """The pairs of names that share memory."""
    where = {name: env[name].untyped_storage().data_ptr() for name in names if env[name].numel()}
    return [(a, b) for a in where for b in where if a < b and where[a] == where[b]]


def steps(x: Any) -> list[int]:
    """The strides that count: PyTorch leaves others as they come."""
    return [step for n, step in zip(x.shape, x.stride()) if n > 1 and x.numel()]


def compare(program: Program, mine: dict[str, Any], expected: dict[str, Any], how: str) -> None:
    """Raise unless two runs of a program agree."""
    for name in program.kept:
        a, b = mine[name], expected[name]
        text = f"{how}, {name}\n" + str(program)
        assert tuple(a.shape) == tuple(b.shape), text
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-9, atol=1e-12, err_msg=text)
        assert steps(a) == steps(b), f"{a.stride()} not {b.stride()}: {text}"
        assert a.is_contiguous() == b.is_contiguous(), f"contiguous {a.is_contiguous()}: {text}"
        assert a.storage_offset() == b.storage_offset() or not b.numel(), f"offset {a.storage_offset()}: {text}"
        if how == "dynamic":
            assert a.requires_grad == b.requires_grad, f"requires_grad {a.requires_grad}: {text}"
            assert a.is_leaf == b.is_leaf, f"{a.is_leaf} is_leaf: {text}"
            assert (a._base is None) == (b._base is None), f"_base {a._base is None}: {text}"
    assert aliases(mine, program.kept) == aliases(expected, program.kept), f"{how}\n{program}"
    a, b = mine["w"].grad, expected["w"].grad
    assert (a is None) == (b is None), f"{how}: gradient\n{program}"
    if b is not None:
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-9, atol=1e-12, err_msg=f"{how}: gradient\n{program}")


def after_writes(env: dict[str, Any], names: list[str]) -> None:
    """Write to everything once more, to see who is changed by it."""
    t = env["t"]
    with t.no_grad():
        for k, name in enumerate(names):
            x = env[name].detach()
            if x.numel() and 0 not in steps(x):
                x.mul_(1.0 + k)


def check(seed: int, compiles: bool = False) -> Program:
    """Run the program of a seed all ways."""
    program = Program(seed, compiles=compiles)
    try:
        return run_all_ways(program, compiles)
    except AssertionError:
        raise
    except Exception as error:
        raise RuntimeError(f"{type(error).__name__} {error}\n{program}") from error


def run_all_ways(program: Program, compiles: bool) -> Program:
    """Run a program all ways, and compare."""
    try:
        expected = program.run(theirs, theirs.tensor)
    except RuntimeError as error:
        assert "single memory location" in str(error)  # PyTorch has no gradient of a fill of what is expanded
        return program
    runs = []
    try:
        runs += [("compiled", env) for env in program.run_compiled(made)] if compiles else []
    except wg.errors.AssignmentError as error:
        if "own gradient history" not in str(error):
            raise
    runs.append(("dynamic", program.run(ours, made)))
    for how, mine in runs:
        compare(program, mine, expected, how)
    safe = [n for n in program.kept if not any(_overlap(env[n]) for _, env in runs)]
    after_writes(expected, safe)
    for how, mine in runs:
        after_writes(mine, safe)
        for name in program.kept:
            np.testing.assert_allclose(
                mine[name].detach().numpy(),
                expected[name].detach().numpy(),
                rtol=1e-9,
                atol=1e-12,
                err_msg=f"{how}, afterwards, {name}\n{program}",
            )
    return program


def _overlap(x: Any) -> bool:
    from wengert.torch.views import overlaps

    return overlaps(x)


def main() -> int:
    """Run many programs; print those that differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compiled", action="store_true", help="compiled as well")
    parser.add_argument("--c-every", type=int, default=1, help="one in so many of those in C, the others interpreted")
    parser.add_argument("--stop", type=int, default=5, help="stop after so many that differ")
    options = parser.parse_args()
    failed = lines = 0
    for seed in range(options.seed, options.seed + options.count):
        wg.config.tier = "auto" if seed % options.c_every == 0 else "interpret"
        try:
            lines += len(check(seed, options.compiled).lines)
        except Exception as error:
            failed += 1
            print(f"--- seed {seed}: {type(error).__name__}: {str(error)[:1500]}")
            if failed >= options.stop:
                break
    print(f"{options.count} programs, {lines} lines, {failed} differ")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
