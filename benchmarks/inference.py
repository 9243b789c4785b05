"""Models that answer and do not learn, in bfloat16: ResNet-18 on images, and one token of GPT-2's generation.

A step of generation takes the token before, writes its keys and values into the cache, looks at all of it that is
filled and gives the likeliest next token, which stays on the GPU. After LENGTH tokens it begins anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from rows import numbers

LENGTH = 256
Prepare = Callable[[Any], Any]


def wengert_classifier(batch: int, device: str, tune: float = 0.0) -> tuple[Callable[[], Any], Any]:
    """ResNet-18's scores of images by Wengert, compiled, and the compiled function."""
    import wengert as wg

    model = wg.models.resnet18().to(device).to(wg.bfloat16).eval()
    images = wg.tensor(numbers(batch, 3, 224, 224), device=device).to(wg.bfloat16)

    def classify(x: Any) -> Any:
        with wg.no_grad():
            return model(x)

    compiled = wg.compile(classify, tune=tune)
    return lambda: compiled(images), compiled


def torch_classifier(torch: Any, batch: int, prepare: Prepare, device: str) -> Callable[[], Any]:
    """The same by torch, channels last; `prepare` compiles a function or leaves it as it is."""
    import torch_models

    model = torch_models.resnet18_224().to(device).bfloat16().eval().to(memory_format=torch.channels_last)
    images = torch.from_numpy(numbers(batch, 3, 224, 224)).to(device).bfloat16()
    images = images.contiguous(memory_format=torch.channels_last)
    classify = torch.no_grad()(prepare(model))
    return lambda: classify(images)


def wengert_decoder(device: str, tune: float = 0.0) -> tuple[Callable[[], Any], Any]:
    """A step of Wengert's, compiled, and the compiled function."""
    import wengert as wg

    model = wg.models.GPT(wg.models.GPTConfig()).to(device).to(wg.bfloat16).eval()
    cache = model.new_cache(1, LENGTH)

    def decode(token: Any) -> Any:
        with wg.no_grad():
            return wg.argmax(model.scores_after(token, cache), axis=-1, keepdims=True)

    compiled = wg.compile(decode, tune=tune)
    return _from_the_start(compiled, wg.tensor(np.zeros((1, 1), np.int64), device=device), cache.clear), compiled


def torch_decoder(torch: Any, prepare: Prepare, device: str) -> Callable[[], Any]:
    """A step of torch's; `prepare` compiles a function or leaves it as it is."""
    import torch_models

    model = torch_models.GPT(50257, 1024, 768, 12, 12).to(device).bfloat16().eval()
    shape = (len(model.blocks), 2, 1, 12, LENGTH, 64)
    cache = torch.zeros(shape, device=device, dtype=torch.bfloat16)
    position = torch.zeros((1,), device=device, dtype=torch.int64)
    places = torch.arange(LENGTH, device=device)
    for kept in (cache, position):  # or torch would not make a CUDA graph of what overwrites them
        torch._dynamo.mark_static_address(kept)

    def decode(token: Any) -> Any:
        x = model.wte(token) + model.wpe(position)
        for block, (keys, values) in zip(model.blocks, cache):
            x = block.extended(x, keys, values, position, (places <= position)[None])
        position.add_(1)
        return model.head(model.ln_f(x))[:, -1].argmax(-1, keepdim=True)

    prepared = torch.no_grad()(prepare(decode))

    def step(token: Any) -> Any:
        return prepared(token).clone()  # a graph's next replay overwrites what the last one returned

    return _from_the_start(step, torch.zeros((1, 1), device=device, dtype=torch.int64), position.zero_)


def _from_the_start(decode: Callable[[Any], Any], first: Any, clear: Callable[[], Any]) -> Callable[[], Any]:
    """What decodes the next token at every call."""
    state = [first, 0]

    def step() -> Any:
        if state[1] % LENGTH == 0:
            clear()
        state[0], state[1] = decode(state[0]), state[1] + 1
        return state[0]

    return step
