"""All parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

import wengert as wg


def parameters_to_vector(parameters: Iterable[wg.Tensor]) -> wg.Tensor:
    """Concatenate the elements of parameters into one vector; it is differentiable.

    >>> import wengert as wg
    >>> wg.nn.utils.parameters_to_vector([wg.ones((2, 2)), wg.zeros(1)]).tolist()
    [1.0, 1.0, 1.0, 1.0, 0.0]
    """
    parts = [wg.reshape(parameter, (-1,)) for parameter in parameters]
    if not parts:
        raise wg.errors.ArgumentError("parameters_to_vector: there are no parameters")
    return wg.concat(parts)


def vector_to_parameters(vec: wg.Tensor, parameters: Iterable[wg.Tensor]) -> None:
    """Set parameters from a vector, in the layout of `parameters_to_vector`.

    >>> import wengert as wg
    >>> weight = wg.zeros((1, 2))
    >>> wg.nn.utils.vector_to_parameters(wg.tensor([3.0, 4.0]), [weight])
    >>> weight.tolist()
    [[3.0, 4.0]]
    """
    slots = list(parameters)
    size = sum(slot.size for slot in slots)
    if vec.shape != (size,):
        raise wg.errors.ShapeError(
            f"vector_to_parameters: the parameters have {size} elements; the vector has shape {vec.shape}"
        )
    start = 0
    with wg.no_grad():
        for slot in slots:
            part = vec[start : start + slot.size]
            slot.assign(wg.reshape(part, slot.shape).to(slot.dtype))
            start += slot.size
