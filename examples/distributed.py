"""A small GPT trained on any number of ranks: the step for one process, and two more lines.

    python examples/distributed.py                          # a world of one rank
    wengert launch -n 2 examples/distributed.py             # two ranks, each with half of every batch
    wengert launch -n 2 examples/distributed.py --shard 3   # each also holds half of the model (ZeRO-3)

With `--parts 4`, one, two and four ranks print the same digest of the model: its bytes do not depend on their number.
"""

import argparse
import hashlib
import random

import numpy as np

import wengert as wg

LENGTH = 32


def counting(lines):
    """Lines that continue counting: `seven eight nine ten`."""
    words = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
    draw = random.Random(0)
    for _ in range(lines):
        first = draw.randrange(len(words) - 3)
        yield " ".join(words[first : first + 4]) + "\n"


def digest(model):
    """The bytes of a model as a short number."""
    whole = [tensor.numpy().tobytes() for tensor in model.state_dict().values()]  # all ranks gather together
    return hashlib.sha256(b"".join(whole)).hexdigest()[:12]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--shard", type=int, default=0, choices=range(4), help="the stage of ZeRO")
    parser.add_argument("--parts", type=int, help="cut batches into so many parts, for the same bits on any ranks")
    options = parser.parse_args()
    wg.config.parts = options.parts

    world = wg.distributed.start()  # as set by mpiexec, srun or `wengert launch`; without one, a world of one rank
    mesh = world.mesh(data=-1)  # all ranks along one axis

    wg.manual_seed(0)  # the same seed on every rank, so nothing is sent
    text = "".join(counting(500))
    letters = sorted(set(text))
    tokens = np.array([letters.index(letter) for letter in text])
    config = wg.models.GPTConfig(vocab_size=len(letters), n_positions=LENGTH, n_embd=32, n_layer=1, n_head=2)
    model = wg.models.GPT(config)
    if options.shard == 3:
        wg.distributed.shard(model, mesh["data"])
    optimizer = wg.optim.AdamW(model.parameters(), lr=1e-2)
    if options.shard in (1, 2):
        wg.distributed.shard(optimizer.state, mesh["data"])
    windows = wg.data.Windows(tokens, LENGTH)
    loader = wg.data.DataLoader(windows, batch_size=16, shuffle=True, drop_last=True, mesh=mesh)  # the global batch

    @wg.compile(mesh=mesh)
    def train(x, y):  # written for the whole batch
        optimizer.zero_grad()
        _, loss = model(x, targets=y)
        loss.backward()
        optimizer.step()
        return loss  # of the whole batch, on every rank

    for step, (x, y) in enumerate(endless(loader), start=1):
        loss = train(x, y)
        if world.rank == 0 and (step == 1 or step % 20 == 0 or step == options.steps):
            print(f"step {step:4}/{options.steps}   loss {loss.item():.4f}")
        if step == options.steps:
            break

    found = digest(model)
    if world.rank == 0:
        print(f"{world.size} {'rank' if world.size == 1 else 'ranks'}, {world.engine}: the model's digest is {found}")


def endless(loader):
    """The batches of one epoch after another."""
    while True:
        yield from loader


if __name__ == "__main__":
    main()
