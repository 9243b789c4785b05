"""What the checks of `checkpoints` call, beside the submission. They contain no right answers."""

import weakref

import numpy as np


class Array(np.ndarray):
    """An array that can be watched."""


class Layer:
    """y = tanh(scale x). What is counted is in `forward`, and in no attribute."""

    def __init__(self, forward, scale):
        self.forward, self.scale = forward, scale

    def backward(self, x, g):
        return np.asarray(g) * self.scale * (1 - np.tanh(self.scale * np.asarray(x)) ** 2)


def network(scales):
    """Layers, and a function that tells how often they were called, and how many of their arrays were alive at most."""
    calls = alive = most = 0

    def forward_of(scale):
        def forward(x):
            nonlocal calls, alive, most
            array = np.asarray(np.tanh(scale * np.asarray(x))).view(Array)
            calls, alive = calls + 1, alive + 1
            most = max(most, alive)
            weakref.finalize(array, gone)
            return array

        return forward

    def gone():
        nonlocal alive
        alive -= 1

    return [Layer(forward_of(scale), scale) for scale in scales], lambda: (calls, most)


def gradient(scales, x, g, every, limits):
    """The gradient, and what of the calls of forward and of the arrays alive at once exceeds the limits.

    `every` 0 is without checkpoints.
    """
    from homework import checkpoints

    layers, counted = network(scales)
    if every:
        found = checkpoints.checkpointed_gradient(layers, x, g, every)
    else:
        found = checkpoints.gradient(layers, x, g)
    answer = {"the gradient": found}
    if limits:
        calls, most = counted()
        answer["calls of forward that are too many"] = max(0, calls - limits[0])
        answer["arrays alive at once that are too many"] = max(0, most - limits[1])
    return answer


def call(name, *inputs):
    """What a function returns."""
    from homework import checkpoints

    return getattr(checkpoints, name)([int(size) for size in inputs[0]], *map(int, inputs[1:]))
