"""A small transformer learns to write: characters, rotary positions, AdamW with a warm-up, and a sample at the end.

    python examples/transformer.py [--steps 250]

The script generates its own training data: sentences of a small grammar. The model has to learn words and their order
character by character.
"""

import argparse
import math
import random
import time

import numpy as np

import wengert as wg
from wengert.models import GPT, GPTConfig

LENGTH = 128
BATCH = 8


def sentences(count):
    """Sentences in which verbs agree with their nouns and a place may follow."""
    draw = random.Random(0)
    nouns, plurals = ["cat", "dog", "bird", "fox"], ["cats", "dogs", "birds", "foxes"]
    verbs, plural_verbs = ["sees", "hears", "follows"], ["see", "hear", "follow"]
    places = ["by the river", "under the tree", "in the snow", "at night"]
    for _ in range(count):
        many = draw.random() < 0.5
        subject = f"the {draw.choice(plurals if many else nouns)}"
        verb = draw.choice(plural_verbs if many else verbs)
        place = f" {draw.choice(places)}" if draw.random() < 0.5 else ""
        yield f"{subject} {verb} the {draw.choice(nouns + plurals)}{place}.\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=250)
    steps = parser.parse_args().steps

    wg.manual_seed(0)
    text = "".join(sentences(3000))
    letters = sorted(set(text))
    tokens = np.array([letters.index(letter) for letter in text])
    model = GPT(GPTConfig.modern(vocab_size=len(letters), n_positions=LENGTH, n_embd=64, n_layer=2, n_head=4))
    optimizer = wg.optim.AdamW(model.parameters(), lr=3e-3)
    warmup = max(1, steps // 10)
    schedule = wg.optim.LambdaLR(
        optimizer,
        lambda step: min((step + 1) / warmup, 0.55 + 0.45 * math.cos(math.pi * min(step, steps) / steps)),
    )
    count = sum(p.size for p in model.parameters())
    print(f"{len(text):,} characters, {len(letters)} distinct; {count:,} parameters")

    data = wg.tensor(tokens)
    start = time.perf_counter()
    for step in range(1, steps + 1):
        first = wg.random.randint(0, len(tokens) - LENGTH, (BATCH, 1))
        window = data[first + wg.arange(LENGTH + 1)]
        optimizer.zero_grad()
        _, loss = model(window[:, :-1], targets=window[:, 1:])
        loss.backward()
        wg.optim.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step == 1 or step % 25 == 0 or step == steps:
            print(f"step {step:4}/{steps}   loss {loss.item():.4f}   {time.perf_counter() - start:5.1f} s")

    prompt = wg.tensor([[letters.index("\n")]])
    written = model.generate(prompt, max_new_tokens=LENGTH - 1, temperature=0.7, top_k=10)
    print("a sample:")
    for line in "".join(letters[token] for token in written.tolist()[0][1:]).splitlines():
        print(f"  {line}")


if __name__ == "__main__":
    main()
