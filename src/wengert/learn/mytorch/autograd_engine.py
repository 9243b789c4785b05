"""The tape: operations in the order in which they were carried out, and the walk back through them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .utils import GradientBuffer


class Operation:
    """One line of the tape: `output` was computed from `inputs`.

    `backward_operation` takes the gradient of the output and the inputs, and gives the gradients of the inputs.
    `gradients_to_update` has, for each input, the array that collects its gradient (a parameter's `dW`), or None.
    """

    def __init__(
        self,
        inputs: Sequence[Any],
        output: Any,
        gradients_to_update: Sequence[Any],
        backward_operation: Callable[..., Any],
    ) -> None:
        self.inputs = inputs
        self.output = output
        self.gradients_to_update = gradients_to_update
        self.backward_operation = backward_operation

    @property
    def outputs(self) -> Any:
        """The output, as the lectures call it."""
        return self.output

    @property
    def backward_function(self) -> Callable[..., Any]:
        """The backward operation, as the lectures call it."""
        return self.backward_operation

    def __repr__(self) -> str:
        shapes = ", ".join(str(np.shape(array)) for array in self.inputs)
        return f"<{self.backward_operation.__name__}: {shapes} -> {np.shape(self.output)}>"


class Autograd:
    """An engine: the tape, and the gradients found by going back through it."""

    def __init__(self) -> None:
        self.operation_list: list[Operation] = []
        self.gradient_buffer = GradientBuffer()

    @property
    def memory_buffer(self) -> GradientBuffer:
        """The gradient buffer, by its older name."""
        return self.gradient_buffer

    def add_operation(
        self,
        inputs: Sequence[Any],
        output: Any,
        gradients_to_update: Sequence[Any],
        backward_operation: Callable[..., Any],
    ) -> None:
        """Write an operation down, with a spot in the gradient buffer for each of its inputs."""
        if len(inputs) != len(gradients_to_update):
            raise ValueError(
                f"{len(inputs)} inputs but {len(gradients_to_update)} gradients_to_update: there is one for each "
                "input, None where nothing collects its gradient"
            )
        for array in inputs:
            self.gradient_buffer.add_spot(array)
        self.operation_list.append(Operation(inputs, output, gradients_to_update, backward_operation))

    def backward(self, divergence: Any) -> None:
        """Go back from the last operation, whose output has the gradient `divergence`: 1 stands for ones."""
        if not self.operation_list:
            raise ValueError("there is nothing to go back through: no operation was added since the last zero_grad()")
        for operation in self.operation_list:  # what an earlier walk left on the way is no part of this one
            if self.gradient_buffer.is_in_memory(operation.output):
                self.gradient_buffer.set_param(operation.output, np.zeros(np.shape(operation.output)))

        last = self.operation_list[-1]
        for operation in reversed(self.operation_list):
            if operation is last:
                gradient = divergence * np.ones(np.shape(operation.output))
            elif self.gradient_buffer.is_in_memory(operation.output):
                gradient = self.gradient_buffer.get_param(operation.output)
            else:  # nobody used this output
                continue
            self._pass_on(operation, gradient)

    def _pass_on(self, operation: Operation, gradient: Any) -> None:
        """Give the inputs of an operation their gradients."""
        gradients = operation.backward_operation(gradient, *operation.inputs)
        if not isinstance(gradients, (tuple, list)):
            gradients = [gradients]
        for array, collected, share in zip(operation.inputs, operation.gradients_to_update, gradients):
            self.gradient_buffer.update_param(array, share)
            if collected is not None and share is not None:
                collected += share

    def zero_grad(self) -> None:
        """Forget the operations and their gradients. What parameters have collected is theirs to clear."""
        self.gradient_buffer.clear()
        self.operation_list = []
