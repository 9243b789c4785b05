"""The hidden cases of `mytorch`: inputs drawn from a seed, and the right answers by Wengert's own ops."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import wengert as wg
from wengert.learn.exercises.exercise import REFUSED, Case, Cases
from wengert.learn.exercises.reference import drawn, gradients, positive, value_and_gradients

Array = Any
Draw = Callable[..., Array]

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add_backward": wg.add,
    "sub_backward": wg.subtract,
    "mul_backward": wg.multiply,
    "div_backward": wg.divide,
    "matmul_backward": wg.matmul,
    "outer_backward": lambda a, b: a.reshape(-1, 1) * b.reshape(1, -1),
    "log_backward": wg.log,
    "exp_backward": wg.exp,
    "max_backward": wg.relu,
    "sum_backward": wg.sum,
    "sigmoid_backward": wg.sigmoid,
    "tanh_backward": wg.tanh,
}
SAME = [((3, 4), (3, 4)), ((5,), (5,)), ((), ())]
BROADCAST = [((3, 4), (1, 4)), ((3, 1), (4,)), ((2, 1, 3), (4, 1)), ((), (2, 3))]
PRODUCTS = [
    *[((3, 4), (4, 2)), ((4,), (4, 2)), ((3, 4), (4,)), ((4,), (4,))],
    *[((2, 3, 4), (2, 4, 5)), ((2, 1, 3, 4), (5, 4, 2)), ((2, 3, 4), (4, 2)), ((4,), (2, 4, 3))],
]


def rule_case(name: str, seed: Array, *inputs: Array, note: str = "") -> Case:
    """A backward operation, called once."""
    expected = gradients(FUNCTIONS[name], inputs, seed)
    return Case((name, seed, *inputs), expected[0] if len(inputs) == 1 else expected, note)


def two_inputs(name: str, shapes: list[Any], draw: Draw = drawn, second: Draw | None = None) -> Cases:
    """An operation of two arrays, for pairs of shapes."""

    def cases(rng: np.random.Generator) -> Iterator[Case]:
        for a, b in shapes:
            left, right = draw(rng, *a), (second or draw)(rng, *b)
            shape = np.shape(FUNCTIONS[name](wg.tensor(left), wg.tensor(right)).numpy())
            yield rule_case(name, drawn(rng, *shape), left, right, note=f"inputs of shapes {a} and {b}")

    return cases


def one_input(name: str, draw: Draw = drawn, extremes: tuple[float, ...] = ()) -> Cases:
    """An operation of one array: numbers, zeros in the incoming gradient, a single number, and extremes."""

    def cases(rng: np.random.Generator) -> Iterator[Case]:
        yield rule_case(name, drawn(rng, 3, 4), draw(rng, 3, 4))
        yield rule_case(name, drawn(rng, 2, 3, zeros=True), draw(rng, 2, 3), note="an incoming gradient with zeros")
        yield rule_case(name, drawn(rng), draw(rng), note="a single number")
        if extremes:
            yield rule_case(name, drawn(rng, len(extremes)), np.array(extremes), note=f"inputs {extremes}")

    return cases


def with_zeros(rng: np.random.Generator, *shape: int) -> Array:
    """Numbers of both signs, and zeros."""
    return drawn(rng, *shape, zeros=True)


def sums(rng: np.random.Generator) -> Iterator[Case]:
    """The sum of everything, and sums along an axis that is kept."""
    yield rule_case("sum_backward", drawn(rng), drawn(rng, 3, 4))
    seed, a = drawn(rng, 3, 1), drawn(rng, 3, 4)
    yield Case(("sum_backward", seed, a), seed * np.ones((3, 4)), "a sum along the last axis, kept with length 1")


def broadcasting(rng: np.random.Generator) -> Iterator[Case]:
    """Sums over the copies of an input that was broadcast, in each operation of two arrays."""
    for name in ("add_backward", "sub_backward", "mul_backward", "div_backward"):
        yield from two_inputs(name, BROADCAST, drawn, positive)(rng)


def untouched(rng: np.random.Generator) -> Iterator[Case]:
    """A backward operation may not write into the arrays that it is given."""
    for name, count in (("mul_backward", 2), ("div_backward", 2), ("exp_backward", 1), ("max_backward", 1)):
        seed, inputs = drawn(rng, 2, 3), tuple(positive(rng, 2, 3) for _ in range(count))
        right = rule_case(name, seed, *inputs).expected
        yield Case(
            (name, seed, *inputs), (right, seed, inputs), "the gradients, and the arrays that it was called with"
        )


# --- the tape -------------------------------------------------------------------------------------------------------

Program = list[tuple[str, tuple[int, ...]]]


def random_program(rng: np.random.Generator, inputs: int, lines: int) -> Program:
    """Lines that each use earlier values, some of them twice; the first uses every input."""
    program: Program = [("weighted", (0, inputs - 1))]
    for _ in range(lines - 1):
        count = inputs + len(program)
        if rng.uniform() < 0.3:
            program.append(("cube", (int(rng.integers(count)),)))
        else:
            program.append(("weighted", (count - 1, int(rng.integers(count)))))
    return program


def computed(program: Program, inputs: Any) -> Any:
    """The last value of a program, by Wengert."""
    values = list(inputs)
    for name, numbers in program:
        a = [values[k] for k in numbers]
        values.append(2 * a[0] + 3 * a[1] if name == "weighted" else a[0] ** 3)
    return values[-1]


def program_gradients(program: Program, inputs: Any, seed: Any) -> tuple[Array, ...]:
    """The gradients of the last value with respect to the inputs; zeros for those it does not depend on."""
    return gradients(lambda *x: computed(program, x) + 0 * sum(x), inputs, seed)


def some(rng: np.random.Generator, count: int) -> tuple[Array, ...]:
    return tuple(rng.uniform(-0.9, 0.9, (2, 3)) for _ in range(count))


def tapes(rng: np.random.Generator) -> Iterator[Case]:
    """What is on the tape after a random program."""
    for lines in rng.integers(2, 7, 3):
        program = random_program(rng, 2, int(lines))
        used = {k for _, numbers in program for k in numbers}
        names = [f"{name}_backward" for name, _ in program]
        note = f"a program of {lines} operations: their names, and the number of spots"
        yield Case((some(rng, 2), program), (tuple(names), len(used)), note)


def lengths(rng: np.random.Generator) -> Iterator[Case]:
    """Two inputs with two gradients_to_update are right; with fewer or more they are refused."""
    for count in (2, 1, 3):
        note = f"two inputs with {count} gradients_to_update"
        yield Case((some(rng, 2), count), None if count == 2 else REFUSED, note)


def walks(rng: np.random.Generator) -> Iterator[Case]:
    """A chain, arrays used several times, and random programs, each gone back through once."""
    chain: Program = [("cube", (0,)), ("weighted", (2, 1)), ("cube", (3,))]
    twice: Program = [("weighted", (0, 0)), ("weighted", (2, 1)), ("weighted", (3, 0))]
    for program, note in [(chain, "a chain"), (twice, "arrays used several times")]:
        inputs, seed = some(rng, 2), drawn(rng, 2, 3)
        yield Case((inputs, program, (seed,)), program_gradients(program, inputs, seed), note)
    for lines in (3, 5, 7):
        program, inputs = random_program(rng, 2, lines), some(rng, 2)
        yield Case((inputs, program, (1,)), program_gradients(program, inputs, 1.0), f"the program {program}")


def second_walks(rng: np.random.Generator) -> Iterator[Case]:
    """backward called twice on one tape: the gradients of the inputs are added, what lies between is not."""
    for lines in (3, 5):
        program, inputs, seeds = random_program(rng, 2, lines), some(rng, 2), (drawn(rng, 2, 3), drawn(rng, 2, 3))
        parts = [program_gradients(program, inputs, seed) for seed in seeds]
        expected = tuple(a + b for a, b in zip(*parts))
        yield Case((inputs, program, seeds), expected, "backward was called twice, without zero_grad in between")


def unused(rng: np.random.Generator) -> Iterator[Case]:
    """An operation whose output nothing uses contributes nothing."""
    program: Program = [("cube", (0,)), ("weighted", (1, 1)), ("weighted", (0, 2)), ("cube", (2,))]
    inputs = some(rng, 3)
    expected = program_gradients(program, inputs, 1.0)
    yield Case((inputs, program, (1,)), expected, "the outputs of the first three operations are not used by the last")


def clears(rng: np.random.Generator) -> Iterator[Case]:
    """After zero_grad, a program starts from nothing."""
    program, inputs, seed = random_program(rng, 2, 4), some(rng, 2), drawn(rng, 2, 3)
    yield Case((inputs, program, seed), program_gradients(program, inputs, seed), "the second of two runs")


def collects(rng: np.random.Generator) -> Iterator[Case]:
    """gradients_to_update: gradients are added to what is there, also where an array is used twice."""
    program: Program = [("weighted", (0, 1)), ("cube", (2,)), ("weighted", (3, 0))]
    inputs, before = some(rng, 2), some(rng, 2)
    found = program_gradients(program, inputs, 1.0)
    expected = tuple(a + b for a, b in zip(before, found))
    yield Case((inputs, program, before), expected, "the arrays in gradients_to_update, which were not zero before")


# --- layers, activations, losses ------------------------------------------------------------------------------------


def linears(rng: np.random.Generator) -> Iterator[Case]:
    """Linear for batches of several sizes."""
    for batch, fan_in, fan_out in ((1, 3, 2), (4, 3, 2), (5, 2, 6)):
        W, b, x = drawn(rng, fan_out, fan_in), drawn(rng, fan_out, 1), drawn(rng, batch, fan_in)
        seed = drawn(rng, batch, fan_out)
        y, found = value_and_gradients(lambda W, b, x: x @ W.T + b.T, [W, b, x], seed)
        yield Case((W, b, x, seed), (y, *found), f"a batch of {batch}: the output, dW, db and the gradient of x")


def skips(rng: np.random.Generator) -> Iterator[Case]:
    """x + Linear(x): x is used twice."""
    W, b, x, seed = drawn(rng, 3, 3), drawn(rng, 3, 1), drawn(rng, 4, 3), drawn(rng, 4, 3)
    y, found = value_and_gradients(lambda W, b, x: x @ W.T + b.T + x, [W, b, x], seed)
    yield Case((W, b, x, seed), (y, *found), "the output, dW, db and the gradient of x")


def activations(name: str, function: Callable[..., Any], extremes: tuple[float, ...]) -> Cases:
    """An activation, also at 0 and far from it."""

    def cases(rng: np.random.Generator) -> Iterator[Case]:
        for x in (drawn(rng, 3, 4), with_zeros(rng, 2, 5), np.array([extremes])):
            seed = drawn(rng, *x.shape)
            y, (gradient,) = value_and_gradients(function, [x], seed)
            yield Case((name, x, seed), (y, gradient), "the output and the gradient of the input")

    return cases


def squared_errors(rng: np.random.Generator) -> Iterator[Case]:
    """MSELoss, also where the outputs are the labels."""
    for shape, is_exact in (((2, 5), False), ((4, 1), False), ((3, 2), True)):
        y = drawn(rng, *shape)
        x = y.copy() if is_exact else drawn(rng, *shape)
        value, (gradient,) = value_and_gradients(lambda x, y=y: wg.mean((x - wg.tensor(y)) ** 2), [x], 1.0)
        yield Case(("MSELoss", y, x), (value, gradient), "the loss and the gradient of the outputs")


def _cross_entropy(labels: Array) -> Callable[[Any], Any]:
    return lambda x: (-wg.sum(wg.tensor(labels) * wg.log_softmax(x, axis=-1)) / len(labels)).reshape(1)


def cross_entropies(rng: np.random.Generator) -> Iterator[Case]:
    """SoftmaxCrossEntropy, with classes, with ties among the scores, with labels that are probabilities."""
    one_hot = np.eye(4)[rng.integers(4, size=5)]
    soft = rng.dirichlet(np.ones(4), 3)
    for labels, x, note in (
        (one_hot, drawn(rng, 5, 4), "one-hot labels"),
        (one_hot[:1], drawn(rng, 1, 4), "a batch of one"),
        (one_hot[:2], np.full((2, 4), rng.uniform()), "equal scores"),
        (soft, drawn(rng, 3, 4), "labels that are probabilities"),
    ):
        value, (gradient,) = value_and_gradients(_cross_entropy(labels), [x], 1.0)
        yield Case(("SoftmaxCrossEntropy", labels, x), (value, gradient), note)


def large_scores(rng: np.random.Generator) -> Iterator[Case]:
    """Scores whose exponentials overflow."""
    labels = np.eye(3)[rng.integers(3, size=2)]
    x = drawn(rng, 2, 3) * 10.0 ** rng.integers(4, 11)
    value, (gradient,) = value_and_gradients(_cross_entropy(labels), [x], 1.0)
    yield Case(("SoftmaxCrossEntropy", labels, x), (value, gradient), "large scores")


def trainings(rng: np.random.Generator) -> Iterator[Case]:
    """Six steps of gradient descent, whose losses are known."""
    labels = np.eye(2)[np.arange(12) % 2]
    x = rng.normal(size=(12, 3)) + 2 * labels @ drawn(rng, 2, 3)
    W, b = drawn(rng, 2, 3), drawn(rng, 2, 1)
    losses, (weight, bias) = [], (W, b)
    for _ in range(6):
        loss, (dW, db) = value_and_gradients(
            lambda W, b: _cross_entropy(labels)(wg.tensor(x) @ W.T + b.T), [weight, bias], 1.0
        )
        losses.append(float(loss[0]))
        weight, bias = weight - 0.3 * dW, bias - 0.3 * db
    yield Case((W, b, x, labels, 0.3, 6), np.array(losses), "the losses of six steps of gradient descent")
