"""What a page computes anew while a slider moves: formulas in JavaScript, derived from the ops' C."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

import pytest

import wengert as wg
from wengert.core.dtypes import float64
from wengert.inspect.formulas import FUNCTIONS
from wengert.inspect.page import data_of
from wengert.kernels.writer import functions
from wengert.ops.op import registry

NODE = shutil.which("node")
RUN = """
const { formulas, inputs } = JSON.parse(require("fs").readFileSync(0));
const f = Object.fromEntries(Object.entries(formulas.functions).map(([name, text]) => [name, eval(text)]));
const v = { ...formulas.given, ...inputs };
const value = (text) => new Function("v", "f", `return ${text}`)(v, f);
for (const [id, text] of formulas.steps) v[id] = value(text);
const derivatives = formulas.derivatives.map(([id, i, text]) => [id, i, value(text)]);
console.log(JSON.stringify({ v, derivatives }));
"""


def computed(formulas: dict[str, Any], *values: float) -> dict[str, Any]:
    inputs = {str(number): value for (number, _), value in zip(formulas["inputs"], values)}
    given = json.dumps({"formulas": formulas, "inputs": inputs})
    done = subprocess.run([str(NODE), "-e", RUN], input=given, capture_output=True, text=True, timeout=60, check=True)
    return json.loads(done.stdout)


def recitation(x1, x2):
    return wg.log(x1) + x1 * x2 - wg.sin(x2)


def many(x, y):
    choice = wg.where(x > y, wg.gelu(x), wg.relu(y) + wg.softplus(x))
    return wg.sigmoid(choice) * wg.tanh(y) + wg.maximum(x, y) ** 2 + wg.clip(x, -1, 1) / wg.sqrt(y * y + 1) + abs(x)


@pytest.mark.skipif(NODE is None, reason="node, which computes JavaScript here, is not installed")
@pytest.mark.parametrize("function", [recitation, many])
@pytest.mark.parametrize("point", [(0.75, 1.5), (3.0, -0.25)])
def test_the_formulas_give_every_number_of_the_page_at_another_point(function, point):
    formulas = data_of(function, (2.0, 5.0))["formulas"]
    expected = data_of(function, point)
    found = computed(formulas, *point)
    for node in [*expected["forward"], *expected["backward"]]:
        number = float({"True": 1, "False": 0}.get(node["scalar"], node["scalar"]))
        assert found["v"][str(node["id"])] == pytest.approx(number, rel=2e-5, abs=1e-6), node["text"]
    nodes = {node["id"]: node for node in expected["forward"]}
    for number, i, value in found["derivatives"]:
        assert value == pytest.approx(float(nodes[number]["derivatives"][i]["scalar"]), rel=2e-5, abs=1e-6)


@pytest.mark.skipif(NODE is None, reason="node, which computes JavaScript here, is not installed")
def test_each_function_is_that_of_its_op():
    ops = [op for op in registry.values() if op.kind == "elementwise" and op.c and len(op.domain) > 0]
    calls, expected = [], {}
    for op in ops:
        names = {op.c} if isinstance(op.c, str) and op.c.isidentifier() else set()
        if names <= FUNCTIONS.keys() and names and getattr(op, "operands", 0) in (1, 2):
            assert set(functions(op, float64)) == names
            low, high = op.domain[0]
            values = [low + (high - low) * share for share in (0.3, 0.8)][: op.operands]
            calls.append(f"{op.name}: +({FUNCTIONS[op.c]})({', '.join(map(repr, values))})")
            expected[op.name] = wg.Tensor(op(*[wg.tensor(value, dtype=wg.float64).node for value in values])).item()
    script = f"console.log(JSON.stringify({{ {', '.join(calls)} }}))"
    done = subprocess.run([str(NODE), "-e", script], capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout) == pytest.approx(expected, rel=1e-12, abs=1e-14) and len(expected) > 30


@pytest.mark.parametrize(
    "function",
    [lambda x, y: wg.ones((3,)) * x + y, lambda x, y: wg.lgamma(x) + y, lambda x, y: wg.stack([x, y]).sum()],
)
def test_other_functions_have_no_formulas(function):
    assert "formulas" not in data_of(function, (2.0, 5.0))
