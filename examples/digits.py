"""Train a small network to recognise handwritten digits: tensors, a loss, `backward`, and updates by hand.

    python examples/digits.py

Everything is drawn from one seed: two runs print the same numbers.
"""

import math
import sys
import time

import wengert as wg
from wengert.data import load_digits

HIDDEN = 64
EPOCHS = 30
BATCH = 32
RATE = 0.05
MOMENTUM = 0.9


def layer(inputs, outputs):
    """The weight and the bias of a layer, scaled to keep the variance through a relu (He et al., 2015)."""
    weight = wg.random.normal((inputs, outputs), std=math.sqrt(2 / inputs))
    bias = wg.zeros((outputs,))
    return [weight.requires_grad_(), bias.requires_grad_()]


def network(parameters, images):
    """A score for each of the ten digits, for every image."""
    weight1, bias1, weight2, bias2 = parameters
    hidden = wg.relu(images @ weight1 + bias1)
    return hidden @ weight2 + bias2


def accuracy(parameters, images, labels):
    """The fraction of images whose own digit gets the highest score."""
    with wg.no_grad():
        predictions = network(parameters, images).argmax(axis=1)
    return (predictions == labels).to(wg.float32).mean().item()


def show(line, last=False):
    """One line of progress: rewritten in place in a terminal, a new line elsewhere."""
    if sys.stdout.isatty():
        print(f"\r\033[K{line}", end="\n" if last else "", flush=True)
    else:
        print(line)


def main():
    wg.manual_seed(0)
    train_images, train_labels, test_images, test_labels = [wg.tensor(array) for array in load_digits()]
    parameters = layer(64, HIDDEN) + layer(HIDDEN, 10)
    velocities = [wg.zeros_like(parameter) for parameter in parameters]
    count = len(train_images)
    print(f"training on {count} images of handwritten digits, {sum(p.size for p in parameters)} parameters")
    start = time.perf_counter()

    for epoch in range(1, EPOCHS + 1):
        order = wg.random.permutation(count)
        total = 0.0
        for first in range(0, count, BATCH):
            batch = order[first : first + BATCH]
            images, labels = train_images[batch], train_labels[batch]

            loss = wg.cross_entropy(network(parameters, images), labels)
            loss.backward()
            with wg.no_grad():
                for parameter, velocity in zip(parameters, velocities):
                    velocity.assign(MOMENTUM * velocity + parameter.grad)
                    parameter -= RATE * velocity
                    parameter.grad = None
            total += loss.item() * len(batch)
        seconds = time.perf_counter() - start
        show(f"epoch {epoch:2}/{EPOCHS}   loss {total / count:.4f}   {seconds:4.1f} s", last=epoch == EPOCHS)

    correct = accuracy(parameters, test_images, test_labels)
    print(f"test accuracy {correct:.1%} on {len(test_images)} unseen images")


if __name__ == "__main__":
    main()
