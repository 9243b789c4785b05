"""A backward pass that keeps a few values and computes the others again.

A network is a list of layers. `layer.forward(x)` returns the layer's output; `layer.backward(x, g)` takes the layer's
input and the gradient of its output, and returns the gradient of its input. What is counted: the calls of `forward`,
and how many of the arrays that `forward` returned are alive at once.
"""

from __future__ import annotations

from typing import Any

Array = Any  # a NumPy array


def gradient(layers: list[Any], x: Array, g: Array) -> Array:
    """The gradient of x, if g is the gradient of the network's output. Every layer's forward is called once at most."""
    inputs = [x]
    for layer in layers[:-1]:
        inputs.append(layer.forward(inputs[-1]))
    for layer in reversed(layers):
        g = layer.backward(inputs.pop(), g)
    return g


def checkpointed_gradient(layers: list[Any], x: Array, g: Array, every: int) -> Array:
    """The same with checkpoints: of the inputs of the layers only those of 0, every, 2 every, ... are kept at first.

    Then, from the last segment to the first, the inputs of its layers are computed again, used, and forgotten.
    At most two calls of `forward` for each layer, and about len(layers) / every + every arrays alive at once.
    """
    starts = range(0, len(layers), every)
    kept = [x]
    for start in starts[:-1]:
        value = kept[-1]
        for layer in layers[start : start + every]:
            value = layer.forward(value)
        kept.append(value)
    value = None
    for start in reversed(starts):
        g = gradient(layers[start : start + every], kept.pop(), g)
    return g


def peak(sizes: list[int], every: int) -> int:
    """The bytes that are alive at once at most, for layers whose inputs have these sizes.

    While a segment is worked on, the inputs of all segments up to this one are alive, and the inputs of all its layers.
    """
    checkpoints = sizes[::every]
    return max(sum(checkpoints[: k + 1]) + sum(sizes[k * every + 1 : (k + 1) * every]) for k in range(len(checkpoints)))


def best_every(sizes: list[int]) -> int:
    """The distance of checkpoints with the least peak; the smallest one, if several are equally good."""
    return min(range(1, len(sizes) + 1), key=lambda every: peak(sizes, every))
