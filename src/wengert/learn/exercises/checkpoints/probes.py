"""What the checks of `checkpoints` call, beside the submission. They contain no right answers."""

import weakref

import numpy as np


class Array(np.ndarray):
    """An array that can be watched."""


class Network:
    """Layers that count their calls, and how many of the arrays they returned are alive."""

    def __init__(self, scales):
        self.calls, self.alive, self.most = 0, 0, 0
        self.layers = [Layer(self, scale) for scale in scales]

    def made(self, values):
        array = np.asarray(values).view(Array)
        self.alive += 1
        self.most = max(self.most, self.alive)
        weakref.finalize(array, self.gone)
        return array

    def gone(self):
        self.alive -= 1


class Layer:
    """y = tanh(scale x)."""

    def __init__(self, network, scale):
        self.network, self.scale = network, scale

    def forward(self, x):
        self.network.calls += 1
        return self.network.made(np.tanh(self.scale * np.asarray(x)))

    def backward(self, x, g):
        return np.asarray(g) * self.scale * (1 - np.tanh(self.scale * np.asarray(x)) ** 2)


def gradient(scales, x, g, every, limits):
    """The gradient, and what of the calls of forward and of the arrays alive at once exceeds the limits.

    `every` 0 is without checkpoints.
    """
    from homework import checkpoints

    network = Network(scales)
    if every:
        found = checkpoints.checkpointed_gradient(network.layers, x, g, every)
    else:
        found = checkpoints.gradient(network.layers, x, g)
    answer = {"the gradient": found}
    if limits:
        answer["calls of forward that are too many"] = max(0, network.calls - limits[0])
        answer["arrays alive at once that are too many"] = max(0, network.most - limits[1])
    return answer


def call(name, *inputs):
    """What a function returns."""
    from homework import checkpoints

    return getattr(checkpoints, name)([int(size) for size in inputs[0]], *map(int, inputs[1:]))
