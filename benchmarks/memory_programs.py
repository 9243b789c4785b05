"""The programs whose memory is predicted and measured: training steps, models forward, single expressions.

A program is a compiled function and the arguments of a call, all on one device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Program = tuple[Any, tuple[Any, ...]]


def _trained(wg: Any, model: Any, optimizer: Any, args: tuple[Any, ...], **options: Any) -> Program:
    @wg.compile(**options)
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = wg.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step, args


def _images(wg: Any, device: str, *shape: int) -> tuple[Any, Any]:
    return wg.random.normal(shape, device=device), wg.zeros((shape[0],), dtype=wg.int64, device=device)


def _mlp(wg: Any, device: str, optimizer: Callable[..., Any], batch: int = 2048, **options: Any) -> Program:
    model = wg.models.MLP(784, [2048, 2048, 10]).to(device)
    return _trained(wg, model, optimizer(model.parameters()), _images(wg, device, batch, 784), **options)


def mlp_sgd(wg: Any, device: str) -> Program:
    return _mlp(wg, device, lambda parameters: wg.optim.SGD(parameters, lr=0.01))


def mlp_momentum(wg: Any, device: str) -> Program:
    return _mlp(wg, device, lambda parameters: wg.optim.SGD(parameters, lr=0.01, momentum=0.9))


def mlp_adam(wg: Any, device: str) -> Program:
    return _mlp(wg, device, lambda parameters: wg.optim.Adam(parameters, lr=1e-3))


def mlp_adam_small_batch(wg: Any, device: str) -> Program:
    return _mlp(wg, device, lambda parameters: wg.optim.Adam(parameters, lr=1e-3), batch=64)


def mlp_forward(wg: Any, device: str) -> Program:
    model = wg.models.MLP(784, [2048, 2048, 10]).to(device).eval()

    @wg.compile
    def forward(x: Any) -> Any:
        with wg.no_grad():
            return model(x)

    return forward, _images(wg, device, 8192, 784)[:1]


def convnet(wg: Any, device: str) -> Program:
    model = wg.models.ConvNet().to(device)
    return _trained(wg, model, wg.optim.Adam(model.parameters(), lr=1e-3), _images(wg, device, 256, 1, 28, 28))


def resnet18(wg: Any, device: str) -> Program:
    model = wg.models.resnet18(num_classes=10, stem="cifar").to(device)
    optimizer = wg.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    return _trained(wg, model, optimizer, _images(wg, device, 32, 3, 32, 32))


def resnet18_forward(wg: Any, device: str) -> Program:
    model = wg.models.resnet18(num_classes=10, stem="cifar").to(device).eval()

    @wg.compile
    def forward(x: Any) -> Any:
        with wg.no_grad():
            return model(x)

    return forward, _images(wg, device, 64, 3, 32, 32)[:1]


def _gpt(wg: Any, device: str) -> tuple[Any, tuple[Any, Any]]:
    sizes = {"vocab_size": 512, "n_positions": 128, "n_embd": 256, "n_layer": 2, "n_head": 8}
    tokens = wg.zeros((16, 128), dtype=wg.int64, device=device)
    return wg.models.GPT(wg.models.GPTConfig(**sizes)).to(device), (tokens, tokens + 1)


def gpt(wg: Any, device: str) -> Program:
    model, args = _gpt(wg, device)
    optimizer = wg.optim.Adam(model.parameters(), lr=1e-3)

    @wg.compile
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x, y)[1]
        loss.backward()
        optimizer.step()
        return loss

    return step, args


def gpt_forward(wg: Any, device: str) -> Program:
    model, (tokens, _) = _gpt(wg, device)

    @wg.compile
    def forward(x: Any) -> Any:
        with wg.no_grad():
            return model(x)[0]

    return forward, (tokens,)


def recurrent(wg: Any, device: str) -> Program:
    """A scan over 32 steps of an LSTM-like cell, and its gradient."""
    inside, across = wg.random.normal((256, 1024), device=device), wg.random.normal((256, 1024), device=device)

    def cell(carry: Any, x: Any) -> Any:
        h, c = carry
        i, f, o, g = wg.split(x @ inside + h @ across, 256, axis=1)
        c = wg.sigmoid(f) * c + wg.sigmoid(i) * wg.tanh(g)
        h = wg.sigmoid(o) * wg.tanh(c)
        return (h, c), h

    def loss(xs: Any) -> Any:
        zero = wg.zeros((64, 256), device=device)
        return wg.scan(cell, (zero, zero), xs)[1].sum()

    return wg.compile(wg.grad(loss)), (wg.random.normal((32, 64, 256), device=device),)


def attention(wg: Any, device: str) -> Program:
    def loss(q: Any, k: Any, v: Any) -> Any:
        return wg.scaled_dot_product_attention(q, k, v, is_causal=True).sum()

    shape = (8, 8, 512, 64)
    return wg.compile(wg.grad(loss, argnums=(0, 1, 2))), tuple(wg.random.normal(shape, device=device) for _ in "qkv")


def elementwise(wg: Any, device: str) -> Program:
    def loss(x: Any, w: Any, b: Any) -> Any:
        return (wg.gelu(x * w + b) * wg.sigmoid(x)).sum()

    shape = (4096, 2048)
    return wg.compile(wg.grad(loss, argnums=(0, 1, 2))), tuple(wg.random.normal(shape, device=device) for _ in "xwb")


def softmax(wg: Any, device: str) -> Program:
    def loss(x: Any, weights: Any) -> Any:
        return (wg.softmax(x, axis=1) * weights).sum()

    return wg.compile(wg.grad(loss)), tuple(wg.random.normal((4096, 2048), device=device) for _ in "xw")


def layernorm(wg: Any, device: str) -> Program:
    def loss(x: Any, weights: Any) -> Any:
        return (wg.layer_norm(x, (2048,)) * weights).sum()

    return wg.compile(wg.grad(loss)), tuple(wg.random.normal((4096, 2048), device=device) for _ in "xw")


def reductions(wg: Any, device: str) -> Program:
    def statistics(x: Any) -> Any:
        return x.mean(axis=0), x.var(axis=1), wg.logsumexp(x, axis=0), wg.cumsum(x, axis=1), x.max()

    return wg.compile(statistics), (wg.random.normal((4096, 4096), device=device),)


def adam_alone(wg: Any, device: str) -> Program:
    weights = [wg.nn.Parameter(wg.random.normal((2048, 2048), device=device)) for _ in range(4)]
    optimizer = wg.optim.AdamW(weights, lr=1e-3)

    @wg.compile
    def step(scale: Any) -> Any:
        optimizer.zero_grad()
        sum((weight * weight * scale).sum() for weight in weights).backward()
        optimizer.step()

    return step, (wg.ones((), device=device),)


def bfloat16_training(wg: Any, device: str) -> Program:
    model = wg.models.MLP(784, [2048, 2048, 10]).to(device)
    optimizer = wg.optim.Adam(model.parameters(), lr=1e-3)

    @wg.compile
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        with wg.autocast(wg.bfloat16):
            loss = wg.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step, _images(wg, device, 2048, 784)


def float16_expression(wg: Any, device: str) -> Program:
    def loss(x: Any, w: Any) -> Any:
        return (wg.tanh(x * w) + wg.sigmoid(x)).to(wg.float32).sum()

    x, w = (wg.random.normal((4096, 4096), device=device).to(wg.float16) for _ in "xw")
    return wg.compile(wg.grad(loss, argnums=(0, 1))), (x, w)


def accumulated(wg: Any, device: str) -> Program:
    """Four micro-batches in one step."""
    model = wg.models.MLP(784, [2048, 2048, 10]).to(device)
    optimizer = wg.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    @wg.compile
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        for k in range(4):
            (wg.cross_entropy(model(x[512 * k : 512 * (k + 1)]), y[512 * k : 512 * (k + 1)]) / 4).backward()
        optimizer.step()

    return step, _images(wg, device, 2048, 784)


def _deep(wg: Any, device: str, wrap: Callable[[Any], Any], **options: Any) -> Program:
    weights = [wg.nn.Parameter(wg.random.normal((512, 512), device=device)) for _ in range(12)]

    def block(x: Any, *some: Any) -> Any:
        for weight in some:
            x = wg.gelu(x @ weight)
        return x

    @wg.compile(**options)
    def step(x: Any) -> Any:
        for weight in weights:
            weight.grad = None
        for k in range(0, 12, 3):
            x = wrap(block)(x, *weights[k : k + 3])
        x.sum().backward()

    return step, (wg.random.normal((4096, 512), device=device),)


def deep(wg: Any, device: str) -> Program:
    return _deep(wg, device, lambda block: block)


def deep_checkpointed(wg: Any, device: str) -> Program:
    return _deep(wg, device, wg.checkpoint)


def deep_within_budget(wg: Any, device: str) -> Program:
    """The deep network with a sixth less than it takes by itself."""
    alone, args = _deep(wg, device, lambda block: block)
    memory = alone.fits(1 << 60, *args).memory
    budget = (memory.peak - memory.parts.get("context", 0)) * 5 // 6
    return _deep(wg, device, lambda block: block, memory_budget=budget)


def embedding(wg: Any, device: str) -> Program:
    """Rows looked up in a table, and the gradient scattered back."""
    table = wg.nn.Parameter(wg.random.normal((50_000, 256), device=device))

    @wg.compile
    def step(tokens: Any) -> Any:
        table.grad = None
        (table[tokens] ** 2).sum().backward()

    return step, (wg.zeros((64, 256), dtype=wg.int64, device=device),)


PROGRAMS: dict[str, Callable[[Any, str], Program]] = {
    function.__name__: function
    for function in (
        *(mlp_sgd, mlp_momentum, mlp_adam, mlp_adam_small_batch, mlp_forward, convnet, resnet18, resnet18_forward),
        *(gpt, gpt_forward, recurrent, attention, elementwise, softmax, layernorm, reductions, adam_alone),
        *(bfloat16_training, float16_expression, accumulated, deep, deep_checkpointed, deep_within_budget, embedding),
    )
}
