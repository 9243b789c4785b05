"""Backpropagation written by hand and by automatic differentiation, for an MLP that recognises digits.

    python examples/manual_backward.py [--steps 100]

Both networks start with the same weights and take the same steps. At each step the two sets of gradients are compared:
they differ only by rounding.
"""

import argparse
import math
import time
from itertools import pairwise

import wengert as wg
from wengert.data import load_digits

SIZES = [64, 128, 64, 10]
BATCH = 128
RATE = 0.2


def initial_parameters():
    """A weight and a bias for each layer, scaled to keep the variance through a relu (He et al., 2015)."""
    parameters = []
    for inputs, outputs in pairwise(SIZES):
        parameters.append(wg.random.normal((inputs, outputs), std=math.sqrt(2 / inputs), dtype=wg.float64))
        parameters.append(wg.zeros((outputs,), dtype=wg.float64))
    return parameters


def by_hand(parameters, x, labels):
    """The loss, and its gradient with respect to each parameter by the chain rule, from the last layer to the first."""
    w1, b1, w2, b2, w3, b3 = parameters

    # Forward: keep what the backward pass needs.
    a1 = x @ w1 + b1
    h1 = wg.maximum(a1, 0)
    a2 = h1 @ w2 + b2
    h2 = wg.maximum(a2, 0)
    scores = h2 @ w3 + b3
    shifted = scores - scores.max(axis=1, keepdims=True)
    log_probabilities = shifted - wg.log(wg.sum(wg.exp(shifted), axis=1, keepdims=True))
    right = wg.one_hot(labels, SIZES[-1]).to(x.dtype)
    loss = -(log_probabilities * right).sum() / len(x)

    # Backward: softmax followed by cross-entropy has the gradient "probability minus truth".
    g_scores = (wg.exp(log_probabilities) - right) / len(x)
    g_w3, g_b3 = h2.T @ g_scores, g_scores.sum(axis=0)
    g_a2 = (g_scores @ w3.T) * (a2 > 0).to(x.dtype)
    g_w2, g_b2 = h1.T @ g_a2, g_a2.sum(axis=0)
    g_a1 = (g_a2 @ w2.T) * (a1 > 0).to(x.dtype)
    g_w1, g_b1 = x.T @ g_a1, g_a1.sum(axis=0)
    return loss, [g_w1, g_b1, g_w2, g_b2, g_w3, g_b3]


def by_autodiff(parameters, x, labels):
    """The same loss; `backward` computes the gradients."""
    w1, b1, w2, b2, w3, b3 = parameters
    h1 = wg.relu(x @ w1 + b1)
    h2 = wg.relu(h1 @ w2 + b2)
    loss = wg.cross_entropy(h2 @ w3 + b3, labels)
    loss.backward()
    gradients = [p.grad for p in parameters]
    for p in parameters:
        p.grad = None
    return loss, gradients


def step(method, parameters, x, labels):
    """A step of gradient descent; returns the loss, the gradients as arrays, and the time in seconds."""
    start = time.perf_counter()
    loss, gradients = method(parameters, x, labels)
    with wg.no_grad():
        for p, g in zip(parameters, gradients):
            p -= RATE * g
    wg.synchronize()
    return loss.item(), [g.numpy() for g in gradients], time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100)
    steps = parser.parse_args().steps

    wg.manual_seed(0)
    images, labels, *_ = load_digits()
    images, labels = wg.tensor(images).to(wg.float64), wg.tensor(labels)
    start = initial_parameters()
    plain = [p.copy() for p in start]
    tracked = [p.copy().requires_grad_() for p in start]

    largest, seconds = 0.0, [0.0, 0.0]
    for number in range(1, steps + 1):
        batch = wg.random.randint(0, len(images), (BATCH,))
        x, y = images[batch], labels[batch]
        hand_loss, hand, hand_seconds = step(by_hand, plain, x, y)
        auto_loss, auto, auto_seconds = step(by_autodiff, tracked, x, y)
        difference = max(float(abs(a - b).max()) for a, b in zip(hand, auto))
        largest = max(largest, difference)
        seconds = [seconds[0] + hand_seconds, seconds[1] + auto_seconds]
        if number == 1 or number % 20 == 0 or number == steps:
            print(f"step {number:4}/{steps}   loss by hand {hand_loss:.6f}, by autodiff {auto_loss:.6f}")

    print(f"largest difference between gradients in {steps} steps: {largest:.1e}")
    hand_ms, auto_ms = (1000 * s / steps for s in seconds)
    print(f"by hand {hand_ms:.2f} ms per step, by autodiff {auto_ms:.2f} ms per step")


if __name__ == "__main__":
    main()
