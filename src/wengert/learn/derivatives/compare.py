"""compare: one function, differentiated symbolically, numerically, and automatically in both modes, side by side.

In: a function of numbers and a point. Out: a Comparison, which prints itself, shows itself in a notebook, or writes a
page. Closed formulas come from SymPy where it is installed; everything else, the rule of each step too, is Wengert's.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wengert.autodiff import symbolic
from wengert.core.dtypes import float64
from wengert.core.errors import ArgumentError, GradientError, WengertError
from wengert.learn.derivatives.cost import WAYS, Cost, costs
from wengert.learn.derivatives.differences import Differences, differences
from wengert.learn.derivatives.plot import Curve, Plot
from wengert.learn.derivatives.recorded import Function, argument_names
from wengert.learn.derivatives.section import WIDTH, Section, Table, page, to_html, to_text
from wengert.learn.derivatives.steps import ElementaryStep, steps
from wengert.learn.derivatives.words import COST, FORWARD, NO_SYMPY, NUMERIC, REVERSE, SYMBOLIC, WHEN, WHY


def compare(function: Function, x: float | Sequence[float], seconds: float = 10.0) -> Comparison:
    """Differentiate a function of numbers at x (one number, or one for each argument) in every way there is.

    Print the result, look at it in a notebook, or write it as a `page`. What each way costs for up to a million
    parameters is measured where that takes less than `seconds`, and extrapolated beyond.

    >>> import wengert as wg
    >>> c = compare(lambda x1, x2: wg.log(x1) + x1 * x2 - wg.sin(x2), (2.0, 5.0), seconds=0.01)
    >>> [round(slope, 6) for slope in c.gradient], len(c.steps)
    ([5.5, 1.716338], 7)
    """
    point = np.ravel(np.asarray(x, float64)).tolist()
    if not point:
        raise ArgumentError("compare: x is empty; give a number for each argument of the function")
    if not seconds > 0:
        raise ArgumentError(f"compare: a measurement takes some seconds, not {seconds:g}")
    return Comparison(function, point, seconds)


class Comparison:
    """What `compare` found. Without a symbolic form, `formula` is None; where the function takes no arrays in place of
    numbers, `costs` is empty. `why_no_formula` and `why_no_costs` say so.
    """

    def __init__(self, function: Function, point: list[float], seconds: float) -> None:
        self.point = point
        self.names = argument_names(function, point)
        self.steps: list[ElementaryStep] = steps(function, point)
        self.value = self.steps[-1].value
        self.gradient = [step.adjoint for step in self.steps[: len(point)]]
        if not np.all(np.isfinite([self.value, *self.gradient])):
            raise ArgumentError(
                f"compare: the value {self.value} or the gradient {self.gradient} at {point} is not finite"
            )
        self.formula: symbolic.Derivative | None = None
        self.why_no_formula = ""
        try:
            self.formula = symbolic.grad(function, range(len(point)))
        except (ImportError, GradientError) as error:
            self.why_no_formula = NO_SYMPY if isinstance(error, ImportError) else str(error).splitlines()[0] + "."
        self.differences: Differences = differences(function, point, self.gradient)
        self.costs: list[Cost] = []
        self.why_no_costs = ""
        try:
            self.costs = costs(function, point, seconds)
        except WengertError as error:
            self.why_no_costs = error.message

    @property
    def title(self) -> str:
        """What was differentiated, and where."""
        formula = f" = {self.formula.expression}" if self.formula else ""
        place = ", ".join(f"{name} = {value:g}" for name, value in zip(self.names, self.point))
        return f"f({', '.join(self.names)}){formula}, at {place}"

    def sections(self) -> list[Section]:
        """The sections, in order."""
        return [
            self._side_by_side(),
            self._symbolic(),
            self._numeric(),
            self._forward(),
            self._reverse(),
            self._cost(),
            Section("Which way, when", WHEN),
        ]

    def __str__(self) -> str:
        return "\n\n".join([textwrap.fill(self.title, WIDTH), *map(to_text, self.sections())])

    def __repr__(self) -> str:
        return f"<comparison of derivatives of {self.title}: {', '.join(f'{slope:g}' for slope in self.gradient)}>"

    def _repr_html_(self) -> str:
        return "".join(map(to_html, self.sections()))

    def page(self, path: str | Path) -> Path:
        """Write everything as one HTML file that needs no network; its path."""
        path = Path(path)
        path.write_text(page(self.title, self.sections()), encoding="utf-8")
        return path

    # --- the sections -------------------------------------------------------------------------------------------

    def _side_by_side(self) -> Section:
        found: dict[str, Any] = {}
        if self.formula is not None:
            found["symbolic"] = [float(slope) for slope in self.formula(*self.point)]
        for method, estimates in self.differences.estimates.items():
            found[f"numeric, {method} differences"] = estimates
        found["automatic, forward mode"] = self.steps[-1].tangents
        found["automatic, reverse mode"] = self.gradient
        rows = [[way, *[f"{slope:.12f}" for slope in slopes]] for way, slopes in found.items()]
        words = "The same derivatives, found in different ways. The numeric ones are the best that any step gives."
        return Section("Side by side", words, [Table(["", *[f"df/d{name}" for name in self.names]], rows)])

    def _symbolic(self) -> Section:
        title = "Symbolic: a formula for a formula"
        if self.formula is None:
            return Section(title, f"There is no closed formula here: {self.why_no_formula}")
        rows = [[f"df/d{name}", f"= {each}"] for name, each in zip(self.names, self.formula.derivative)]
        return Section(title, SYMBOLIC, [Table(["", ""], [["f", f"= {self.formula.expression}"], *rows])])

    def _numeric(self) -> Section:
        d = self.differences
        curves = []
        for mark, (method, errors) in zip("fc", d.errors.items()):
            points = [(h, max(e, 1e-16)) for h, e in zip(d.steps, errors) if e < float("inf")]
            if points:
                curves.append(
                    Curve(f"{method} difference", mark, points, {[h for h, _ in points].index(d.best(method))})
                )
        plot = Plot(curves, "step h", "relative error", "the best step")
        best = ", ".join(f"h = {d.best(m):.0e} for {m} differences (error {min(e):.0e})" for m, e in d.errors.items())
        return Section("Numeric: two values and a step", NUMERIC, [plot], f"The best steps are {best}.")

    def _forward(self) -> Section:
        first, inputs = self.names[0], len(self.point)
        rows = []
        for i, step in enumerate(self.steps):
            rule = step.tangent_rule if i >= inputs else "1" if i == 0 else "0"
            rows.append(_row(step, step.tangents[0], f"t{i + 1}", rule))
        words = FORWARD.format(first=first)
        return Section("Automatic, forward mode: tangents go along", words, [Table(_columns("tangent"), rows)])

    def _reverse(self) -> Section:
        rows = []
        for i, step in reversed(list(enumerate(self.steps))):
            rule = step.adjoint_rule if i + 1 < len(self.steps) else "1"
            rows.append(_row(step, step.adjoint, f"a{i + 1}", rule))
        return Section("Automatic, reverse mode: adjoints come back", REVERSE, [Table(_columns("adjoint"), rows)])

    def _cost(self) -> Section:
        title = "What each way costs"
        if not self.costs:
            return Section(title, f"This could not be measured: {self.why_no_costs}.")
        ways = [way for way in WAYS if any(cost.way == way for cost in self.costs)]
        by_way = {way: [cost for cost in self.costs if cost.way == way] for way in ways}
        times, operations = [], []
        for row in zip(*by_way.values()):
            size = f"{row[-1].parameters:,}"
            times.append([size, *[("" if c.measured else "~") + _duration(c.seconds) for c in row]])
            operations.append([size, *[("" if c.operations_counted else "~") + f"{c.operations:.1e}" for c in row]])
        curves = [
            Curve(
                way, way[0], [(c.parameters, c.seconds) for c in found], {i for i, c in enumerate(found) if c.measured}
            )
            for way, found in by_way.items()
        ]
        plot = Plot(curves, "parameters", "seconds for one gradient", "measured; the others are extrapolated", True)
        shown: list[Table | Plot] = [Table(["operations", *ways], operations), Table(["time", *ways], times), plot]
        return Section(title, COST, shown, WHY)


def _columns(what: str) -> list[str]:
    return ["step", "value", what, "rule"]


def _row(step: ElementaryStep, derivative: float, name: str, rule: str) -> list[str]:
    rule = f"{name} = {rule}" if rule else ""
    return [f"{step.name} = {step.formula}", f"{step.value:.6f}", f"{derivative:.6f}", rule]


def _duration(seconds: float) -> str:
    units = [("years", 365.25 * 86400.0), ("days", 86400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3)]
    for unit, size in units:
        if seconds >= size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds / 1e-6:.0f} us"
