"""Kvaerno's method of order 5(4), whose stages are diagonally implicit (ESDIRK).

All stages have the same diagonal coefficient, the first is explicit, and the last is the end of the step. The method
and the embedded one are stiffly accurate; the method is L-stable.

Kvaerno, "Singly diagonally implicit Runge-Kutta methods with an explicit first stage", 2004.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class DiagonalTableau(NamedTuple):
    """The coefficients below the diagonal, the one on it, the nodes, and the weights of the error estimate.

    The last row and the diagonal are the weights, those of the row before the embedded method's.
    """

    name: str
    order: int
    gamma: float
    a: Sequence[Sequence[float]]
    c: Sequence[float]

    @property
    def b(self) -> list[float]:
        """The weights of the stages."""
        return [*self.a[-1], self.gamma]

    @property
    def error(self) -> list[float]:
        """The weights less those of the embedded method."""
        lower = [*self.a[-2], self.gamma, 0.0]
        return [x - y for x, y in zip(self.b, lower)]


KVAERNO5 = DiagonalTableau(
    "kvaerno5",
    5,
    0.26,
    [
        [],
        [0.26],
        [0.13, 0.84033320996790809],
        [0.22371961478320505, 0.47675532319799699, -0.06470895363112615],
        [0.16648564323248321, 0.10450018841591720, 0.03631482272098715, -0.13090704451073998],
        [0.13855640231268224, 0.0, -0.04245337201752043, 0.02446657898003141, 0.61943039072480676],
        [
            0.13659751177640291,
            0.0,
            -0.05496908796538376,
            -0.04118626728321046,
            0.62993304899016403,
            0.06962479448202728,
        ],
    ],
    [0.0, 0.52, 1.230333209967908, 0.8957659843500759, 0.43639360985864756, 1.0, 1.0],
)
