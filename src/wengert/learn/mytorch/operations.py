"""Functions that compute with NumPy and write themselves on the tape, for expressions that are no network.

In: arrays, and the engine whose tape records. Out: new arrays, so that each has its own spot in the gradient buffer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .autograd_engine import Autograd
from .nn import functional as F


class Operations:
    """The operations of an engine.

    >>> import numpy as np
    >>> from wengert.learn.mytorch import Autograd, Operations
    >>> engine = Autograd()
    >>> op = Operations(engine)
    >>> x1, x2 = np.array(2.0), np.array(5.0)
    >>> y = op.sub(op.add(op.log(x1), op.mul(x1, x2)), op.sin(x2))
    >>> engine.backward(1)
    >>> [round(float(engine.gradient_buffer.get_param(x)), 6) for x in (x1, x2)]
    [5.5, 1.716338]
    """

    def __init__(self, autograd_engine: Autograd) -> None:
        self.autograd_engine = autograd_engine

    def add(self, a: Any, b: Any) -> Any:
        """a + b."""
        return self._record(np.add, F.add_backward, a, b)

    def sub(self, a: Any, b: Any) -> Any:
        """a - b."""
        return self._record(np.subtract, F.sub_backward, a, b)

    def mul(self, a: Any, b: Any) -> Any:
        """a * b, element by element."""
        return self._record(np.multiply, F.mul_backward, a, b)

    def div(self, a: Any, b: Any) -> Any:
        """a / b, element by element."""
        return self._record(np.divide, F.div_backward, a, b)

    def matmul(self, a: Any, b: Any) -> Any:
        """a @ b."""
        return self._record(np.matmul, F.matmul_backward, a, b)

    def power(self, a: Any, exponent: Any) -> Any:
        """a ** exponent, for a constant exponent."""
        return self._record(np.power, F.power_backward, a, np.asarray(exponent, float))

    def log(self, a: Any) -> Any:
        """The natural logarithm."""
        return self._record(np.log, F.log_backward, a)

    def exp(self, a: Any) -> Any:
        """e to the power a."""
        return self._record(np.exp, F.exp_backward, a)

    def sqrt(self, a: Any) -> Any:
        """The square root."""
        return self._record(np.sqrt, F.sqrt_backward, a)

    def sin(self, a: Any) -> Any:
        """The sine."""
        return self._record(np.sin, F.sin_backward, a)

    def cos(self, a: Any) -> Any:
        """The cosine."""
        return self._record(np.cos, F.cos_backward, a)

    def tanh(self, a: Any) -> Any:
        """The hyperbolic tangent."""
        return self._record(np.tanh, F.tanh_backward, a)

    def relu(self, a: Any) -> Any:
        """max(0, a)."""
        return self._record(lambda x: np.maximum(0, x), F.max_backward, a)

    def sum(self, a: Any) -> Any:
        """The sum of all elements."""
        return self._record(np.sum, F.sum_backward, a)

    def _record(self, function: Callable[..., Any], backward: Callable[..., Any], *inputs: Any) -> Any:
        """Compute, write the operation down, and return its output as an array."""
        arrays = [np.asarray(x) for x in inputs]
        output = np.asarray(function(*arrays))
        self.autograd_engine.add_operation(arrays, output, [None] * len(arrays), backward)
        return output
