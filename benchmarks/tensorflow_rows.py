"""Training steps and expressions on the CPU in TensorFlow, beside PyTorch and Wengert compiled.

    python benchmarks/tensorflow_rows.py [--rows micrograd,mlp,...] [--rounds 3] [--cores 1] [--json]

TensorFlow has an environment of its own, `.venv-tensorflow` in the clone, which the first run makes: it is large, and
its pinned packages are not those of the other two. Its steps are those that its own guides recommend: Keras layers and
optimizers under `tf.function`, once as they are and once with `jit_compile=True` (XLA). PyTorch and Wengert run in this
environment, each row and contender in a process of its own, in shuffled order; shown is the best of the rounds. The
rows and their numbers are those of `cpu.py` (`rows.py`).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rows import ROWS, SIDE, _expression_arrays, batch_of

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv-tensorflow"
RECORDED = ("micrograd", "mlp", "convnet", "gelu", "softmax", "layernorm")
OWN = ("compiled", "eager", "torch.compile")  # those that cpu.py measures
TENSORFLOW = ("tf.function", "tf.function, XLA")
LEAST_SECONDS, LEAST_STEPS, WARM_UP = 1.5, 5, 6

# --- inside TensorFlow's process ------------------------------------------------------------------------------------


def model_of(row: str) -> Any:
    """The row's model in Keras, with the initial values that Keras gives: they make no difference to the time."""
    from tensorflow.keras import Sequential, layers

    if row == "micrograd":
        return Sequential([layers.Dense(300, "relu"), layers.Dense(300, "relu"), layers.Dense(1)])
    if row == "mlp":
        return Sequential([layers.Dense(512, "relu"), layers.Dense(256, "relu"), layers.Dense(10)])
    blocks: list[Any] = []
    for outputs in (32, 64, 128):
        blocks += [layers.Conv2D(outputs, 3, padding="same", activation="relu"), layers.MaxPool2D(2)]
    return Sequential([*blocks, layers.Flatten(), layers.Dense(128, "relu"), layers.Dense(10)])


def training_step(row: str, xla: bool) -> Callable[[], Any]:
    """A step of training: forward, backward, optimizer; the loss as a number."""
    import tensorflow as tf

    model = model_of(row)
    optimizer = tf.keras.optimizers.SGD(1e-4) if row == "micrograd" else tf.keras.optimizers.Adam(1e-3)
    images, labels = batch_of(row)
    if images.ndim == 4:  # on the CPU TensorFlow convolves with channels last
        images = np.ascontiguousarray(images.transpose(0, 2, 3, 1))
    x, y = tf.constant(images), tf.constant(labels)
    model.build(x.shape)
    optimizer.build(model.trainable_variables)

    def loss_of(scores: Any) -> Any:
        if row == "micrograd":
            return tf.reduce_mean((scores - y) ** 2)
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, scores))

    @tf.function(jit_compile=xla)
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = loss_of(model(x, training=True))
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss

    return lambda: float(step())


def expression_step(row: str, xla: bool) -> Callable[[], Any]:
    """The value of an expression and its gradients with respect to the operands."""
    import tensorflow as tf

    forward = {
        "gelu": lambda x, w, b: tf.nn.gelu(x * w + b) * tf.sigmoid(x),
        "softmax": lambda x: tf.nn.softmax(x, axis=1),
        "layernorm": _layer_norm,
    }[row]
    cotangent, *operands = map(tf.constant, _expression_arrays(row))

    @tf.function(jit_compile=xla)
    def both() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(operands)
            value = forward(*operands)
        return value, tape.gradient(value, operands, cotangent)

    def step() -> Any:
        value, gradients = both()
        return value, [gradient.numpy() for gradient in gradients[1:]]  # small ones: they wait for all

    return step


def _layer_norm(x: Any, w: Any, b: Any) -> Any:
    import tensorflow as tf

    mean, variance = tf.nn.moments(x, [1], keepdims=True)
    return tf.nn.batch_normalization(x, mean, variance, b, w, 1e-5)


def measure(row: str, contender: str) -> dict[str, Any]:
    """The first and the best step, in seconds."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow as tf

    tf.random.set_seed(0)
    make = expression_step if row in ("gelu", "softmax", "layernorm") else training_step
    step = make(row, contender.endswith("XLA"))
    start = time.perf_counter()
    step()
    first = time.perf_counter() - start
    for _ in range(WARM_UP - 1):
        step()
    best, taken, count = float("inf"), 0.0, 0
    while taken < LEAST_SECONDS or count < LEAST_STEPS:
        start = time.perf_counter()
        step()
        seconds = time.perf_counter() - start
        best, taken, count = min(best, seconds), taken + seconds, count + 1
    return {"first": first, "best": best, "version": tf.__version__}


# --- the run --------------------------------------------------------------------------------------------------------


def environment() -> Path:
    """TensorFlow's Python; made if it is not there."""
    python = ENVIRONMENT / "bin" / "python"
    if not (ENVIRONMENT / "ready").exists():
        print(f"making {ENVIRONMENT.name} with tensorflow-cpu (about 1.5 GB)", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", str(ENVIRONMENT)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-qq", "tensorflow-cpu", "numpy"], check=True)
        (ENVIRONMENT / "ready").touch()
    return python


def ask_tensorflow(python: Path, row: str, contender: str) -> dict[str, Any]:
    """What TensorFlow's process answers; an error with its reason where it fails."""
    command = [str(python), __file__, "--rows", row, "--contender", contender]
    variables = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "OMP_NUM_THREADS")}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=900, check=False)
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["died"])[-1][:300]}
    return json.loads(done.stdout.splitlines()[-1])


def run(rows: list[str], rounds: int) -> dict[str, dict[str, dict[str, Any]]]:
    """The best of every contender in every row."""
    import cpu

    python = environment()
    found: dict[str, dict[str, dict[str, Any]]] = {row: {} for row in rows}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            jobs = [(row, name) for row in rows for name in (*OWN, *TENSORFLOW)]
            for row, name in random.sample(jobs, len(jobs)):
                if name in TENSORFLOW:
                    new = ask_tensorflow(python, row, name)
                else:
                    new = cpu.ask(row, name, Path(folder) / name)
                known = found[row].get(name, new)
                found[row][name] = new if "error" in new else min(known, new, key=lambda r: r.get("best", np.inf))
    return {row: {name: results[name] for name in (*OWN, *TENSORFLOW)} for row, results in found.items()}


def show(found: dict[str, dict[str, dict[str, Any]]]) -> None:
    """Print the table."""
    names = {"compiled": "Wengert compiled", "eager": "torch eager"}
    columns = (*OWN, *TENSORFLOW)
    print(f"{'ms a step, the best':<54}" + "".join(f"{names.get(name, name):>18}" for name in columns))
    for row, results in found.items():
        cells = [f"{results[n]['best'] * 1e3:.2f}" if "best" in results[n] else "failed" for n in columns]
        print(f"{ROWS[row].title:<54}" + "".join(f"{cell:>18}" for cell in cells))
    for row, results in found.items():
        for name, result in results.items():
            if "error" in result:
                print(f"{row}, {name}: {result['error']}")
    print(f"expressions: {SIDE} x {SIDE}, float32")


def write(found: dict[str, Any], rounds: int, busy: bool) -> Path:
    """Keep the results, with what they were measured on; rows of the same day that were not measured now stay."""
    import cpu

    path = cpu.write(found, rounds, "tensorflow-cpu")
    report = json.loads(path.read_text())
    versions = [result["version"] for row in found.values() for result in row.values() if "version" in result]
    report["versions"]["tensorflow"] = versions[0] if versions else None
    report["busy"] = busy
    path.write_text(json.dumps(report, indent=1) + "\n")
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default=",".join(RECORDED), help=f"some of {','.join(RECORDED)}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, help="how many processors everyone may use; all by default")
    parser.add_argument("--json", action="store_true", help="keep the result in benchmarks/results")
    parser.add_argument("--busy", action="store_true", help="note in it that other programs ran meanwhile")
    parser.add_argument("--contender", choices=TENSORFLOW, help=argparse.SUPPRESS)
    options = parser.parse_args()
    rows = options.rows.split(",")
    unknown = [row for row in rows if row not in RECORDED]
    if unknown:
        parser.error(f"there is no row {', '.join(unknown)}; there are {', '.join(RECORDED)}")
    if options.contender:
        print(json.dumps(measure(rows[0], options.contender)))
        return
    if options.cores:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.cores])  # which the contenders inherit
    found = run(rows, options.rounds)
    show(found)
    if options.json:
        print(f"written to {write(found, options.rounds, options.busy)}")


if __name__ == "__main__":
    main()
