"""`wengert train`, `eval`, `generate` and `info`: what they do, and one clear line for every mistake."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from types import SimpleNamespace

import numpy as np
import pytest

import wengert as wg
from wengert.cli import main
from wengert.train import Recipe, Run
from wengert.train.recipe import RECIPES, built_in, make, read

QUICK = ("--epochs", "1", "--limit", "320")
BOOK = "It was the best of times, it was the worst of times.\n" * 60


def told(capsys, *arguments, status=0):
    """What the command prints; checks its exit status, and that errors are one message without a traceback."""
    assert main(list(arguments)) == status
    out, err = capsys.readouterr()
    assert "Traceback" not in err and "\x1b" not in out + err
    if status:
        assert err.startswith("wengert: ")
    return err if status else out


@pytest.fixture
def book(tmp_path):
    path = tmp_path / "book.txt"
    path.write_text(BOOK)
    return path


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WENGERT_DATA", str(tmp_path / "no-data"))


# --- what they do ---------------------------------------------------------------------------------------------------


def test_training_evaluating_and_going_on(capsys, tmp_path):
    first = told(capsys, "train", "digits", "--model", "mlp", *QUICK)
    assert re.search(r"digits-mlp: 320 training examples, 360 test examples", first)
    assert re.search(r"epoch 1/1  loss \d\.\d{4} \(test \d\.\d{4}\)  accuracy \d+\.\d\d% \(test", first)
    result = re.search(r"test accuracy .* on 360 examples", first)[0]
    assert result in told(capsys, "eval", "runs/digits-mlp")
    assert result in told(capsys, "eval", "runs/digits-mlp/checkpoints/best.safetensors")
    again = told(capsys, "train", "digits", *QUICK)
    assert result in again and "runs/digits-mlp-2" in again  # the same seed gives the same results
    longer = told(capsys, "train", "--resume", "runs/digits-mlp", "--epochs", "2")
    assert "resuming at step 10" in longer and "epoch 2/2" in longer and "epoch 1/2" not in longer


def test_every_setting_arrives(capsys, tmp_path):
    told(
        capsys, "train", "digits", "--model", "convnet", "--epochs", "1", "--batch-size", "40", "--accumulate", "2",
        "--lr", "0.5", "--seed", "7", "--dtype", "bfloat16", "--device", "cpu", "--no-compile", "--patience", "3",
        "--limit", "100", "--validation", "0.2", "--workers", "1", "--save-every", "1", "--out", "here",
    )  # fmt: skip
    recipe = read(tmp_path / "here" / "recipe.toml")
    expected = {
        "model": "convnet", "epochs": 1, "batch_size": 40, "accumulate": 2, "seed": 7, "dtype": "bfloat16",
        "compile": False, "patience": 3, "validation": 0.2, "limit": 100, "workers": 1, "save_every": 1,
    }  # fmt: skip
    assert {name: getattr(recipe, name) for name in expected} == expected and recipe.optimizer["lr"] == 0.5


@pytest.fixture
def interpreted(monkeypatch):
    """Programs are not built: for models that take long to compile, where it makes no difference."""
    monkeypatch.setattr(wg.config, "tier", "interpret")


def test_a_book_is_learned_and_continued(capsys, book, interpreted):
    options = ("--epochs", "2", "--batch-size", "4", "--lr", "0.01")
    recipe = book.with_name("small.toml")
    recipe.write_text(
        'data = "text"\nmodel = "gpt"\n[text]\nlength = 32\n[options]\nn_embd = 16\nn_layer = 1\nn_head = 2\n'
        '[optimizer]\nname = "adamw"\nlr = 0.01\n'
    )
    text = told(capsys, "train", str(recipe), "--file", str(book), *options, "--out", "gpt")
    assert re.search(r"epoch 2/2  loss \d\.\d{4} \(test \d\.\d{4}\)  \d", text)
    book.unlink()  # the checkpoint knows its alphabet
    written = told(capsys, "generate", "gpt", "--prompt", "It was", "--tokens", "80", "--seed", "3")
    assert written.startswith("It was") and len(written) == len("It was") + 80 + 1
    assert written == told(capsys, "generate", "gpt", "--prompt", "It was", "--tokens", "80", "--seed", "3")
    assert "'#' is not in the alphabet" in told(capsys, "generate", "gpt", "--prompt", "#", status=1)


def test_lines_of_different_lengths_have_a_shape_for_each_bucket(tmp_path, book, interpreted):
    lines = [f"{'word ' * (1 + i % 7)}end\n" for i in range(80)]
    book.write_text("".join(lines))
    text = {"unit": "line", "buckets": [20, 40], "validation": 0.2}
    sizes = {"n_embd": 8, "n_layer": 1, "n_head": 1}
    recipe = Recipe(data="text", model="gpt", file=str(book), epochs=1, batch_size=4, text=text, options=sizes)
    run = Run(recipe, tmp_path / "run")
    assert run.train()["loss"] < 3
    assert {batch[0].shape for batch in run.loader} == {(4, 20), (4, 40)}
    weights = sum(min(len(line) - 1, 40) for line in "".join(lines)[int(len("".join(lines)) * 0.8) :].splitlines(True))
    totals = [float(run.steps.evaluate(*batch)["weight"]) for batch in run.tests]
    assert abs(sum(totals) - weights) <= 2  # every token of every line, and nothing of the padding


def test_a_file_of_one_s_own_is_trained(capsys, tmp_path):
    (tmp_path / "parity.py").write_text(
        "import numpy as np, wengert as wg\n"
        "recipe = {'epochs': 2, 'batch_size': 16, 'optimizer': {'name': 'sgd', 'lr': 0.1}}\n"
        "def data():\n"
        "    x = np.random.default_rng(0).integers(0, 2, (96, 4)).astype(np.float32)\n"
        "    sets = wg.data.ArrayDataset(x, x.sum(1).astype(np.int64) % 2)\n"
        "    return sets, sets\n"
        "def model():\n"
        "    return wg.models.MLP(4, [16, 2])\n"
    )
    assert "epoch 2/2" in told(capsys, "train", "parity.py")
    assert "test accuracy" in told(capsys, "eval", "runs/parity", "--trust")


def test_info_tells_what_there_is(capsys):
    text = told(capsys, "info")
    for part in (wg.__version__, np.__version__, "compiler", "devices      cpu", "sympy", "cores"):
        assert part in text


def test_info_tells_what_is_missing(monkeypatch, capsys):
    from wengert.inspect import installation

    monkeypatch.setattr(installation.toolchain, "compiler", lambda: None)
    monkeypatch.setattr(installation, "_version", lambda package: None)
    text = told(capsys, "info")
    assert "Install gcc or clang" in text and "pip install 'wengert[train]'" in text


def test_info_tells_what_a_gpu_would_need(monkeypatch, capsys):
    from wengert.inspect import installation

    def none():
        raise wg.errors.DeviceError("there is no NVIDIA driver here")

    monkeypatch.setattr(installation.bindings, "bindings", none)
    assert "\ncuda         there is no NVIDIA driver here\n" in told(capsys, "info")
    monkeypatch.setattr(installation.bindings, "bindings", lambda: SimpleNamespace(cuDeviceGetCount=lambda: (0, 1)))
    monkeypatch.setattr(installation.compile, "bindings", lambda: SimpleNamespace(nvrtcVersion=lambda: (0, 13, 4)))
    monkeypatch.setattr(installation.blas, "library", lambda: None)
    monkeypatch.setattr(installation.dnn, "library", object)
    text = told(capsys, "info")
    assert "devices      cpu, cuda:0" in text and "cuda         NVRTC 13.4" in text
    assert "cuBLASLt     missing" in text and "cuDNN        found" in text


# --- mistakes -------------------------------------------------------------------------------------------------------


def test_a_mistake_in_a_script_is_told_with_its_line(capsys, tmp_path):
    line = "wg.ones(3) + wg.ones(4)"
    (tmp_path / "mine.py").write_text(f"import wengert as wg\n{line}\n")
    for command in (["profile", "mine.py"], ["view", "mine.py:f", "--no-open"], ["train", "mine.py"]):
        text = told(capsys, *command, status=1)
        assert "add: shapes (3,) and (4,) do not broadcast" in text and f"\n  at mine.py:2:  {line}" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["digitz"], "there is no data set 'digitz'; did you mean 'digits'?"),
        (["imagenet"], "there is no data set 'imagenet'; there is cifar10, digits, "),
        (["mnist", "--model", "mpl"], "there is no model for mnist 'mpl'; did you mean 'mlp'?"),
        (["digits", "--batch-size", "0"], "batch size must be at least 1, not 0"),
        (["digits", "--epochs", "-1"], "epochs must be at least 1, not -1"),
        (["digits", "--lr", "0"], "lr must be above 0"),
        (["digits", "--dtype", "float31"], "there is no dtype 'float31'; did you mean 'float32'?"),
        (["digits", "--device", "tpu"], "train: 'tpu' is not a device; choose 'cpu', or 'cuda'"),
        (["missing.toml"], "missing.toml: No such file or directory"),
        (["missing.py"], "there is no file 'missing.py'"),
        ([], "train takes a data set, a recipe or a Python file"),
        (["text"], "text needs a file to train on: --file book.txt"),
        (["text", "--file", "nowhere.txt"], "nowhere.txt: No such file or directory"),
        (["text", "--file", "book.txt", "--model", "mlp"], "there is no model for text 'mlp'; there is gpt"),
        (["mnist"], "MNIST: there is no train-images-idx3-ubyte.gz in "),
        (["--resume", "nowhere"], "there is no checkpoint 'nowhere'"),
    ],
)
def test_mistakes_are_told_in_a_line(capsys, book, monkeypatch, arguments, message):
    def unreachable(*args, **kwargs):
        raise OSError("there is no network")

    monkeypatch.setattr("urllib.request.urlopen", unreachable)
    assert message in told(capsys, "train", *arguments, status=1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("data = ", "is not TOML"),
        ("epochs = 3", "names no data set"),
        ('data = "digits"\nepoch = 3', "there is no setting in recipe.toml 'epoch'; did you mean 'epochs'?"),
        ('data = "digits"\nepochs = "3"', "epochs must be an integer, not '3'"),
        ('data = "digits"\nmodel = "mlp"\n[optimizer]\nname = "adm"', "no optimizer 'adm'; did you mean 'adam'?"),
        ('data = "digits"\nmodel = "mlp"\n[optimizer]\nrate = 3', "no setting in optimizer adamw 'rate'"),
        ('data = "digits"\nmodel = "mlp"\n[schedule]\nname = "cos"', "no schedule 'cos'; did you mean 'cosine'?"),
        ('data = "digits"\nmodel = "mlp"\n[options]\nhiden = [3]', "did you mean 'hidden'?"),
        ('data = "digits"\nmodel = "mlp"\n[augment]\nrotate = 3', "no setting in augment 'rotate'"),
    ],
)
def test_mistakes_in_a_recipe_are_told(capsys, tmp_path, text, message):
    (tmp_path / "recipe.toml").write_text(text)
    assert message in told(capsys, "train", "recipe.toml", status=1)


FILE = (
    "import numpy as np, wengert as wg\n"
    "def data():\n"
    "    x = np.ones((32, 4), np.float32)\n"
    "    return wg.data.ArrayDataset(x, np.full(32, LABEL)), wg.data.ArrayDataset(x, np.zeros(32, np.int64))\n"
    "def model():\n"
    "    return wg.models.MLP(4, [3])\n"
)


def test_a_label_out_of_range_is_told(capsys, tmp_path):
    (tmp_path / "labels.py").write_text(FILE.replace("LABEL", "7"))
    message = told(capsys, "train", "labels.py", status=1)
    assert re.search(r"7.*\b3\b", message) and "step 1" in message


def test_a_loss_that_is_nan_is_told(capsys, tmp_path):
    (tmp_path / "nans.py").write_text(
        FILE.replace("LABEL", "1").replace("np.ones((32, 4), np.float32)", "np.full((32, 4), np.nan, np.float32)")
    )
    assert "step 1: the loss is nan" in told(capsys, "train", "nans.py", status=1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n", "has no function data()"),
        ("def data(): return 1\ndef model(): return 2\n", "must return two or three wg.data.Dataset, not int"),
        (FILE.replace("LABEL", "1").replace("MLP(4, [3])", "MLP"), "must return a wg.nn.Module, not type"),
    ],
)
def test_mistakes_in_a_file_of_one_s_own_are_told(capsys, tmp_path, monkeypatch, text, message):
    monkeypatch.delitem(sys.modules, "own_file", raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "own_file.py").write_text(text)
    assert message in told(capsys, "train", "own_file.py", status=1)


def test_folders_and_runs_that_do_not_fit_are_told(capsys):
    told(capsys, "train", "digits", *QUICK, "--out", "here")
    assert "already has a run: continue it with --resume here" in told(
        capsys, "train", "digits", "--out", "here", status=1
    )
    assert "has finished its 1 epochs; use --epochs" in told(capsys, "train", "--resume", "here", status=1)
    other = told(capsys, "train", "mnist", "--resume", "here", "--epochs", "2", status=1)
    assert "a resumed run keeps its data" in other
    other = told(capsys, "train", "--resume", "here", "--epochs", "2", "--batch-size", "3", status=1)
    assert "a resumed run keeps its batch size" in other
    assert "is a model of digits; generate needs a text model" in told(capsys, "generate", "here", status=1)


def test_a_full_disk_is_told(tmp_path):
    script = (
        "import resource, sys\n"
        "from wengert.cli import main\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))\n"
        "sys.exit(main(['train', 'digits', '--epochs', '2', '--no-compile', '--out', 'full']))\n"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert result.returncode == 1, result.stderr
    assert re.search(r"^wengert: save: '.*step-000044.safetensors' could not be written: ", result.stderr, re.M)
    assert "Traceback" not in result.stderr
    assert os.listdir(tmp_path / "full" / "checkpoints") == []


def test_a_traceback_is_shown_where_it_is_asked_for():
    with pytest.raises(wg.errors.ArgumentError, match="no data set 'digitz'"):
        main(["train", "digitz", "--traceback"])


# --- recipes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.toml")), ids=lambda path: path.stem)
def test_recipes_are_whole_and_named_for_what_they_train(path):
    recipe = read(path)
    assert recipe.title == path.stem == built_in(recipe.data, recipe.model).title
    assert make(tomllib.loads(recipe.to_toml())) == recipe
