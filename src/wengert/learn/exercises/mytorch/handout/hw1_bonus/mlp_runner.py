"""Trains the network of `mlp.py` on handwritten digits: python hw1_bonus/mlp_runner.py

It prints the loss and the share of wrong answers after each epoch. The data is that of the UCI repository (CC BY 4.0).
"""

import argparse
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]


def load(name):
    """Images as rows of numbers between 0 and 1, and one-hot labels."""
    images, labels = (np.load(HERE / "data" / f"{name}_{kind}.npy") for kind in ("data", "labels"))
    images = images.reshape(len(images), -1).astype(float)
    return images / max(1.0, images.max()), np.eye(10)[labels]


def main():
    """Train, and print a line for each epoch."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=16)
    options = parser.parse_args()
    from mlp import MLP
    from mytorch import Autograd, nn

    np.random.seed(11785)
    engine = Autograd()
    activations = [nn.ReLU(engine), nn.Identity(engine)]
    network = MLP(64, 10, [32], activations, nn.SoftmaxCrossEntropy(engine), 0.05, engine, momentum=0.9)
    train, held_back = load("train"), load("val")
    for epoch in range(options.epochs):
        losses = []
        order = np.random.permutation(len(train[0]))
        for start in range(0, len(order), options.batch_size):
            rows = order[start : start + options.batch_size]
            network.zero_grads()
            losses.append(float(network.criterion(train[1][rows], network(train[0][rows]))[0]))
            network.criterion.backward()
            network.step()
        network.zero_grads()
        network(held_back[0])
        wrong = network.error(held_back[1]) / len(held_back[0])
        print(f"epoch {epoch + 1}: loss {np.mean(losses):.4f}, wrong answers on held-back digits {wrong:.1%}")


if __name__ == "__main__":
    main()
