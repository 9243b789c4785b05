"""What `article.md` shows and says: excerpts of generated code, and numbers from stored measurements.

Functions of the first kind stand in `<!-- show: ... -->` comments, which `regenerate.py` fills in; those of the second
in `<span data-said='...'>` within sentences, which `article.py` fills in.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wengert.kernels.launch import H200
from wengert.ops import linalg
from wengert.runtime.debug import explain
from wengert.runtime.debug.explain import bytes_text
from wengert.runtime.memory.elsewhere import plan_elsewhere

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "benchmarks" / "results"
KERNELS = DOCS.parent / "src" / "wengert" / "kernels" / "matmul"
GPU = "gpu-all-2026-11-16.json"
ROWS = {
    "micrograd": "MLP 300-300-300-1",
    "mlp": "MLP 784-512-256-10, Adam",
    "convnet": "ConvNet, tf32",
    "resnet18-cifar": "ResNet-18, CIFAR, bf16",
    "resnet18": "ResNet-18, bf16",
    "resnet18-tf32": "ResNet-18, tf32",
    "gpt2": "GPT-2 124M, bf16",
    "resnet18-answer-1": "ResNet-18, 1 image, inference",
    "resnet18-answer-256": "ResNet-18, 256 images, inference",
    "gpt2-generate": "GPT-2, one token",
    "gelu": "gelu chain, forward",
    "gelu-backward": "gelu chain, and backward",
    "softmax": "softmax, forward",
    "softmax-backward": "softmax, and backward",
    "layernorm": "layer norm, forward",
    "layernorm-backward": "layer norm, and backward",
    "cross-entropy-backward": "cross-entropy, and backward",
}
"""The rows of benchmarks/gpu.py, in few words; docs/measurements/gpu-steps.md has their sizes."""
GEMM = "gemm-h200-2026-11-15.txt"

# --- excerpts -------------------------------------------------------------------------------------------------------


def rule_of(name: str) -> str:
    """The derivatives of an op, as they stand in its file."""
    text = inspect.getsource(linalg)
    start = text.index(f'"{name}",')
    (found,) = re.findall(r"^    (vjp=\(.*\)),$", text[start : text.index("\n)\n", start)], re.M)
    return found


def before_and_after(f: Any) -> str:
    """Kernels, bytes and memory of a program before and after its kernels are fused."""
    rows = {row.name: row for row in explain.rows(f.graph(), f._newest("docs").program)}
    lines = [f"{'':<12}{'kernels':>9}{'bytes moved':>14}{'peak memory':>14}"]
    for name, row in (("recorded", rows["recorded"]), ("fused", rows["fuse"])):
        lines.append(f"{name:<12}{row.kernels:>9}{bytes_text(row.moved):>14}{bytes_text(row.peak):>14}")
    return "\n".join(lines)


def traffic(f: Any) -> tuple[int, int]:
    """The bytes that a program moves before and after fusion."""
    rows = {row.name: row for row in explain.rows(f.graph(), f._newest("docs").program)}
    return rows["recorded"].moved, rows["fuse"].moved


def cuda_of(f: Any) -> str:
    """The first kernel of a program as CUDA C++ for an H200, which need not be there."""
    source = plan_elsewhere(f.graph(), (), "cuda:0", H200).steps[0].parts[0].source
    return re.sub(r"(wg_\w+?)_[0-9a-f]{10}\b", r"\1", source).strip()


def epilogue_of(f: Any) -> str:
    """What a product's kernel for an H200 does with its sums."""
    source = "\n".join(part.source for part in plan_elsewhere(f.graph(), (), "cuda:0", H200).steps[0].parts)
    start = source.index("struct wg_result")
    return source[start : source.index("\n};", start) + 3]


def kernel_text(file: str, function: str) -> str:
    """A function of a kernel that is written by hand, with the comment before it."""
    text = (KERNELS / file).read_text()
    start = text.rindex("\n\n", 0, text.index(f"void {function}(")) + 2
    return text[start : text.index("\n}", start) + 2]


def gpu_table() -> str:
    """The rows on an H200, in milliseconds."""
    names = {"wengert": "Wengert", "compile": "torch.compile", "eager": "torch eager", "jax": "JAX jit"}
    lines = [f"{'milliseconds a step':<34}" + "".join(f"{name:>15}" for name in names.values())]
    for row, contenders in _json(GPU)["results"].items():
        times = [contenders.get(name, {}).get("median") for name in names]
        lines.append(
            f"{ROWS[row]:<34}" + "".join(f"{'' if t is None else format(t * 1e3, '.3g'):>15}" for t in times).rstrip()
        )
    return "\n".join(lines)


def tensorflow_table() -> str:
    """The rows of benchmarks/tensorflow_rows.py, in milliseconds, and where they were measured."""
    report = stored("tensorflow-cpu-*.json")
    names = {"compiled": "Wengert", "eager": "torch eager", "torch.compile": "torch.compile"}
    columns = [*names, "tf.function", "tf.function, XLA"]
    lines = [f"{'milliseconds a step':<22}" + "".join(f"{names.get(name, name):>18}" for name in columns)]
    for row in [row for row in CPU_ROWS if row in report["results"]]:
        results = report["results"][row]
        cells = [short(results[name]["best"] * 1e3) if "best" in results[name] else "failed" for name in columns]
        lines.append(f"{CPU_ROWS[row]:<22}" + "".join(f"{cell:>18}" for cell in cells))
    busy = "; other programs ran meanwhile" if report.get("busy") else ""
    cores, versions = report["cores"], report["versions"]
    lines.append(f"{report['processor']}, {cores} core{'s' * (cores > 1)}; torch {versions['torch']}, ")
    return "\n".join(lines) + f"tensorflow {versions['tensorflow']}{busy}"


CPU_ROWS = {
    "micrograd": "MLP 300-300-300-1",
    "mlp": "MLP 784-512-256-10",
    "convnet": "ConvNet, batch 128",
    "gelu": "gelu chain, 2048^2",
    "softmax": "softmax, 2048^2",
    "layernorm": "layer norm, 2048^2",
}


# --- measured on a CPU ----------------------------------------------------------------------------------------------


def stored(pattern: str) -> Any:
    """The latest file of results of a kind."""
    return json.loads(max(RESULTS.glob(pattern)).read_text())


def article() -> Any:
    """What `article.py` measured last."""
    return stored("article-cpu-*.json")


def machine() -> str:
    """Where and when the CPU was measured."""
    found = article()
    busy = "; other programs ran on it meanwhile" if found["busy"] else ""
    return f"{found['processor']}, one thread, {found['date']}{busy}"


def line(figure: str, name: str) -> dict[float, float]:
    """A curve of a figure: seconds by size."""
    return {float(x): y for x, y in article()["figures"][figure][name].items()}


def cpu(figure: str, name: str, x: float) -> float:
    """A time in seconds."""
    return line(figure, name)[float(x)]


def ms(figure: str, name: str, x: float) -> str:
    return f"{short(cpu(figure, name, x) * 1e3)} ms"


def us(figure: str, name: str, x: float) -> str:
    return f"{short(cpu(figure, name, x) * 1e6)} us"


def ratio(a: float, b: float) -> str:
    return short(a / b)


def largest(figure: str, name: str) -> str:
    """The largest size of a curve."""
    return f"{max(line(figure, name)):,.0f}"


def times(figure: str, name: str, other: str) -> str:
    """How many times as long one takes as another, at the largest size of the first."""
    size = max(line(figure, name))
    return short(cpu(figure, name, size) / cpu(figure, other, size))


def arena(f: Any, what: str) -> str:
    """The memory of a program: the sum of its values, the arena, or the most that is alive."""
    program = f._newest("docs").program
    plan = program.plan
    kept = [value for value in plan.lives if value in plan.arena.offsets]
    alive = [
        sum(plan.sizes[v] for v in kept if plan.lives[v].first <= n <= plan.lives[v].last)
        for n in range(len(plan.steps))
    ]
    return bytes_text({"sum": sum(plan.sizes[v] for v in kept), "size": plan.arena.size, "peak": max(alive)}[what])


def manual(library: str, how: str) -> str:
    """What automatic gradients take beside those by hand, for the network of the MNIST row."""
    network = stored("manual-automatic-cpu-*.json")["results"]["784-512-256-10, batch 128"]
    end = f", {how}" if how else ""
    return f"{network[f'{library} automatic{end}']['best'] / network[f'{library} by hand{end}']['best']:.2f}"


def cpu_row(row: str, contender: str) -> str:
    """Milliseconds of a row of benchmarks/cpu.py."""
    return short(stored("cpu-2*.json")["results"][row][contender]["best"] * 1e3)


def tensorflow_text() -> str:
    """How TensorFlow compares on the CPU, row by row."""
    report = stored("tensorflow-cpu-*.json")
    behind = []
    for row, results in report["results"].items():
        best = min(results[name]["best"] for name in results if name.startswith("tf.") and "best" in results[name])
        own = results["compiled"]["best"]
        if best < own:
            behind.append(f"{row} {short(own * 1e3)} ms, TensorFlow {short(best * 1e3)}")
    version, rows = report["versions"]["tensorflow"], len(report["results"])
    lost = f"TensorFlow {version} is faster in {len(behind)} of {rows} rows on the CPU"
    noise = ", measured while other programs ran" if report.get("busy") else ""
    return f"{lost}{noise}{': ' if behind else ''}{'; '.join(behind)}."


# --- measured on an H200 --------------------------------------------------------------------------------------------


def gpu(row: str, contender: str) -> str:
    """Milliseconds of a row."""
    return short(_json(GPU)["results"][row][contender]["median"] * 1e3)


def gpu_us(row: str, contender: str) -> str:
    """Microseconds of a row."""
    return short(_json(GPU)["results"][row][contender]["median"] * 1e6)


def gpu_versions() -> str:
    found = _json(GPU)["versions"]
    libraries = {"PyTorch": "torch", "JAX": "jax", "cuBLAS": "nvidia-cublas", "cuDNN": "nvidia-cudnn-cu13"}
    return ", ".join(f"{name} {found[package]}" for name, package in libraries.items())


def host(which: str) -> str:
    """The least or the most host time of a replayed step, in microseconds."""
    best = [row["wengert"]["host"][0] * 1e6 for row in _json(GPU)["results"].values()]
    return f"{min(best) if which == 'least' else max(best):.1f}"


def first(row: str, cache: str) -> str:
    """Seconds of the first step."""
    return f"{_json(GPU)['first'][row]['wengert'][cache]['first']:.1f}"


def rungs(size: int = 4096) -> dict[str, dict[str, float]]:
    """TFLOP/s by dtype and rung at a size, the best tile of each."""
    found: dict[str, dict[str, float]] = {}
    dtype = None
    for text in (RESULTS / GEMM).read_text().splitlines():
        if heading := re.match(r"(\d+) x \1 x \1 (\w+)$", text):
            dtype = heading[2] if int(heading[1]) == size else None
        elif text.startswith("small products"):
            break
        elif dtype and (rate := re.match(r" +([\d.]+) TFLOP/s +\d+% +(\w+)", text)):
            rates = found.setdefault(dtype, {})
            rates[rate[2]] = max(float(rate[1]), rates.get(rate[2], 0.0))
    return found


def gemm(dtype: str, rung: str) -> str:
    return f"{rungs()[dtype][rung]:g}"


def behind(dtype: str) -> str:
    """By how many percent cuBLAS leads."""
    found = rungs()[dtype]
    own = max(rate for name, rate in found.items() if name != "cuBLAS")
    return f"{(found['cuBLAS'] / own - 1) * 100:.0f}"


def small(shape: str, rung: str) -> str:
    """Microseconds of a small product."""
    text = (RESULTS / GEMM).read_text()
    part = text[text.index(f"\n{shape} float32") :]
    (found,) = re.findall(rf"^ +([\d.]+) us +\d+% +{rung}", part.split("float32\n", 2)[1], re.M)[:1]
    return found


def _json(name: str) -> Any:
    return json.loads((RESULTS / name).read_text())


def short(number: float) -> str:
    """A number in three digits.

    >>> short(0.01234), short(12.34), short(1234.5)
    ('0.0123', '12.3', '1,234')
    """
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


SHOWN: tuple[Callable[..., str], ...] = (
    rule_of,
    before_and_after,
    cuda_of,
    epilogue_of,
    kernel_text,
    gpu_table,
    tensorflow_table,
)
SAID: tuple[Callable[..., Any], ...] = (
    *(machine, cpu, ms, us, ratio, largest, times, arena, manual, cpu_row, tensorflow_text),
    *(gpu, gpu_us, gpu_versions, host, first, gemm, behind, small),
)
