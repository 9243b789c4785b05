"""Random programs: lines of Python over Wengert's public functions, grown one at a time.

    random_program(mode, seed) -> Program: its lines, inputs and constants, and a Sample (the graph with its gradients)

A program of a seed is always the same. A line such as `x4 = wg.softmax(x2, axis=1)` is drawn from the tables of steps,
recorded by running it, and computed at once: by the references, in float64, and in float64 with noise.

What rounding makes of a value is found by that noise. Twice, every operand and every result of an op that rounds is
moved by a few units of its dtype's last place; how far the results lie from the float64 ones is what a program may be
off. A line is taken back where that is much, or where a step (a comparison, a sort, a cast) is decided by it. So a
difference that counts is one that rounding does not explain, and integers and truth values are compared exactly.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import wengert as wg
from tests.compiler.random_graphs import Untame
from tests.compiler.wide_graphs import Sample, WideBuilder
from tests.programs.modes import MODES, Mode
from wengert.autodiff.forward import forward
from wengert.autodiff.reverse import reverse
from wengert.core.dtypes import COMPLEX, FLOATING, INEXACT, INTEGER, bool_, cast_array, float64, real_of
from wengert.core.errors import WengertError
from wengert.core.graph import Graph, Node, now, recorded_as, recording
from wengert.ops.core import CAST, data, placeholder
from wengert.tensor import Tensor

ROUNDOFF = {np.dtype(name): 2.0**-n for name, n in (("float64", 53), ("float32", 24), ("float16", 11))}
ROUNDOFF[wg.bfloat16] = 2.0**-8
UNITS = {2: 4, 4: 16, 8: 16}  # of the last place that an operation may be off, by the size of a number
SAFETY = 4  # of two draws of noise
LARGEST = 4_000  # elements
WORK = 300_000  # multiplications of a product
LIMITS = {2: 0.05, 4: 1e-3, 8: 1e-8}  # what a value may be off, relative to its largest element or 1
ATTEMPTS = 6  # at a program that has gradients
FORWARD_EVERY = 3  # programs of which tangents are computed too

_EXACT = frozenset(("negative", "abs", "maximum", "minimum", "where", "max", "min", "max_pool", "positive", "conj"))
_EXACT_KINDS = frozenset(("source", "identity", "movement", "tuple"))


class Operand(NamedTuple):
    """A value as it is written in a line."""

    text: str
    shape: tuple[int, ...]
    dtype: Any

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape, dtype=int))

    def __format__(self, spec: str) -> str:
        return self.text


class Program(NamedTuple):
    """Lines of Python, what they read, and the graph of their values and gradients."""

    seed: int
    lines: list[str]
    inputs: list[np.ndarray]
    constants: dict[str, np.ndarray]
    outputs: list[str]  # names
    targets: list[str]  # the outputs that are differentiated
    cotangents: list[np.ndarray]
    sources: list[int]  # the inputs that they are differentiated by, each a further output of the graph
    sample: Sample
    nodes: int
    forward: bool  # whether the tangents of the targets are outputs too
    problem: str | None  # how forward mode differs from reverse mode

    @property
    def text(self) -> str:
        """The program as a function."""
        names = ", ".join(f"x{i}" for i in range(len(self.inputs)))
        body = "".join(f"    {line}\n" for line in self.lines)
        return f"def program({names}):\n{body}    return {', '.join(self.outputs)}\n"

    def run(self, library: Any, values: list[Any]) -> dict[str, Any]:
        """Every value by its name, with functions from a library that has Wengert's names."""
        names = {"wg": library, **self.constants, **{f"x{i}": value for i, value in enumerate(values)}}
        for line in self.lines:
            exec(line, names)
        return names


def random_program(mode: str, seed: int, portable: bool = False) -> Program:
    """The program of a seed: one that has gradients, if a few attempts lead to one.

    A portable one is of what PyTorch has, too.
    """
    program = None
    for attempt in range(ATTEMPTS):
        program = ProgramBuilder(MODES[mode], seed, attempt, portable).program()
        if program is not None and program.sources:
            break
    assert program is not None, f"no program of {mode} from seed {seed}"
    return program


class ProgramBuilder(WideBuilder):
    """Grows a program line by line."""

    def __init__(self, mode: Mode, seed: int, attempt: int, portable: bool) -> None:
        super().__init__([seed, attempt, mode.number])
        self.mode, self.portable = mode.portable() if portable else mode, portable
        self.dtype = self.choice(self.mode.dtypes)
        self.noise = np.random.default_rng([seed, attempt, mode.number, 1])
        self.seed, self.with_tangents = seed, seed % FORWARD_EVERY == 0
        self.steps = mode.steps(portable)
        self.names: dict[Node, str] = {}
        self.tensors: dict[str, Any] = {}
        self.lines: list[str] = []
        self.constants: dict[str, np.ndarray] = {}
        self.draws: dict[Node, tuple[Any, Any]] = {}  # in float64, with noise
        self.moved: dict[Node, tuple[Any, Any]] = {}  # the same as operands of ops that round
        self.chosen: list[Node] = []
        self.targets: list[Node] = []
        self.cotangents: list[np.ndarray] = []
        self.sources: list[int] = []
        self.forward = False
        self.problem: str | None = None

    def _shapes(self) -> list[tuple[int, ...]]:
        a, b, c = (self.choice([1, 2, 3, 4, 5, 7, 8, 16, 17, 33]) for _ in range(3))
        if self.chance(0.08):
            c = 0
        if self.chance(0.1):
            a, b = self.choice([(129, 3), (3, 129), (1, 1000), (700, 2), (2, 700)])
        combined = [(), (1,), (a,), (b,), (c,), (a, b), (b, a), (a, 1), (1, b), (a, c), (c, b), (b, b), (c, a, b)]
        combined += [(a, b, c), (a, 1, b), (1, a, b), (2, a, b), (a, b, 2), (2, 3, a, b), (a, b), (a, b), (b, a)]
        return [shape for shape in combined if np.prod(shape, dtype=int) <= LARGEST / 4]

    # --- growing ----------------------------------------------------------------------------------------------------

    def program(self) -> Program | None:
        """The program, or None if no line could be grown."""
        pending, since = len(recording.pending), now()
        size = int(3 * (26 / 3) ** self.rng.random())  # 3 to 25 lines, as many up to 9 as from there on
        with recorded_as(None, True):
            inputs = [self.input() for _ in range(int(self.rng.integers(1, 4)))]
            for _ in range(8 * size):
                if len(self.lines) >= size:
                    break
                self.grow()
            if not self.lines:
                return None
            outputs = self.outputs(inputs)
        self.tensors.clear()
        del recording.pending[pending:]
        graph = Graph(inputs, outputs, since)
        arrays, expected = ([self.values[node] for node in nodes] for nodes in (inputs, outputs))
        sample = Sample(graph, arrays, expected, [self.loose[node] for node in outputs])
        names = [self.names[node] for node in self.chosen]
        targets = [self.names[node] for node in self.targets]
        nodes = len(graph.nodes)
        rest = (self.cotangents, self.sources, sample, nodes, self.forward, self.problem)
        return Program(self.seed, self.lines, arrays, self.constants, names, targets, *rest)

    def grow(self) -> None:
        """Add a line, unless what was drawn cannot be recorded or is not tame."""
        before = len(self.constants)
        try:
            text = self.choice(self.steps)(self)
            tensor = eval(text, {"wg": wg, **self.constants, **self.tensors})
            if not isinstance(tensor, Tensor):
                raise Untame
            self.compute([tensor.node])
        except (Untame, WengertError, ZeroDivisionError, np.linalg.LinAlgError):
            for name in list(self.constants)[before:]:
                del self.constants[name]
            return
        self._named(tensor)
        self.lines.append(f"{self.names[tensor.node]} = {text}")

    def _named(self, tensor: Any) -> None:
        name = f"x{len(self.pool)}"
        self.names[tensor.node], self.tensors[name] = name, tensor
        self.pool.append(tensor.node)

    def input(self) -> Node:
        dtype = self.dtype if self.chance(0.7) else self.choice(self.mode.beside)
        node = placeholder(self.choice(self.shapes), dtype, tracked=dtype in INEXACT)
        self._hold(node, self._laid_out(self.numbers(node.shape, dtype)))
        self._named(Tensor(node))
        return self.pool[-1]

    def _laid_out(self, array: np.ndarray) -> np.ndarray:
        """The array, now and then with its elements not one after the other."""
        kind = self.rng.integers(6)
        if kind == 0:
            return np.array(array.T).T
        if kind == 1 and array.ndim:
            return np.repeat(array, 2, -1)[..., ::2]
        return array[..., ::-1].copy()[..., ::-1] if kind == 2 and array.ndim else array

    def numbers(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        if dtype in COMPLEX:
            parts = [self.rng.uniform(-2, 2, shape) for _ in range(2)]
            return np.asarray(parts[0] + 1j * parts[1]).astype(dtype)
        if dtype in FLOATING and self.chance(0.15):  # ties and zeros
            return np.asarray(self.rng.integers(-3, 4, shape) / 2).astype(dtype)
        return super().numbers(shape, dtype)

    def outputs(self, inputs: list[Node]) -> list[Node]:
        """The values that no line reads, one that may be read, and the gradients of some of them."""
        made = [node for node in self.pool[len(inputs) :] if node.op.kind != "source"] or self.pool[len(inputs) :]
        used = {source for node in self.values for source in node.sources}
        ends = [node for node in made if node not in used][-6:]
        self.chosen = chosen = list(dict.fromkeys([*ends, self.choice(made)]))
        self.targets = [node for node in chosen if node.dtype in INEXACT and node.tracked][:3]
        return [*chosen, *self.differentiated(inputs)] if self.targets else chosen

    # --- derivatives ------------------------------------------------------------------------------------------------

    def differentiated(self, inputs: list[Node]) -> list[Node]:
        """The gradients, and for some programs the tangents of the targets, which must agree with them."""
        arrays = [self.numbers(node.shape, node.dtype) * 0.5 + 1 for node in self.targets]
        self.cotangents = [array.astype(node.dtype) for array, node in zip(arrays, self.targets)]
        places = [k for k, node in enumerate(inputs) if node.dtype in INEXACT]
        found = reverse(self.targets, [data(a) for a in self.cotangents], [inputs[k] for k in places])
        gradients = {k: g for k, g in zip(places, found) if g is not None and self._computed([g])}
        self.sources = list(gradients)
        complete = all(g is None or k in gradients for k, g in zip(places, found))
        if self.with_tangents and gradients and complete:
            return [*gradients.values(), *self._tangents(inputs, gradients)]
        return list(gradients.values())

    def _computed(self, nodes: list[Node]) -> bool:
        try:
            self.compute(nodes)
        except (Untame, WengertError, np.linalg.LinAlgError):
            return False
        return True

    def _tangents(self, inputs: list[Node], gradients: dict[int, Node]) -> list[Node]:
        """The targets' tangents; their product with the cotangents is that of the gradients with the inputs' ones."""
        moves = {k: self.numbers(inputs[k].shape, inputs[k].dtype) for k in gradients}
        given = [data(move) for move in moves.values()]
        found = forward(self.targets, [inputs[k] for k in gradients], given)
        tangents = [t for t in found if t is not None]
        if not self._computed(tangents):
            return []
        self.forward = True
        pairs = [(self.shadows[t], g) for t, g in zip(found, self.cotangents) if t is not None]
        others = [(self.shadows[gradients[k]], move) for k, move in moves.items()]
        one, other = (sum(float(_dot(*pair)) for pair in some) for some in (pairs, others))
        size = sum(float(np.abs(np.asarray(a) * b.astype(_wide(b.dtype))).sum()) for a, b in (*pairs, *others))
        loose = max(self.loose[node] for node in (*tangents, *gradients.values()))  # rules have constants of the dtype
        allowed = max(loose, 1e-9) * max(size, 1)
        if not abs(one - other) <= allowed:
            self.problem = f"forward mode gives {one:.9g}, reverse mode {other:.9g}; allowed is {allowed:.3g}"
        return tangents

    # --- operands, as they are written ------------------------------------------------------------------------------

    def operand(self, *dtypes: Any) -> Operand:
        """A value of one of these dtypes, likelier a late one; cast to one if there is none."""
        found = [node for node in self.pool if node.dtype in dtypes] if dtypes else self.pool
        late = found[-6:] if self.chance(0.6) else found
        if late and self.chance(0.93):
            return self.written(self.choice(late))
        x = self.written(self.choice(self.pool))
        dtype = self.dtype if self.dtype in dtypes or not dtypes else self.choice(dtypes)
        if x.dtype in COMPLEX and dtype not in COMPLEX:
            x = Operand(f"wg.real({x})", x.shape, real_of(x.dtype))
        return Operand(f"wg.astype({x}, wg.{dtype.name})", x.shape, dtype)

    def written(self, node: Node) -> Operand:
        """A value by its name."""
        return Operand(self.names[node], node.shape, node.dtype)

    def inexact(self) -> Operand:
        """A value of the program's own kind: complex or floating."""
        return self.operand(*self.mode.inexact)

    def real(self) -> Operand:
        """A floating value."""
        return self.operand(*self.mode.floats)

    def integer(self) -> Operand:
        """An integer value."""
        return self.operand(*self.mode.integers)

    def truth(self) -> Operand:
        """A truth value: one that is there, or a comparison."""
        found = [node for node in self.pool if node.dtype is bool_]
        if found and self.chance(0.7):
            return self.written(self.choice(found[-4:]))
        x = self.real()
        return Operand(f"({x} > {self.number()})", x.shape, bool_)

    def number(self) -> str:
        """A Python number."""
        return self.choice(["0.5", "-0.25", "2", "1", "0.1", "-1.5", "3"])

    def beside_it(self, x: Operand, *dtypes: Any) -> Operand | str:
        """What broadcasts against an operand: a number, itself, another value, or an array."""
        kind = self.rng.integers(8)
        if kind == 0:
            return self.number() if x.dtype in INEXACT else self.choice(["1", "2", "3"])
        allowed = dtypes or (x.dtype,)
        fitting = [n for n in self.pool if n.dtype in allowed and _fits(n.shape, x.shape)]
        if kind == 1 or not fitting:
            shape = tuple(n if self.chance(0.7) else 1 for n in x.shape)[int(self.rng.integers(0, 2)) * (x.ndim > 1) :]
            return self.constant_like(shape, x.dtype)
        return self.written(self.choice(fitting))

    def constant_like(self, shape: tuple[int, ...], dtype: Any) -> Operand:
        """An array of random numbers as a tensor."""
        return self.constant_of(self._laid_out(self.numbers(shape, dtype)))

    def constant_of(self, array: np.ndarray) -> Operand:
        """An array as a tensor."""
        name = f"c{len(self.constants)}"
        self.constants[name] = array
        return Operand(f"wg.tensor({name})", array.shape, array.dtype)

    def places(self, shape: tuple[int, ...], size: int) -> Operand:
        """Indices of an axis of this size."""
        if not size:
            raise Untame
        low = -size if self.chance(0.3) and not self.portable else 0
        return self.constant_of(self.rng.integers(low, size, shape, dtype=np.int64))

    def axis(self, x: Operand) -> int:
        """One of the axes, counted from either side."""
        if not x.ndim:
            raise Untame
        return int(self.rng.integers(-x.ndim, x.ndim))

    def is_distinct(self, x: Operand) -> bool:
        """Whether a value has no two elements that are equal."""
        found = [self.values[node] for node, name in self.names.items() if name == x.text]
        return bool(found) and np.unique(found[0]).size == x.size

    def axes_of(self, x: Operand) -> Any:
        """An axis, several or None."""
        kind = self.rng.integers(4)
        if kind == 0 or not x.ndim:
            return None
        return self.axis(x) if kind < 3 else self.axes(x.ndim)

    # --- values, and what rounding makes of them --------------------------------------------------------------------

    def _hold(self, node: Node, array: np.ndarray) -> None:
        wide = array.astype(_wide(array.dtype)) if array.dtype in INEXACT else array
        self.values[node], self.shadows[node] = array, wide
        self.draws[node] = (wide, wide)
        self.loose[node] = 0.0
        self.exact.add(node)

    def _compute(self, node: Node) -> None:
        if isinstance(node.buffer, np.ndarray):
            self._hold(node, node.buffer)
            return
        several = isinstance(node.dtype, tuple)
        sizes = [int(np.prod(shape, dtype=int)) for shape in node.shape] if several else [node.size]
        work = node.sources[0].shape[-1] * node.size if node.op.name == "matmul" else 0
        if max(sizes) > LARGEST or work > WORK:
            raise Untame
        value = node.op.run([self.values[s] for s in node.sources], node)
        self.values[node] = value
        exact = self._is_exact(node) and all(s in self.exact for s in node.sources)
        if exact:
            self.exact.add(node)
        shadow = self._applied(node, [self.shadows[s] for s in node.sources], value)
        self.shadows[node] = shadow
        self.draws[node] = (shadow, shadow) if exact else (self._draw(node, 0), self._draw(node, 1))
        parts = zip(value, shadow, *self.draws[node]) if several else [(value, shadow, *self.draws[node])]
        self.loose[node] = max(self._require_tame(*part) for part in parts)

    def _is_exact(self, node: Node) -> bool:
        op = node.op
        if op.kind == "function":
            return False
        if op is CAST:
            return node.dtype not in INEXACT or node.sources[0].dtype not in INEXACT
        return op.moves or op.kind in _EXACT_KINDS or op.name in _EXACT or node.dtype in INTEGER or node.dtype is bool_

    def _applied(self, node: Node, arrays: list[Any], value: Any) -> Any:
        """What a node is of wide operands; an op that runs functions is computed as it is."""
        if node.op.kind == "function":
            return value
        if node.op is CAST and node.dtype in INEXACT:
            return np.asarray(arrays[0]).astype(_wide(node.dtype))
        if node.op is CAST:
            return cast_array(np.asarray(arrays[0]), node.dtype)
        result = node.op.numpy(*arrays, **node.attrs)
        return result if isinstance(result, tuple) else np.asarray(result)

    def _draw(self, node: Node, k: int) -> Any:
        """A node's value where all that rounds is off by a few units."""
        if node.op.kind == "function":
            return (
                tuple(self._off(v, 64) for v in self.values[node])
                if isinstance(node.dtype, tuple)
                else self._off(self.values[node], 64)
            )
        if self._is_exact(node):
            return self._applied(node, [self.draws[s][k] for s in node.sources], self.values[node])
        operands = [self._moved(s)[k] for s in node.sources]
        result = self._applied(node, operands, self.values[node])
        if isinstance(result, tuple):
            return tuple(self._off(part, dtype=dtype) for part, dtype in zip(result, node.dtype))
        terms = node.op.terms
        return self._off(result, dtype=node.dtype, size=None if terms is None else terms(*operands))

    def _moved(self, node: Node) -> tuple[Any, Any]:
        if node not in self.moved:
            one, two = self.draws[node]
            self.moved[node] = (
                (one, two)
                if isinstance(node.dtype, tuple)
                else tuple(self._off(draw, dtype=node.dtype) for draw in (one, two))
            )  # type: ignore[assignment]
        return self.moved[node]

    def _off(self, array: Any, units: int = 1, dtype: Any = None, size: Any = None) -> Any:
        """An array moved by noise, relative to each element or to `size`."""
        dtype = dtype or array.dtype
        if dtype not in INEXACT:
            return array
        real = real_of(dtype)
        scale = units * UNITS[real.itemsize] * ROUNDOFF[real]
        noise = self.noise.uniform(-scale, scale, np.shape(array))
        if dtype in COMPLEX:
            noise = noise + 1j * self.noise.uniform(-scale, scale, np.shape(array))
        return array + noise * (array if size is None else np.maximum(np.abs(size), np.abs(array)))

    def _require_tame(self, value: Any, shadow: Any, one: Any, two: Any) -> float:
        """What a value may be off, relative to its largest element or 1; raises where it is too much."""
        if value.dtype not in INEXACT:
            if not all(np.array_equal(value, other) for other in (shadow, one, two)):
                raise Untame
            return 0.0
        real = real_of(value.dtype)
        wide = value.astype(_wide(value.dtype))
        large = float(np.abs(wide).max(initial=0))
        if not np.isfinite(wide).all() or large > (100 if real.itemsize == 2 else 1000):
            raise Untame
        apart = max(float(np.abs(other - shadow).max(initial=0)) for other in (wide, one, two))
        if not SAFETY * apart <= LIMITS[real.itemsize] * SAFETY * max(large, 1):
            raise Untame
        return (SAFETY * apart + 8 * ROUNDOFF[real] * large) / max(large, 1)


def _wide(dtype: Any) -> Any:
    return np.dtype("complex128") if dtype in COMPLEX else float64


def _dot(a: Any, b: Any) -> Any:
    return np.real(np.sum(np.conj(a) * b.astype(_wide(b.dtype))))


def _fits(a: Any, b: Any) -> bool:
    try:
        return len(np.broadcast_shapes(a, b)) <= 4
    except ValueError:
        return False
