"""Programs from public repositories, unmodified, with PyTorch and with `wengert torch --torch-random`.

`python benchmarks/pytorch_programs.py FOLDER [NAME ...]` runs those under FOLDER, where the repositories are checked
out, one after another, each in a copy of its folder with stand-ins for its data (program_data.py) and for modules that
are not installed (standins/). Both sides get the same arguments, the same number of threads and the same files. What
their lines take out of tensors with `.item()` is compared in full precision: losses, that is (integers where there are
none). Gradients show in it from the second step on. torchvision's own Python is used on PyTorch's side (FOLDER/vision),
`wengert.torch.vision` on the other. `--write` enters results in benchmarks/results and docs/pytorch.md.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import program_data as data

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
PAGE = ROOT / "docs" / "pytorch.md"
BEGIN, END = "<!-- programs: begin -->", "<!-- programs: end -->"


@dataclass
class Program:
    """A program, what it is given, and where its data is laid."""

    name: str
    folder: str  # which is copied, and where it runs
    script: str
    arguments: str = ""
    laid: Callable[[Path], None] = data.nothing
    path: str = ""  # what is installed for it, relative to the repositories
    makes: tuple[str, ...] = ()  # folders that have to be there


LM = (
    "--epochs 1 --emsize 64 --nhid 64 --nlayers 2 --batch_size 10 --bptt 20 --log-interval 10 --lr {lr} --model {model}"
)
NANO = (
    "config/train_shakespeare_char.py --device=cpu --compile={compile} --eval_iters=4 --eval_interval=40 "
    "--log_interval=1 --block_size=64 --batch_size=12 --n_layer=4 --n_head=4 --n_embd=128 --max_iters=100 "
    "--lr_decay_iters=100 --warmup_iters=10 --dropout=0.0"
)
MINGPT = "--trainer.max_iters={steps} --trainer.num_workers=0 --trainer.batch_size=8 --model.model_type=gpt-nano"
MAKEMORE = "--max-steps 60 --num-workers 0 --type"
GAN = "PyTorch-GAN/implementations"
TUTORIAL = "pytorch-tutorial/tutorials"

PROGRAMS = [
    Program("mnist", "examples/mnist", "main.py", "--epochs 1 --log-interval 1", data.mnist_above),
    Program("mnist_rnn", "examples/mnist_rnn", "main.py", "--epochs 2 --log-interval 1", data.mnist_above),
    Program(
        "mnist_forward_forward",
        "examples/mnist_forward_forward",
        "main.py",
        "--epochs 30 --log-interval 1 --train_size 1000 --test_size 200",
        data.mnist_inside,
    ),
    Program("vae", "examples/vae", "main.py", "--epochs 3 --log-interval 1", data.mnist_above, makes=("results",)),
    Program(
        "dcgan",
        "examples/dcgan",
        "main.py",
        "--dataset mnist --dataroot ../data --workers 0 --batchSize 16 --ngf 16 --ndf 16 --niter 1 --manualSeed 1",
        data.mnist_above,
    ),
    *(
        Program(
            f"word_language_model {model}",
            "examples/word_language_model",
            "main.py",
            LM.format(model=model, lr=0.2 if model == "RNN_RELU" else 1),
            data.wikitext,
        )
        for model in ("RNN_TANH", "RNN_RELU", "LSTM", "GRU", "Transformer")
    ),
    Program(
        "super_resolution",
        "examples/super_resolution",
        "main.py",
        "--upscale_factor 3 --batchSize 2 --testBatchSize 2 --nEpochs 2 --lr 0.001 --threads 0",
        data.bsds,
    ),
    Program("time_sequence_prediction", "examples/time_sequence_prediction", "train.py", "--steps 2", data.sines),
    Program(
        "fast_neural_style",
        "examples/fast_neural_style",
        "neural_style/neural_style.py",
        "train --epochs 2 --batch-size 2 --dataset photographs --style-image style/000.png --save-model-dir models "
        "--image-size 64 --log-interval 1",
        data.photographs_and_weights,
    ),
    Program("gcn", "examples/gcn", "main.py", "--epochs 60 --val-every 10", data.cora),
    Program("gat", "examples/gat", "main.py", "--epochs 5 --val-every 1 --hidden-dim 16 --num-heads 2", data.cora),
    Program("regression", "examples/regression", "main.py"),
    Program("reinforcement_learning actor_critic", "examples/reinforcement_learning", "actor_critic.py"),
    Program("reinforcement_learning reinforce", "examples/reinforcement_learning", "reinforce.py"),
    Program("siamese_network", "examples/siamese_network", "main.py", "--dry-run --batch-size 16", data.mnist_above),
    Program("nanoGPT train.py", "nanoGPT", "train.py", NANO.format(compile=False), data.shakespeare),
    Program("nanoGPT train.py --compile=True", "nanoGPT", "train.py", NANO.format(compile=True), data.shakespeare),
    Program(
        "minGPT chargpt",
        "minGPT/projects/chargpt",
        "chargpt.py",
        MINGPT.format(steps=60) + " --data.block_size=64",
        data.one_text,
        path="minGPT",
    ),
    Program("minGPT adder", "minGPT/projects/adder", "adder.py", MINGPT.format(steps=100), path="minGPT"),
    *(
        Program(f"makemore {kind}", "makemore", "makemore.py", f"{MAKEMORE} {kind}", data.names)
        for kind in ("transformer", "rnn", "gru", "mlp", "bow", "bigram")
    ),
    Program("tiny-diffusion", "tiny-diffusion", "ddpm.py", "--dataset circle --num_epochs 3 --train_batch_size 256"),
    *(
        Program(f"pytorch-examples {script}", "pytorch-examples", script)
        for script in (
            "tensor/two_layer_net_tensor.py",
            "autograd/two_layer_net_autograd.py",
            "autograd/two_layer_net_custom_function.py",
            "nn/two_layer_net_nn.py",
            "nn/two_layer_net_optim.py",
            "nn/two_layer_net_module.py",
            "nn/dynamic_net.py",
        )
    ),
    *(
        Program(
            f"pytorch-tutorial {script.rsplit('/', 1)[1]}",
            f"{TUTORIAL}/{script}",
            "main.py",
            "",
            data.mnist_in_tutorial,
        )
        for script in (
            "01-basics/linear_regression",
            "01-basics/logistic_regression",
            "01-basics/feedforward_neural_network",
            "02-intermediate/convolutional_neural_network",
            "02-intermediate/recurrent_neural_network",
            "02-intermediate/bidirectional_recurrent_neural_network",
        )
    ),
    Program(
        "pytorch-tutorial language_model", f"{TUTORIAL}/02-intermediate/language_model", "main.py", "", data.treebank
    ),
    *(
        Program(
            f"PyTorch-GAN {name}", f"{GAN}/{name}", f"{name}.py", "--n_epochs 1 --batch_size 16", data.mnist_two_above
        )
        for name in ("gan", "wgan", "wgan_gp", "dcgan", "acgan", "infogan", "aae", "cgan", "ebgan", "dragan")
    ),
]


@dataclass
class Run:
    """What came of one side."""

    status: int
    seconds: float
    processor: float
    values: list[float] = field(repr=False)
    output: str = field(repr=False, default="")


@dataclass
class Row:
    """A program beside itself."""

    name: str
    laid: str
    values: int
    first: float | None
    within: int  # of the values, the leading ones that are the same to 1e-4
    largest: float | None  # difference among the first hundred
    torch_seconds: float
    wengert_seconds: float
    torch_processor: float
    wengert_processor: float
    problem: str = ""


def run(side: str, program: Program, folder: Path, threads: int, limit: float) -> Run:
    """Run a program in a copy of its folder."""
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary) / "a" / "b" / "work"
        shutil.copytree(folder / program.folder, work)
        for name in program.makes:
            (work / name).mkdir(exist_ok=True)
        program.laid(work)
        record = Path(temporary) / "values"
        path = [str(HERE / "standins")]
        path += [str(folder / program.path)] if program.path else []
        path += [str(ROOT / "src")] if side == "wengert" else [str(folder / "vision")]
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(path), TORCH_HOME=str(work.parent / "torch_home"))
        environment |= {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
        environment["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] = "1"  # for files of arrays, which older examples write
        command = [sys.executable, str(HERE / "program_runner.py"), side, str(record), program.script]
        before = time.perf_counter()
        with open(Path(temporary) / "output", "w+") as output:
            process = subprocess.Popen(
                command + program.arguments.split(), cwd=work, env=environment, stdout=output, stderr=subprocess.STDOUT
            )
            status, used = _waited(process, limit)
            output.seek(0)
            text = output.read()
        seconds = time.perf_counter() - before
        values = record.read_text().split() if record.exists() else []
        floats = [value for value in values if not value.lstrip("-").isdigit()]
        return Run(status, seconds, used, [float(value) for value in floats or values], text)


def _waited(process: subprocess.Popen[str], limit: float) -> tuple[int, float]:
    """Its exit status and the processor time that it took; one that takes too long is ended."""
    end = time.monotonic() + limit
    while True:
        done, status, usage = os.wait4(process.pid, os.WNOHANG)
        if done:
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode, usage.ru_utime + usage.ru_stime
        if time.monotonic() > end:
            process.kill()
            end = float("inf")
        time.sleep(0.05)


def compared(program: Program, theirs: Run, ours: Run) -> Row:
    """The row of a program."""
    pairs = list(zip(theirs.values, ours.values, strict=False))
    apart = [abs(a - b) / max(abs(a), 1e-3) if a == a or b == b else 0.0 for a, b in pairs]
    within = next((i for i, difference in enumerate(apart) if not difference <= 1e-4), len(apart))
    row = Row(
        program.name,
        data.LAID[program.laid],
        len(pairs),
        apart[0] if apart else None,
        within,
        max(apart[:100], default=None),
        *(theirs.seconds, ours.seconds, theirs.processor, ours.processor),
    )
    for side, one in (("PyTorch", theirs), ("wengert", ours)):
        if one.status:
            lines = one.output.strip().splitlines()
            row.problem = f"{side}: exit status {one.status}: {lines[-1] if lines else ''}"
    if not row.problem and len(theirs.values) != len(ours.values):
        row.problem = f"{len(theirs.values)} values with PyTorch, {len(ours.values)} here"
    return row


def line(row: Row) -> str:
    """A row of the table."""
    first = "" if row.first is None else f"{row.first:.0e}"
    largest = "" if row.largest is None else f"{row.largest:.0e}"
    times = (row.torch_seconds, row.wengert_seconds, row.torch_processor, row.wengert_processor)
    cells = [
        row.name,
        row.laid,
        first,
        largest,
        f"{row.within} of {row.values}",
        *(f"{seconds:.1f}" for seconds in times),
    ]
    return f"| {' | '.join(cells)} |"


def table(rows: list[Row]) -> str:
    """All rows under their heads."""
    heads = "program | stand-in for | first value | first 100 | within 1e-4 | PyTorch s | wengert s "
    heads += "| PyTorch CPU s | wengert CPU s"
    return "\n".join([f"| {heads} |", "|---|---" + "|---:" * 7 + "|", *map(line, rows)])


def write(rows: list[Row], threads: int) -> None:
    """Enter the rows in results, and in the page beside those of other programs."""
    today = datetime.date.today().isoformat()
    place = HERE / "results" / f"pytorch-programs-{today}.json"
    known: dict[str, Any] = json.loads(place.read_text())["rows"] if place.exists() else {}
    known |= {row.name: asdict(row) for row in rows}
    ordered = {program.name: known[program.name] for program in PROGRAMS if program.name in known}
    place.write_text(json.dumps({"threads": threads, "rows": ordered}, indent=1) + "\n")
    if PAGE.exists():
        before, _, rest = PAGE.read_text().partition(BEGIN)
        after = rest.partition(END)[2]
        PAGE.write_text(f"{before}{BEGIN}\n\n{table([Row(**row) for row in ordered.values()])}\n\n{END}{after}")


def main() -> int:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", type=Path, help="where the repositories are checked out")
    parser.add_argument("names", nargs="*", help="programs whose name begins so; all if not given")
    parser.add_argument("--threads", type=int, default=1, help="OMP_NUM_THREADS of both (default: %(default)s)")
    parser.add_argument("--limit", type=float, default=600, help="seconds that a run may take (default: %(default)s)")
    parser.add_argument("--only", choices=["torch", "wengert"], help="run one side, and show what it prints")
    parser.add_argument("--check", action="store_true", help="list the names that are missing, and run nothing")
    parser.add_argument("--write", action="store_true", help="enter the results in benchmarks/results and docs")
    options = parser.parse_args()
    asked = [p for p in PROGRAMS if not options.names or any(p.name.startswith(name) for name in options.names)]
    if options.check:
        return check(asked, options.folder)
    rows = []
    for program in asked:
        if options.only:
            one = run(options.only, program, options.folder, options.threads, options.limit)
            print(
                one.output,
                f"\n{program.name}: status {one.status}, {one.seconds:.1f} s, CPU {one.processor:.1f} s",
                one.values[:3],
            )
            continue
        sides = [run(side, program, options.folder, options.threads, options.limit) for side in ("torch", "wengert")]
        rows.append(compared(program, *sides))
        print(line(rows[-1]), rows[-1].problem, flush=True)
        if options.write:
            write(rows, options.threads)
    return int(any(row.problem for row in rows))


def check(programs: list[Program], folder: Path) -> int:
    """What the programs' files use that is missing."""
    sys.path.insert(0, str(ROOT / "src"))
    from wengert.torch import checking

    files = sorted({str(path) for program in programs for path in (folder / program.folder).rglob("*.py")})
    print(checking.text(files))
    return int(bool(checking.missing(files)))


if __name__ == "__main__":
    sys.exit(main())
