"""A selective state-space model learns what to remember: blocks as in Mamba (Gu and Dao, 2023), on one `scan`.

    python examples/mamba.py [--steps 300] [--length 24] [--tree]

Each sequence has random letters; one of them is marked, and at the end the model has to name it. A linear recurrence
with constant coefficients forgets everything at one rate; here each step decides by its own input how much it writes
and how much it forgets. `--tree` computes the same recurrence by `associative_scan`, in log(length) rounds.
"""

import argparse
import math
import time

import wengert as wg
from wengert import nn

LETTERS, WIDTH, STATE, KERNEL, BATCH = 8, 32, 8, 4, 32


def by_steps(decay_rate, delta, b, c, x):
    """y of `h = exp(delta * A) * h + delta * B * x; y = C h`, step by step; the first axis of all operands is steps."""

    def step(h, now):
        delta, b, c, x = now
        decay = wg.exp(wg.expand_dims(delta, -1) * decay_rate)
        h = decay * h + wg.expand_dims(delta * x, -1) * wg.expand_dims(b, 1)
        return h, (h * wg.expand_dims(c, 1)).sum(axis=-1)

    start = wg.zeros((*x.shape[1:], STATE))
    return wg.scan(step, start, (delta, b, c, x))[1]


def by_tree(decay_rate, delta, b, c, x):
    """The same by a tree: pairs of steps, then pairs of pairs."""

    def combine(left, right):
        return left[0] * right[0], right[0] * left[1] + right[1]

    decay = wg.exp(wg.expand_dims(delta, -1) * decay_rate)
    written = wg.expand_dims(delta * x, -1) * wg.expand_dims(b, 2)
    _, h = wg.associative_scan(combine, (decay, written))
    return (h * wg.expand_dims(c, 2)).sum(axis=-1)


class Block(nn.Module):
    """A selective state space between two projections, with a gate; maps (steps, batch, width) to the same shape."""

    def __init__(self, recurrence):
        super().__init__()
        self.recurrence = recurrence
        self.norm = nn.RMSNorm(WIDTH)
        self.inner = nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.conv = nn.Conv1d(WIDTH, WIDTH, KERNEL, groups=WIDTH, padding=KERNEL - 1)
        self.selected = nn.Linear(WIDTH, WIDTH + 2 * STATE)
        self.log_rate = nn.Parameter(wg.log(wg.arange(1, STATE + 1, dtype=wg.float32)) + wg.zeros((WIDTH, 1)))
        self.skip = nn.Parameter(wg.ones(WIDTH))
        self.outer = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x):
        """The input plus the output of the block."""
        steps = x.shape[0]
        inner, gate = wg.chunk(self.inner(self.norm(x)), 2, axis=-1)
        inner = self.conv(wg.permute_dims(inner, (1, 2, 0)))[:, :, :steps]  # each step sees only earlier ones
        inner = wg.silu(wg.permute_dims(inner, (2, 0, 1)))
        selected = self.selected(inner)
        delta = wg.softplus(selected[..., :WIDTH] - 2.0)
        b, c = wg.chunk(selected[..., WIDTH:], 2, axis=-1)
        y = self.recurrence(-wg.exp(self.log_rate), delta, b, c, inner) + self.skip * inner
        return x + self.outer(y * wg.silu(gate))


def made(recurrence):
    """Two blocks between an embedding of marked and unmarked letters and the scores of the letter to name."""
    return nn.Sequential(
        nn.Embedding(2 * LETTERS, WIDTH),
        Block(recurrence),
        Block(recurrence),
        nn.RMSNorm(WIDTH),
        nn.Linear(WIDTH, LETTERS),
    )


def batch_of(length):
    """Letters, (steps, batch), with one marked per sequence; and the marked letters."""
    letters = wg.random.randint(0, LETTERS, (length, BATCH))
    marked = wg.arange(length)[:, None] == wg.random.randint(0, length, (BATCH,))
    return letters + LETTERS * marked.to(letters.dtype), (letters * marked.to(letters.dtype)).sum(axis=0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--length", type=int, default=24)
    parser.add_argument("--tree", action="store_true")
    options = parser.parse_args()

    wg.manual_seed(0)
    model = made(by_tree if options.tree else by_steps)
    optimizer = wg.optim.Adam(model.parameters(), lr=3e-3)

    @wg.compile
    def train():
        inputs, targets = batch_of(options.length)
        optimizer.zero_grad()
        scores = model(inputs)[-1]
        loss = wg.cross_entropy(scores, targets)
        loss.backward()
        optimizer.step()
        return loss, (wg.argmax(scores, axis=-1) == targets).to(wg.float32).mean()

    train()
    start = time.perf_counter()
    recent = []
    for step in range(1, options.steps + 1):
        loss, right = train()
        recent = [*recent[-19:], right.item()]
        if step == 1 or step % 50 == 0 or step == options.steps:
            print(f"step {step:4}/{options.steps}   loss {loss.item():.4f}   right {sum(recent) / len(recent):.0%}")
    milliseconds = 1000 * (time.perf_counter() - start) / options.steps
    print(f"{milliseconds:.2f} ms per step; chance is {1 / LETTERS:.1%}, a loss of {math.log(LETTERS):.3f}")


if __name__ == "__main__":
    main()
