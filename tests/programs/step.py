"""A step: what draws the text of a line."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from tests.programs.operands import Operand, OperandBuilder


class Step(NamedTuple):
    """Draws a line's text for a builder; so often among the others, and with names that PyTorch has."""

    text: Callable[[Any], str]
    weight: int = 1
    portable: bool = True


def templates(
    operand: Callable[[OperandBuilder], Operand], *texts: str, weight: int = 1, portable: bool = True
) -> Step:
    """Lines over one operand {x}; {n} is a number, {a} an axis, {A} an axis or several or None, {k} True or False."""

    def text(b: OperandBuilder) -> str:
        x, chosen = operand(b), b.choice(texts)
        axis = b.axis(x) if "{a}" in chosen else None
        axes = b.axes_of(x) if "{A}" in chosen else None
        return chosen.format(x=x, n=b.number(), a=axis, A=axes, k=b.chance(0.5))

    return Step(text, weight, portable)


def pairs(operand: Callable[[OperandBuilder], Operand], *texts: str, weight: int = 1, portable: bool = True) -> Step:
    """Lines over an operand {x} and one that broadcasts against it, {y}, in either order."""

    def text(b: OperandBuilder) -> str:
        x: Any = operand(b)
        y: Any = b.beside_it(x)
        chosen = b.choice(texts)
        if b.chance(0.3) and not (isinstance(y, str) and "wg." in chosen):  # functions take a tensor first
            x, y = y, x
        return chosen.format(x=x, y=y)

    return Step(text, weight, portable)
