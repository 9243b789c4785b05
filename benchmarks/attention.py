"""Our own attention beside PyTorch's flash and cuDNN kernels on a GPU: causal, bfloat16, forward and backward.

    python -m benchmarks.attention

Random operands, head by head. Each figure is the best of five, of ten calls in a row; the contenders take turns. FLOPs
are those of two products forward and five backward, below the diagonal. An error is the distance from the flash
kernel's result, divided by its norm.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from benchmarks.gemm import runner
from tests.gpu.harness import this_device
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from wengert.core.dtypes import bfloat16
from wengert.core.graph import Node
from wengert.kernels.attention.cuda import backward, forward
from wengert.kernels.attention.form import place_for_logarithms
from wengert.ops.attention import ATTENTION, ATTENTION_BACKWARD
from wengert.ops.core import as_node
from wengert.ops.op import picks

Call = Callable[[], object]
Contender = tuple[Call, Call, Callable[[], list[torch.Tensor]]]  # forward, backward, and the four results
SHAPES = [(16, 12, 1024, 64), (4, 16, 4096, 128)]  # batch, heads, queries and keys, features
ROUNDS, CALLS = 5, 10


def milliseconds(call: Call) -> float:
    """Of one of some calls in a row."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(CALLS):
        call()
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end)) / CALLS


def ours(given: list[torch.Tensor]) -> Contender:
    """Our kernels; forward keeps what backward wants."""
    shape = tuple(given[0].shape)
    query, key, value, g = (as_node(np.zeros(shape, bfloat16)) for _ in given)
    attrs = {"causal": True, "scale": shape[-1] ** -0.5}
    y, back = ATTENTION(query, key, value, **attrs), ATTENTION_BACKWARD(g, query, key, value, **attrs)
    place, results = place_for_logarithms(y), picks(back)

    def named(node: Node) -> str:
        return f"n{node.serial}"

    buffers = {named(node): tensor for node, tensor in zip((query, key, value, g), given)}
    buffers |= {named(node): torch.full_like(given[0], float("nan")) for node in (y, *results)}
    buffers[named(place)] = torch.empty(place.shape, device="cuda")
    lists = (
        forward(y, named, this_device(), (place,)),
        backward(back, named, this_device(), dict(enumerate(results)), (y, place)),
    )
    stream = torch.cuda.current_stream().cuda_stream
    ahead, again = (runner(work, buffers) for work in lists if work is not None)
    return lambda: ahead(stream), lambda: again(stream), lambda: [buffers[named(node)] for node in (y, *results)]


def torchs(given: list[torch.Tensor], backend: SDPBackend) -> Contender:
    """PyTorch's kernels of one kind."""
    query, key, value = (x.detach().clone().requires_grad_() for x in given[:3])
    with sdpa_kernel(backend):
        y = scaled_dot_product_attention(query, key, value, is_causal=True)

    def ahead() -> None:
        with sdpa_kernel(backend), torch.no_grad():
            scaled_dot_product_attention(query, key, value, is_causal=True)

    def again() -> tuple[torch.Tensor, ...]:
        return torch.autograd.grad(y, (query, key, value), given[3], retain_graph=True)

    return ahead, again, lambda: [y.detach(), *again()]


def compare(shape: tuple[int, int, int, int]) -> None:
    """Print the contenders' times for a shape."""
    given = [torch.randn(shape, device="cuda").to(torch.bfloat16) for _ in range(4)]
    contenders = {
        "ours": ours(given),
        "flash": torchs(given, SDPBackend.FLASH_ATTENTION),
        "cuDNN": torchs(given, SDPBackend.CUDNN_ATTENTION),
    }
    times: dict[tuple[str, int], float] = {}
    for _ in range(ROUNDS + 1):  # the first warms up
        for name, calls in contenders.items():
            for way in (0, 1):
                times[name, way] = min(milliseconds(calls[way]), times.get((name, way), float("inf")))
    batch, heads, queries, features = shape
    flops = 2 * batch * heads * queries**2 * features  # of two products, half of them above the diagonal
    print("batch {}, {} heads, {} queries and keys, {} features".format(*shape))
    exact = contenders["flash"][2]()
    for name, (_, _, results) in contenders.items():
        ms = [times[name, way] for way in (0, 1)]
        rates = [flops / ms[0] / 1e9, 2.5 * flops / ms[1] / 1e9]
        errors = [((x - y).float().norm() / y.float().norm()).item() for x, y in zip(results(), exact)]
        shown = (f"{way} {t:.3f} ms, {rate:.0f} TFLOP/s" for way, t, rate in zip(("forward", "backward"), ms, rates))
        print(f"  {name:6} {'; '.join(shown)} (errors {', '.join(f'{error:.0e}' for error in errors)})", flush=True)


if __name__ == "__main__":
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}")
    for shape in SHAPES:
        compare(shape)
