"""ResNet-18 learns to recognise digits: residual blocks with 64, 128, 256 and 512 channels, a linear layer, softmax.

    python examples/resnet18.py [--steps 12] [--batch 32]

The bundled digits have 8x8 pixels; they are enlarged to 16x16 for the network with CIFAR's small stem. Its eleven
million parameters need only a few steps.
"""

import argparse
import time

import wengert as wg
from wengert.data import load_digits
from wengert.models import resnet18

SIDE = 16
SHOWN = 100


def enlarged(images):
    """(N, 64) rows of pixels as images (N, 1, 16, 16)."""
    return wg.interpolate(wg.tensor(images.reshape(-1, 1, 8, 8)), size=(SIDE, SIDE), mode="bilinear")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--batch", type=int, default=32)
    options = parser.parse_args()

    wg.manual_seed(0)
    train_images, train_labels, test_images, test_labels = load_digits()
    x, y = enlarged(train_images), wg.tensor(train_labels)
    model = resnet18(num_classes=10, stem="cifar", in_channels=1)
    optimizer = wg.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for name, stage in model.named_children():
        sizes = sum(p.size for p in stage.parameters())
        print(f"  {name:8} {type(stage).__name__:12} {sizes:>10,} parameters")
    print(f"  {'total':21} {sum(p.size for p in model.parameters()):>10,} parameters")

    start = time.perf_counter()
    for step in range(1, options.steps + 1):
        batch = wg.random.randint(0, len(x), (options.batch,))
        optimizer.zero_grad()
        loss = wg.cross_entropy(model(x[batch]), y[batch])
        loss.backward()
        optimizer.step()
        print(f"step {step:3}/{options.steps}   loss {loss.item():.4f}   {time.perf_counter() - start:5.1f} s")

    with wg.no_grad():  # norms in training mode, since there were few steps to average over
        probabilities = wg.softmax(model(enlarged(test_images[:SHOWN])), axis=1).numpy()
    for label, row in list(zip(test_labels, probabilities))[:6]:
        print(f"  a {label}, recognised as {row.argmax()} with probability {row.max():.2f}")
    right = (probabilities.argmax(axis=1) == test_labels[:SHOWN]).mean()
    print(f"{right:.0%} of {SHOWN} unseen images are recognised")


if __name__ == "__main__":
    main()
