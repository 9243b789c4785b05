"""Random programs: lines of Python over Wengert's public functions, grown one at a time.

    random_program(mode, seed) -> Program: its lines, inputs and constants, and a Sample (the graph with its gradients)

A program of a seed is always the same. A line such as `x4 = wg.softmax(x2, axis=1)` is drawn from the tables of steps,
recorded by running it, and computed at once. One whose values are not tame, since they are not finite or since too much
of them is rounding (`noise`), is taken back. Integers and truth values are compared exactly.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import wengert as wg
from tests.compiler.random_graphs import Untame
from tests.compiler.wide_graphs import Sample
from tests.programs.modes import MODES, Mode
from tests.programs.noise import LARGEST, wide_dtype
from tests.programs.operands import OperandBuilder
from wengert.autodiff.forward import forward
from wengert.autodiff.reverse import reverse
from wengert.core.dtypes import INEXACT
from wengert.core.errors import WengertError
from wengert.core.graph import Graph, Node, now, recorded_as, recording
from wengert.ops.core import data, placeholder
from wengert.tensor import Tensor

ATTEMPTS = 6  # at a program that has gradients
FORWARD_EVERY = 3  # programs of which tangents are computed too
SECOND_EVERY = 12  # and the tangents of gradients: products with the Hessian


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
    second: bool  # and those of the gradients
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


class ProgramBuilder(OperandBuilder):
    """Grows a program line by line."""

    def __init__(self, mode: Mode, seed: int, attempt: int, portable: bool) -> None:
        super().__init__(mode, [seed, attempt, mode.number], portable)
        self.seed, self.with_tangents = seed, seed % FORWARD_EVERY == 0
        self.steps = mode.steps(portable)
        self.tensors: dict[str, Any] = {}
        self.lines: list[str] = []
        self.chosen: list[Node] = []
        self.targets: list[Node] = []
        self.cotangents: list[np.ndarray] = []
        self.sources: list[int] = []
        self.forward = self.second = False
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
        rest = (self.cotangents, self.sources, sample, nodes, self.forward, self.second, self.problem)
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
        size = sum(float(np.abs(np.asarray(a) * b.astype(wide_dtype(b.dtype))).sum()) for a, b in (*pairs, *others))
        loose = max(self.loose[node] for node in (*tangents, *gradients.values()))  # rules have constants of the dtype
        allowed = max(loose, 1e-9) * max(size, 1)
        if not abs(one - other) <= allowed:
            self.problem = f"forward mode gives {one:.9g}, reverse mode {other:.9g}; allowed is {allowed:.3g}"
        return [*tangents, *self._second(inputs, gradients, given)]

    def _second(self, inputs: list[Node], gradients: dict[int, Node], given: list[Node]) -> list[Node]:
        """The tangents of the gradients."""
        if self.seed % SECOND_EVERY:
            return []
        found = [t for t in forward(list(gradients.values()), [inputs[k] for k in gradients], given) if t is not None]
        self.second = bool(found) and self._computed(found)
        return found if self.second else []


def _dot(a: Any, b: Any) -> Any:
    return np.real(np.sum(np.conj(a) * b.astype(wide_dtype(b.dtype))))
