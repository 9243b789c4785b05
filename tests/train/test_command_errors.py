"""Nothing raw leaves the command: odd options, recipes and checkpoints are told, a script's errors are its own."""

from __future__ import annotations

import linecache
import os
import re
import signal
import subprocess
import sys
import time

import pytest

import wengert as wg
from wengert.cli import main
from wengert.train import Checkpoints, Recipe, Run, load_checkpoint
from wengert.train.optimizer import OPTIMIZERS

QUICK = ("--epochs", "1", "--limit", "64", "--no-compile")
OWN = """
import numpy as np
import wengert as wg

def data():
    x = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
    return wg.data.ArrayDataset(x, np.arange(40) % 3), wg.data.ArrayDataset(x[:9], np.arange(9) % 3)

def model():
    return wg.models.MLP(4, [3])
"""


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(wg.config, "tier", "interpret")
    yield
    for name in ("mine", "helper"):  # in another folder in each test
        sys.modules.pop(name, None)
    linecache.clearcache()


def failed(capsys, *arguments):
    """What the command says when it fails: a message, without a line of Wengert's own code."""
    assert main(list(arguments)) == 1
    text = capsys.readouterr().err
    assert os.path.dirname(wg.__file__) not in text and "is unexpected" not in text
    return text


# --- options and recipes --------------------------------------------------------------------------------------------


def test_a_negative_seed_is_one_as_any_other(capsys):
    assert main(["train", "digits", "--seed", "-1", *QUICK, "--out", "a"]) == 0
    assert main(["train", "digits", "--seed", str((1 << 64) - 1), *QUICK, "--out", "b"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("test")]
    assert lines[0] == lines[1]


@pytest.mark.parametrize("rate", ["1e308", "inf", "nan", "-1"])
def test_learning_rates_out_of_range_are_told(capsys, rate):
    assert re.search(
        r"^wengert: lr must be above 0 and below 1e\+38, not .*", failed(capsys, "train", "digits", "--lr", rate)
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"\xff\xfe\x00binary", "is not TOML"),
        (b"x = " + b"[" * 5000 + b"]" * 5000, "nested too deeply"),
        (b'[optimizer]\nlr = "x"', "lr must be a number, not 'x'"),
        (b"[optimizer]\nlr = 1e308", "lr must be above 0"),
        (b'[optimizer]\nname = "sgd"\nlr = 0.1\nmomentum = "x"', "momentum of the optimizer must be a number, not 'x'"),
        (b'[optimizer]\nname = "adam"\nlr = 0.1\nbetas = 3', "betas of the optimizer must be a list of numbers, not 3"),
        (b'[optimizer]\nname = "adam"\nlr = 0.1\nbetas = ["a"]', "betas of the optimizer must be a number, not 'a'"),
        (b'[optimizer]\nname = ["sgd"]\nlr = 0.1', "there is no optimizer ('sgd',)"),
        (b'[optimizer]\nname = "sgd"\nlr = 0.1\nweight_decay = 1e200', "weight decay of the optimizer must be"),
        (b'[schedule]\nname = "cosine"\nwarmup = "x"', "warmup under [schedule] must be a number, not 'x'"),
        (
            b'[schedule]\nname = "cosine"\nwarmup = nan',
            "warmup under [schedule] must be at least 0 and below 1, not nan",
        ),
        (b'[schedule]\nname = ["cosine"]', "name under [schedule] must be text, not ['cosine']"),
        (b"[augment]\ncrop = 1.5", "crop under [augment] must be an integer, not 1.5"),
        (b'[augment]\nmixup = "x"', "mixup under [augment] must be a number, not 'x'"),
        (b"[options]\nhidden = 3", "hidden under [options] must be a list of integers, not 3"),
        (b"[options]\nhidden = [0]", "hidden under [options] must be at least 1, not 0"),
        (b"[options]\nhidden = [1979-05-27]", "must be an integer"),
        (b"clip = nan", "clip must be non-negative and below 1e+38, not nan"),
        (b"clip = inf", "clip must be non-negative and below 1e+38, not inf"),
        (b"options = 3", "options must be a table, not 3"),
        (b'device = "\\u0000"', "train: '\\x00' is not a device"),
        (b'device = "float64"', "train: 'float64' is not a device; choose 'cpu'"),
    ],
)
def test_odd_recipes_are_told(capsys, tmp_path, text, message):
    (tmp_path / "odd.toml").write_bytes(b'data = "digits"\nmodel = "mlp"\n' + text)
    assert message in failed(capsys, "train", "odd.toml", *QUICK)


def test_odd_options_of_a_gpt_are_told(capsys, tmp_path):
    (tmp_path / "book.txt").write_text("abc abc\n" * 1000)
    for text, message in (
        ("[options]\nn_embd = 'x'", "n embd under [options] must be an integer, not 'x'"),
        ("[options]\nvocab_size = 3", "there is no setting in options 'vocab_size'"),
        ("[text]\nlength = 0", "length under [text] must be at least 1, not 0"),
        ("[text]\nbuckets = 'x'", "buckets under [text] must be a list of integers, not 'x'"),
        ("[text]\nvalidation = 1.5", "validation under [text] must be at least 0 and below 1, not 1.5"),
    ):
        (tmp_path / "odd.toml").write_text(f'data = "text"\nmodel = "gpt"\nfile = "book.txt"\n{text}\n')
        assert message in failed(capsys, "train", "odd.toml")


def test_the_defaults_of_every_optimizer_are_settings():
    import inspect

    from wengert.train.settings import like

    for made in OPTIMIZERS.values():
        for parameter in list(inspect.signature(made).parameters.values())[1:]:
            expected = like(parameter.default)
            if expected is not None:
                expected.check(parameter.name, parameter.default)


def test_tuning_a_function_without_its_inputs_is_told(capsys, tmp_path):
    (tmp_path / "mine.py").write_text("def f(x):\n    return x\ny = 3\n")
    text = failed(capsys, "tune", "mine.py:f")
    assert "missing a required argument: 'x'" in text and "wengert tune mine.py:f x" in text
    assert "y is a int, not a function" in failed(capsys, "tune", "mine.py:y")


# --- scripts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "last"),
    [
        ("{}['missing']", "KeyError: 'missing'"),
        ("raise RuntimeError('so it is')", "RuntimeError: so it is"),
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("open('nowhere.txt')", "FileNotFoundError: [Errno 2] No such file or directory: 'nowhere.txt'"),
        ("wg.tensor('x' * 10**9 if 0 else 3).no_such", None),
    ],
)
def test_an_error_of_a_script_is_shown_as_its_own(capsys, tmp_path, body, last):
    (tmp_path / "mine.py").write_text(f"import wengert as wg\ndef inner():\n    {body}\ninner()\n")
    for command in (["profile", "mine.py"], ["view", "mine.py:inner", "--no-open"], ["train", "mine.py"]):
        text = failed(capsys, *command)
        assert text.startswith("Traceback (most recent call last):\n")
        assert re.findall(r'mine\.py", line (\d+), in (\S+)', text) == [("4", "<module>"), ("3", "inner")]
        if last is not None:
            assert text.endswith(f"\n{last}\n")


def test_a_script_s_syntax_error_is_shown_as_python_shows_it(capsys, tmp_path):
    (tmp_path / "mine.py").write_text("x = 1\ny = (\n")
    for command in (["profile", "mine.py"], ["view", "mine.py:x", "--no-open"], ["train", "mine.py"]):
        text = failed(capsys, *command)
        assert 'mine.py", line 2' in text and "y = (" in text and "SyntaxError: '(' was never closed" in text


def test_what_is_no_text_is_no_script(capsys, tmp_path):
    for content in (b"x = 1\0\n", b"x = '\xff\xfe'\n"):
        (tmp_path / "mine.py").write_bytes(content)
        for command in (["profile", "mine.py"], ["view", "mine.py:x", "--no-open"], ["train", "mine.py"]):
            text = failed(capsys, *command)
            assert "SyntaxError" in text or "a script is not Python" in text


def test_an_error_in_a_step_or_a_helper_shows_the_script_s_frames_alone(capsys, tmp_path):
    (tmp_path / "helper.py").write_text("def loss(scores):\n    raise KeyError('nothing here')\n")
    objective = "\nimport helper\ndef objective(model, x, y):\n    return helper.loss(model(x))\n"
    (tmp_path / "mine.py").write_text(OWN + objective)
    text = failed(capsys, "train", "mine.py")
    assert re.findall(r'File ".*?(\w+\.py)", line \d+, in (\w+)', text) == [
        ("mine.py", "objective"),
        ("helper.py", "loss"),
    ]
    assert text.endswith("KeyError: 'nothing here'\n")


def test_the_causes_of_a_script_s_error_are_shown(capsys, tmp_path):
    (tmp_path / "mine.py").write_text("try:\n    {}[1]\nexcept KeyError as e:\n    raise ValueError('two') from e\n")
    text = failed(capsys, "profile", "mine.py")
    assert "KeyError: 1" in text and "direct cause" in text and text.endswith("ValueError: two\n")


# --- checkpoints ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The state of a short run."""
    recipe = Recipe(data="digits", model="mlp", epochs=2, limit=64, compile=False, options={"hidden": [4]})
    run = Run(recipe, tmp_path_factory.mktemp("run"))
    for _ in range(run.updates_per_epoch):
        run.update()
    return {"kind": "wengert training", "version": 1, **load_checkpoint(run.save())}


ODD = [None, -5, 3, "x", [], [1, 2], {}, {"a": 1}, {"a": [None]}, 1.5, float("nan"), True, (1,)]


@pytest.mark.parametrize("name", [
    "step", "recipe", "model", "optimizer", "scaler", "random", "order", "evaluated", "waited", "best", "history",
    "epoch_sums", "tokenizer",
])  # fmt: skip
def test_checkpoints_with_missing_or_odd_fields_are_told(capsys, tmp_path, trained, name):
    path = tmp_path / "odd.safetensors"
    refused = 0
    for value in ["missing", *ODD]:
        state = dict(trained)
        if value == "missing":
            del state[name]
        else:
            state[name] = value
        wg.save(path, state)
        for command in (["eval", str(path)], ["generate", str(path)], ["train", "--resume", str(path), "--out", "out"]):
            status = main(command)
            text = capsys.readouterr().err
            assert "is unexpected" not in text and "Traceback" not in text
            assert status in (0, 1) and bool(text) == bool(status)
            refused += bool(status)
    assert refused >= 14


def test_odd_parts_within_a_checkpoint_are_told(capsys, tmp_path, trained):
    path = tmp_path / "odd.safetensors"
    parts = {
        ("optimizer", "param_groups"): [None, [], [3], [{}], [{"params": 3}], [{"params": [0, 1], "lr": "x"}]],
        ("optimizer", "state"): [None, [], {0: 3}, {0: {"exp_avg": "x"}}, {0: {"step": wg.ones(3)}}],
        ("model", "layers.0.weight"): [None, "x", 3, wg.ones(2), [1.0]],
        ("random", "key"): [None, "x", wg.ones(2), wg.ones((3, 3))],
        ("order", "batch"): [-1, 10**9, "x"],
        ("recipe", "data"): [None, 3, "", "nothing", []],
        ("recipe", "options"): [None, {"hidden": 3}, {"hidden": [9]}],
        ("recipe", "batch_size"): [0, -1, "x"],
    }
    for (field, name), values in parts.items():
        for value in values:
            wg.save(path, {**trained, field: {**trained[field], name: value}})
            for command in (["eval", str(path)], ["train", "--resume", str(path), "--out", "out"]):
                status = main(command)
                text = capsys.readouterr().err
                assert "is unexpected" not in text and "Traceback" not in text, (field, name, value)
                assert bool(text) == bool(status)


def test_counts_that_no_run_has_do_not_train_for_ever(capsys, tmp_path, trained):
    path = tmp_path / "odd.safetensors"
    wg.save(path, {**trained, "step": 10**6})
    assert "does not fit epochs of" in failed(capsys, "train", "--resume", str(path), "--out", "out")


# --- trust ----------------------------------------------------------------------------------------------------------


def test_a_checkpoint_runs_the_script_it_names_only_where_it_is_trusted(capsys, tmp_path):
    (tmp_path / "mine.py").write_text(OWN + "\nopen('was_run', 'w')\n")
    assert main(["train", "mine.py", "--epochs", "1", "--no-compile", "--out", "run"]) == 0
    capsys.readouterr()
    (tmp_path / "was_run").unlink()
    del sys.modules["mine"]
    text = failed(capsys, "eval", "run")
    assert "names the Python file 'mine.py'" in text and "wengert eval run --trust" in text
    text = failed(capsys, "train", "--resume", "run", "--epochs", "2")
    assert "wengert train mine.py --resume run" in text
    assert not (tmp_path / "was_run").exists()
    assert main(["eval", "run", "--trust"]) == 0
    assert main(["train", "mine.py", "--resume", "run", "--epochs", "2"]) == 0  # named by who runs it
    assert main(["train", "--resume", "run", "--epochs", "3", "--trust"]) == 0
    assert (tmp_path / "was_run").exists()


# --- signals and prompts --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "status"), [("SIGTERM", 143), ("SIGINT", 130)])
def test_a_signal_saves_and_is_told_by_the_exit_status(tmp_path, name, status):
    (tmp_path / "mine.py").write_text(OWN)
    options = ["--epochs", "100000", "--no-compile", "--out", "run"]
    command = [sys.executable, "-m", "wengert.cli", "train", "mine.py", *options]
    with subprocess.Popen(command, stdout=-1, stderr=-1, text=True) as process:
        deadline = time.monotonic() + 60
        while not Checkpoints("run/checkpoints").steps() and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(getattr(signal, name))
        _, text = process.communicate(timeout=60)
    assert process.returncode == status, text
    assert "and saved" in text and "resume with: wengert train mine.py --resume run" in text
    step = int(re.search(r"stopped at step (\d+)", text)[1])
    assert load_checkpoint("run")["step"] == step


def test_text_is_generated_without_a_prompt_whatever_the_alphabet(capsys, tmp_path):
    (tmp_path / "book.txt").write_text("abcabcabd" * 200)  # no new line, no space
    (tmp_path / "small.toml").write_text(
        'data = "text"\nmodel = "gpt"\nfile = "book.txt"\nepochs = 1\nbatch_size = 16\ncompile = false\n'
        "[text]\nlength = 16\n[options]\nn_embd = 8\nn_layer = 1\nn_head = 1\n"
    )
    assert main(["train", "small.toml", "--out", "gpt"]) == 0
    capsys.readouterr()
    assert main(["generate", "gpt", "--tokens", "5"]) == 0
    assert re.fullmatch(r"a[abcd]{5}\n", capsys.readouterr().out)
    for arguments, message in (
        (("--tokens", "-1"), "tokens is -1; it cannot be negative"),
        (("--temperature", "nan"), "the temperature must be above 0, not nan"),
        (("--top-k", "0"), "top_k"),
        (("--prompt", ""), "the prompt is empty"),
    ):
        assert message in failed(capsys, "generate", "gpt", *arguments)
    assert main(["generate", "gpt", "--tokens", "2", "--seed", "-3"]) == 0
