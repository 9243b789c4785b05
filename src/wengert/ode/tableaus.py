"""Butcher tableaus of explicit Runge-Kutta methods, and what gives values within a step.

A tableau has the matrix `a`, the nodes `c`, the weights `b` and the weights of the error estimate (b less those of the
embedded method). `within` has the weights of the stages at a point of the step, as polynomials: row i belongs to
theta^(i + 1). A method without such weights is interpolated by Hermite's polynomial through `inner` points of the step.

Hairer, Norsett and Wanner, "Solving Ordinary Differential Equations I", 1993. Tsitouras, "Runge-Kutta pairs of order
5(4) satisfying only the first column simplifying assumption", 2011. Prince and Dormand, "High order embedded
Runge-Kutta formulae", 1981.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

Array = Any


class Tableau(NamedTuple):
    """An explicit Runge-Kutta method; `error_order` is the power of the step size that its error estimate goes with."""

    name: str
    order: int
    a: Sequence[Sequence[float]]
    b: Sequence[float]
    c: Sequence[float]
    error: Sequence[float] | None
    error_order: int
    within: Array | None = None
    inner: int = 0

    @property
    def first_same_as_last(self) -> bool:
        """Whether the last stage is the slope at the end of the step, which is the first stage of the next one."""
        return self.error is not None and len(self.a) > 1 and [*self.a[-1], 0.0] == [*self.b]


def _product(scale: float, *factors: Sequence[float]) -> Array:
    """The coefficients of theta, theta^2, theta^3, theta^4 of a product of polynomials, constants first."""
    total = np.array([scale])
    for factor in factors:
        total = np.convolve(total, factor)
    return np.pad(total, (0, 5 - len(total)))[1:5]


def _tsit5() -> Tableau:
    a = [
        [],
        [0.161],
        [-0.008480655492356989, 0.335480655492357],
        [2.8971530571054935, -6.359448489975075, 4.3622954328695815],
        [5.325864828439257, -11.748883564062828, 7.4955393428898365, -0.09249506636175525],
        [5.86145544294642, -12.92096931784711, 8.159367898576159, -0.071584973281401, -0.028269050394068383],
        [0.09646076681806523, 0.01, 0.4798896504144996, 1.379008574103742, -3.290069515436081, 2.324710524099774],
    ]
    error = [
        -0.00178001105222577714,
        -0.0008164344596567469,
        0.007880878010261995,
        -0.1447110071732629,
        0.5823571654525552,
        -0.45808210592918697,
        0.015151515151515152,
    ]
    line, square = [0.0, 1.0], [0.0, 0.0, 1.0]
    within = [
        _product(-1.0530884977290216, line, [-1.3299890189751412, 1.0], [0.7139816917074209, -1.4364028541716351, 1.0]),
        _product(0.1017, square, [1.2949852507374631, -2.1966568338249754, 1.0]),
        _product(2.490627285651252793, square, [1.57803468208092486, -2.38535645472061657, 1.0]),
        _product(-16.54810288924490272, square, [-1.21712927295533244, 1.0], [-0.61620406037800089, 1.0]),
        _product(47.37952196281928122, square, [-1.203071208372362603, 1.0], [-0.658047292653547382, 1.0]),
        _product(-34.87065786149660974, square, [-1.2, 1.0], [-2 / 3, 1.0]),
        _product(2.5, square, [-1.0, 1.0], [-0.6, 1.0]),
    ]
    c = [0.0, 0.161, 0.327, 0.9, 0.9800255409045097, 1.0, 1.0]
    return Tableau("tsit5", 5, a, [*a[-1], 0.0], c, error, 5, np.stack(within, axis=1))


def _dopri5() -> Tableau:
    a = [
        [],
        [1 / 5],
        [3 / 40, 9 / 40],
        [44 / 45, -56 / 15, 32 / 9],
        [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729],
        [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656],
        [35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84],
    ]
    b = [*a[-1], 0.0]
    lower = [5179 / 57600, 0.0, 7571 / 16695, 393 / 640, -92097 / 339200, 187 / 2100, 1 / 40]
    bend = np.array(
        [
            -12715105075 / 11282082432,
            0.0,
            87487479700 / 32700410799,
            -10690763975 / 1880347072,
            701980252875 / 199316789632,
            -1453857185 / 822651844,
            69997945 / 29380423,
        ]
    )
    whole, first, last = np.array(b), np.eye(7)[0], np.eye(7)[6]
    # theta b + theta (1 - theta) (first - b) + theta^2 (1 - theta) (2 b - last - first) + theta^2 (1 - theta)^2 bend
    within = np.outer(_product(1.0, [0, 1]), whole)
    within += np.outer(_product(1.0, [0, 1], [1, -1]), first - whole)
    within += np.outer(_product(1.0, [0, 0, 1], [1, -1]), 2 * whole - last - first)
    within += np.outer(_product(1.0, [0, 0, 1], [1, -1], [1, -1]), bend)
    c = [0.0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0]
    return Tableau("dopri5", 5, a, b, c, [x - y for x, y in zip(b, lower)], 5, within)


def _dopri8() -> Tableau:
    a: list[list[float]] = [
        [],
        [1 / 18],
        [1 / 48, 1 / 16],
        [1 / 32, 0, 3 / 32],
        [5 / 16, 0, -75 / 64, 75 / 64],
        [3 / 80, 0, 0, 3 / 16, 3 / 20],
        [29443841 / 614563906, 0, 0, 77736538 / 692538347, -28693883 / 1125000000, 23124283 / 1800000000],
        [
            *(16016141 / 946692911, 0, 0, 61564180 / 158732637, 22789713 / 633445777),
            *(545815736 / 2771057229, -180193667 / 1043307555),
        ],
        [
            *(39632708 / 573591083, 0, 0, -433636366 / 683701615, -421739975 / 2616292301),
            *(100302831 / 723423059, 790204164 / 839813087, 800635310 / 3783071287),
        ],
        [
            *(246121993 / 1340847787, 0, 0, -37695042795 / 15268766246, -309121744 / 1061227803),
            *(-12992083 / 490766935, 6005943493 / 2108947869, 393006217 / 1396673457, 123872331 / 1001029789),
        ],
        [
            *(-1028468189 / 846180014, 0, 0, 8478235783 / 508512852, 1311729495 / 1432422823),
            *(-10304129995 / 1701304382, -48777925059 / 3047939560, 15336726248 / 1032824649),
            *(-45442868181 / 3398467696, 3065993473 / 597172653),
        ],
        [
            *(185892177 / 718116043, 0, 0, -3185094517 / 667107341, -477755414 / 1098053517),
            *(-703635378 / 230739211, 5731566787 / 1027545527, 5232866602 / 850066563),
            *(-4093664535 / 808688257, 3962137247 / 1805957418, 65686358 / 487910083),
        ],
        [
            *(403863854 / 491063109, 0, 0, -5068492393 / 434740067, -411421997 / 543043805),
            *(652783627 / 914296604, 11173962825 / 925320556, -13158990841 / 6184727034),
            *(3936647629 / 1978049680, -160528059 / 685178525, 248638103 / 1413531060, 0),
        ],
    ]
    b = [
        *(14005451 / 335480064, 0, 0, 0, 0, -59238493 / 1068277825, 181606767 / 758867731, 561292985 / 797845732),
        *(-1041891430 / 1371343529, 760417239 / 1151165299, 118820643 / 751138087, -528747749 / 2220607170, 1 / 4),
    ]
    lower = [
        *(13451932 / 455176623, 0, 0, 0, 0, -808719846 / 976000145, 1757004468 / 5645159321),
        *(656045339 / 265891186, -3867574721 / 1518517206, 465885868 / 322736535, 53011238 / 667516719, 2 / 45, 0),
    ]
    c = [
        *(0, 1 / 18, 1 / 12, 1 / 8, 5 / 16, 3 / 8, 59 / 400, 93 / 200, 5490023248 / 9719169821, 13 / 20),
        *(1201146811 / 1299019798, 1, 1),
    ]
    return Tableau("dopri8", 8, a, b, c, [x - y for x, y in zip(b, lower)], 8, None, 2)


TSIT5, DOPRI5, DOPRI8 = _tsit5(), _dopri5(), _dopri8()
RK4 = Tableau(
    "rk4", 4, [[], [0.5], [0.0, 0.5], [0.0, 0.0, 1.0]], [1 / 6, 1 / 3, 1 / 3, 1 / 6], [0.0, 0.5, 0.5, 1.0], None, 4
)
