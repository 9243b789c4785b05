"""The primitives, a family a file, and the compositions over them: functions from nodes to nodes.

Everything here takes and returns Nodes (arrays and numbers beside them are taken as well); `wengert.api.functions`
lifts it to Tensors. The registry lists the primitives; the families are in the order of their imports.
"""

from wengert.core.graph import Node
from wengert.ops import elementwise
from wengert.ops.linalg import matmul
from wengert.ops.op import Op, registry
from wengert.ops.recorders import Binary

__all__ = ["Op", "registry"]


def _give_nodes_their_operators() -> None:
    """Rules are written with operators on nodes; the ops behind them are defined after the class."""

    def reflected(op: Binary) -> object:
        return lambda self, other: op(other, self)

    for name, op in {
        "add": elementwise.add,
        "sub": elementwise.subtract,
        "mul": elementwise.multiply,
        "truediv": elementwise.divide,
    }.items():
        setattr(Node, f"__{name}__", lambda self, other, op=op: op(self, other))
        setattr(Node, f"__r{name}__", reflected(op))
    for name, op in {
        "lt": elementwise.less,
        "le": elementwise.less_equal,
        "gt": elementwise.greater,
        "ge": elementwise.greater_equal,
    }.items():
        setattr(Node, f"__{name}__", lambda self, other, op=op: op(self, other))
    Node.__neg__ = lambda self: elementwise.negative(self)  # type: ignore[method-assign]
    Node.__pow__ = lambda self, other: elementwise.pow(self, other)  # type: ignore[method-assign]
    Node.__matmul__ = lambda self, other: matmul(self, other)  # type: ignore[method-assign]


_give_nodes_their_operators()
