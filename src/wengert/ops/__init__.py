"""The primitives, a family a file, and the compositions over them: functions from nodes to nodes.

Everything here takes and returns Nodes (arrays and numbers beside them are taken as well); `wengert.api.functions`
lifts it to Tensors. The registry lists the primitives; the families are in the order of their imports.
"""

from collections.abc import Callable

from wengert.core.graph import Node
from wengert.ops import elementwise
from wengert.ops.linalg import matmul
from wengert.ops.op import Op, registry
from wengert.ops.recorders import as_operator, as_reflected_operator

__all__ = ["Op", "registry"]

# Rules are written with operators on nodes; the ops behind them are defined after the class.
_OPERATORS: dict[str, Callable[..., Node]] = {
    "neg": elementwise.negative,
    "pow": elementwise.pow,
    "matmul": matmul,
    "lt": elementwise.less,
    "le": elementwise.less_equal,
    "gt": elementwise.greater,
    "ge": elementwise.greater_equal,
}
for _name, _op in _OPERATORS.items():
    setattr(Node, f"__{_name}__", as_operator(_op))
_REFLECTED = {
    "add": elementwise.add,
    "sub": elementwise.subtract,
    "mul": elementwise.multiply,
    "truediv": elementwise.divide,
}
for _name, _op in _REFLECTED.items():
    setattr(Node, f"__{_name}__", as_operator(_op))
    setattr(Node, f"__r{_name}__", as_reflected_operator(_op))
