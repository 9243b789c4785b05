"""micrograd's loop with tensors: an MLP of 300-300-300-1, squared error, `backward`, and updates by hand.

    python examples/micrograd.py [--steps 200] [--device cpu]

The script follows micrograd-cuda, a GPU version of Andrej Karpathy's micrograd: it memorises a batch of 100 points with
labels -1 and 1.
"""

import argparse
import time

import wengert as wg
from wengert.models import MLP

BATCH = 100
RATE = 1e-4


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()

    wg.manual_seed(0)
    model = MLP(300, [300, 300, 1], activation=wg.tanh)
    xs = wg.random.normal((BATCH, 300))
    ys = wg.sign(wg.random.normal((BATCH, 1)))

    model.to(options.device)
    xs, ys = xs.to(options.device), ys.to(options.device)

    start = time.perf_counter()
    for step in range(1, options.steps + 1):
        # Forward pass
        predicted = wg.tanh(model(xs))
        loss = ((predicted - ys) ** 2).sum()

        # Backward pass
        for p in model.parameters():
            p.grad = None
        loss.backward()

        # Update
        with wg.no_grad():
            for p in model.parameters():
                p -= RATE * p.grad

        if step == 1 or step % 20 == 0 or step == options.steps:
            print(f"step {step:4}/{options.steps}   loss {loss.item():8.4f}")

    milliseconds = 1000 * (time.perf_counter() - start) / options.steps
    right = (wg.sign(model(xs)) == ys).to(wg.float32).mean().item()
    print(f"{right:.0%} of the labels learned, {milliseconds:.2f} ms per step on {options.device}")


if __name__ == "__main__":
    main()
