"""compare: every way finds the same derivatives, and says what it costs; the tour shows it in 80 columns."""

from __future__ import annotations

import builtins
import html.parser
import json
import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import wengert as wg
from wengert.cli import main
from wengert.core.errors import ArgumentError
from wengert.learn import compare
from wengert.learn.derivatives import cost
from wengert.learn.derivatives.tour import example

SLOPES = [5.5, 2 - math.cos(5)]


@pytest.fixture(scope="module")
def comparison():
    return compare(example, (2.0, 5.0), seconds=0.2)


def test_the_textbook_s_table(comparison):
    steps = comparison.steps
    assert [f"{step.name} = {step.formula}" for step in steps] == [
        *("v1 = x1", "v2 = x2", "v3 = log(v1)", "v4 = v1 * v2", "v5 = v3 + v4", "v6 = sin(v2)", "v7 = v5 - v6")
    ]
    assert steps[-1].value == comparison.value == pytest.approx(math.log(2) + 10 - math.sin(5))
    assert steps[-1].tangents == pytest.approx(SLOPES, rel=1e-14)
    assert comparison.gradient == pytest.approx(SLOPES, rel=1e-14)
    assert [step.tangents[0] for step in steps] == [1, 0, 0.5, 5, 5.5, 0, 5.5]
    assert [step.adjoint for step in steps[2:]] == [1, 1, 1, -1, 1]
    assert [step.tangent_rule for step in steps[2:]] == [
        *("t1 / v1", "t1 * v2 + t2 * v1", "t3 + t4", "t2 * cos(v2)", "t5 - t6")
    ]
    assert [step.adjoint_rule for step in steps[:6]] == [
        *("a3 / v1 + a4 * v2", "a4 * v1 + a6 * cos(v2)", "a5", "a5", "a7", "-a7")
    ]


def test_errors_of_differences_have_the_shape_of_a_v(comparison):
    d = comparison.differences
    assert 1e-9 < d.best("forward") < 1e-6 and 1e-6 < d.best("central") < 1e-3
    assert min(d.errors["forward"]) < 1e-7 and min(d.errors["central"]) < 1e-9
    for errors in d.errors.values():
        assert errors[0] > 1e3 * min(errors) and errors[-1] > 1e3 * min(errors)
    assert d.estimates["central"] == pytest.approx(SLOPES, rel=1e-9)


def test_costs_grow_as_they_should(comparison):
    by_way = {way: [c for c in comparison.costs if c.way == way] for way in cost.WAYS}
    assert all([c.parameters for c in found] == list(cost.COUNTS) for found in by_way.values())
    for way, power in {"symbolic": 2, "numeric": 2, "forward": 2, "reverse": 1}.items():
        operations = [c.operations for c in by_way[way]]
        assert operations[-1] / operations[1] == pytest.approx(1e4**power, rel=0.2), way
    last = {way: found[-1] for way, found in by_way.items()}
    assert last["reverse"].measured and not last["numeric"].measured and not last["symbolic"].operations_counted
    assert last["reverse"].seconds < min(last[way].seconds for way in ("symbolic", "numeric", "forward")) / 1000
    assert by_way["numeric"][0].measured and by_way["symbolic"][0].measured
    function = sum(1 for step in comparison.steps if step.tangent_rule)  # operations of f itself, for 2 parameters
    assert last["reverse"].operations < 5 * function * 1_000_000 / 2


def test_the_gradients_that_are_timed_are_right():
    loss = cost._LossCost(example, (2.0, 5.0), 6)
    x1, x2 = loss.point
    scale = 2 * loss_mean(x1, x2) / 3
    expected = [scale * (1 / x1 + x2), scale * (x1 - np.cos(x2))]
    np.testing.assert_allclose(loss.reverse(*loss.point), expected, rtol=1e-12)
    still = [np.zeros(3), np.zeros(3)]
    (pushed,) = loss.forward(*loss.point, *cost._moved(still, 4, 1.0))
    assert float(pushed) == pytest.approx(expected[1][1])


def loss_mean(x1, x2):
    return np.mean(np.log(x1) + x1 * x2 - np.sin(x2))


def test_it_prints_within_80_columns(comparison):
    text = str(comparison)
    assert max(map(len, text.splitlines())) <= 80 and text.isascii()
    assert "df/dx1   = x2 + 1/x1" in text and "~" in text and "years" in text
    assert "v3 = log(v1)    0.693147   0.500000   t3 = t1 / v1" in text
    assert re.search(r"\|.*F", text) and re.search(r"\|.*C", text)  # the best steps are capitals in the plot
    assert repr(comparison).startswith("<comparison of derivatives of f(x1, x2) = x1*x2 + log(x1) - sin(x2), at x1 = 2")


class Balanced(html.parser.HTMLParser):
    """Complains about tags that are not closed."""

    def __init__(self):
        super().__init__()
        self.open = []
        self.seen = set()

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        assert not any(name in ("src", "href") for name, _ in attrs)
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_needs_nothing_else(comparison, tmp_path):
    text = comparison.page(tmp_path / "compare.html").read_text()
    parser = Balanced()
    parser.feed(text)
    assert parser.open == [] and {"svg", "table", "circle", "line"} <= parser.seen
    assert text.count("<svg") == 2 and "stroke-dasharray" in text and "://" not in text
    assert comparison._repr_html_() in text.replace("\n<h2>", "<h2>")


def test_one_argument_and_its_uses():
    found = compare(lambda x: x * x * 3.0 - 1 / x, 2.0, seconds=0.001)
    assert found.gradient == [12.25] and found.names == ["x"]
    assert found.steps[2].formula == "v2 * 3" and found.steps[1].tangent_rule == "2 * t1 * v1"
    assert compare(lambda x: x, np.array([2.0]), seconds=0.001).gradient == [1.0]


def test_conditions_are_steps_without_derivatives():
    found = compare(lambda x: wg.where(x > 1, x * x, 3 * x), 2.0, seconds=0.001)
    assert [step.formula for step in found.steps[1:]] == ["greater(v1, 1)", "v1 * v1", "3 * v1", "where(v2, v3, v4)"]
    assert found.steps[1].tangents == [0.0] and found.steps[1].tangent_rule == "" and found.gradient == [4.0]
    assert float(found.formula(2.0)[0]) == 4.0 and float(found.formula(0.5)[0]) == 3.0


def test_without_a_formula_the_rest_is_there():
    found = compare(lambda x: wg.round(x) * x, 2.3, seconds=0.001)
    assert found.formula is None and "round has no symbolic form" in str(found)
    assert found.gradient == [2.0] and found.steps[1].tangent_rule == ""
    assert {c.way for c in found.costs} == {"numeric", "forward", "reverse"}


@pytest.fixture
def without_sympy(monkeypatch):
    original = builtins.__import__

    def imported(name, *args, **kwargs):
        if name == "sympy":
            raise ImportError(name)
        return original(name, *args, **kwargs)

    monkeypatch.delitem(sys.modules, "sympy", raising=False)
    monkeypatch.setattr(builtins, "__import__", imported)


def test_without_sympy_only_the_closed_formulas_are_missing(without_sympy):
    found = compare(example, (2.0, 5.0), seconds=0.001)
    text = " ".join(str(found).split())
    assert text.count("SymPy, which is not installed") == 1 and "python -m pip install sympy" in text
    assert "a2 = a4 * v1 + a6 * cos(v2)" in text and "t3 = t1 / v1" in text
    assert found.gradient == pytest.approx(SLOPES) and {c.way for c in found.costs} == {"numeric", "forward", "reverse"}


def test_the_rules_do_not_depend_on_sympy(comparison, without_sympy):
    rules = [(step.tangent_rule, step.adjoint_rule) for step in compare(example, (2.0, 5.0), seconds=0.001).steps]
    assert rules == [(step.tangent_rule, step.adjoint_rule) for step in comparison.steps]


RULED = [
    lambda x, y: x**3 + x**y - 2**y + wg.sqrt(x) / y,
    lambda x, y: wg.where(x > 1, x * x, 3 * x) * wg.tanh(y) - wg.sigmoid(x * y),
    lambda x, y: wg.maximum(x, y) + wg.relu(x - y) * wg.exp(-x) - wg.abs(y),
    lambda x, y: wg.square(x) + wg.cos(y) + wg.atan(x / y) - wg.log1p(x) * wg.expm1(y),
    lambda x, y: wg.gelu(x) + wg.sinh(y) * wg.cosh(x) + wg.reciprocal(y) - wg.softplus(x),
]


@pytest.mark.parametrize("function", RULED)
def test_every_rule_gives_the_number_beside_it(function):
    steps = compare(function, (1.3, 0.7), seconds=0.001).steps
    known = {name: getattr(wg, name) for name in dir(wg) if callable(getattr(wg, name))}
    known["erfc"] = lambda v: math.erfc(v.item())
    for i, step in enumerate(steps, 1):
        condition = step.formula.startswith(("greater", "less"))
        known[f"v{i}"] = wg.tensor(step.value != 0) if condition else wg.tensor(step.value, wg.float64)
        known |= {f"a{i}": step.adjoint, f"t{i}": step.tangents[0]}
    checked = 0
    for step in steps:
        for rule, expected in ((step.tangent_rule, step.tangents[0]), (step.adjoint_rule, step.adjoint)):
            if rule:
                found = float(eval(rule.replace("^", "**"), {}, known))
                assert found == pytest.approx(expected, rel=1e-4, abs=1e-5), f"{step.name}: {rule}"
                checked += 1
    assert checked >= 2 * len(steps) - 8


def test_a_function_that_takes_no_arrays_has_no_costs():
    found = compare(lambda x: wg.sum(x) ** 3, 2.0, seconds=0.001)
    assert found.gradient == [12.0] and found.costs == []
    assert "This could not be measured" in str(found)


@pytest.mark.parametrize(
    ("function", "x", "message"),
    [
        (lambda x: x, [], "x is empty"),
        (lambda x: wg.tensor(3.0, wg.float64), 1.0, "does not depend on x"),
        (lambda x: 3.0, 1.0, "must give one number"),
        (lambda x: wg.log(x), 0.0, "is not finite"),
        (lambda x: wg.sum(wg.broadcast_to(x, (3,))), 1.0, r"gives shape \(3,\); only numbers"),
    ],
)
def test_mistakes_are_named(function, x, message):
    with pytest.raises(ArgumentError, match=message), np.errstate(all="ignore"):
        compare(function, x, seconds=0.001)


def test_the_command(capsys, tmp_path):
    assert main(["learn", "--seconds", "0.001", "--page", str(tmp_path / "tour.html")]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.replace(str(tmp_path), "").splitlines())) <= 80
    assert "Which way, when" in text and (tmp_path / "tour.html").exists()
    assert main([]) == 0
    assert "learn" in capsys.readouterr().out


def test_the_notebook_shows_every_rule_without_sympy(without_sympy, capsys, monkeypatch):
    monkeypatch.setattr(wg.config, "tier", "auto")  # it prints a compiled function's graph
    path = Path(__file__).parents[2] / "examples" / "notebooks" / "2-how-reverse-mode-works.ipynb"
    cells = ["".join(c["source"]) for c in json.loads(path.read_text())["cells"] if c["cell_type"] == "code"]
    scope: dict[str, object] = {}
    for i, cell in enumerate(cells):
        exec(compile(cell, f"cell {i + 1}", "exec"), scope)
    text = capsys.readouterr().out
    assert re.search(r"t4 = t1 \* v2 \+ t2 \* v1 +5\.0", text) and "t2 = 0 " in text
    assert re.search(r"a2 = a4 \* v1 \+ a6 \* cos\(v2\) +1\.716338", text) and re.search(r"a7 = 1 +1\.0", text)
    assert text.count("v7 = v5 - v6") >= 3 and "sin_backward" in text
