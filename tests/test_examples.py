"""The examples do what their first lines say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def output_of(name, *options):
    """What an example prints."""
    command = [sys.executable, EXAMPLES / f"{name}.py", *map(str, options)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


def losses_in(text):
    return [float(loss) for loss in re.findall(r"loss +(\d+\.\d+)", text)]


def test_the_demo_learns_to_read_digits():
    text = output_of("digits")
    *epochs, last = text.splitlines()[1:]
    losses = [float(re.search(r"loss (\S+)", line)[1]) for line in epochs]
    assert losses[-1] < losses[0] / 10
    assert float(re.search(r"test accuracy (\S+)%", last)[1]) >= 95
    assert "\r" not in text  # no terminal: plain lines


def test_micrograd_s_loop_learns_its_batch():
    text = output_of("micrograd", "--steps", 60)
    losses = losses_in(text)
    assert losses[0] > 90 and losses[-1] < 40
    assert re.search(r"ms per step on cpu", text)


def test_gradients_by_hand_are_those_of_autodiff():
    text = output_of("manual_backward", "--steps", 25)
    by_hand = [float(loss) for loss in re.findall(r"by hand (\d\.\d{6})", text)]
    by_autodiff = [float(loss) for loss in re.findall(r"autodiff (\d\.\d{6})", text)]
    assert by_hand == by_autodiff and by_hand[-1] < by_hand[0] / 2
    assert 0 < float(re.search(r"gradients in 25 steps: (\S+)", text)[1]) < 1e-12


@pytest.mark.slow
def test_resnet18_takes_steps_and_reads():
    text = output_of("resnet18", "--steps", 2, "--batch", 4)
    assert "11,172,810 parameters" in text
    losses = losses_in(text)
    assert len(losses) == 2 and all(1 < loss < 5 for loss in losses)  # chance is log 10
    assert len(re.findall(r"with probability [01]\.\d\d", text)) == 6


@pytest.mark.slow
def test_resnet18_learns():
    losses = losses_in(output_of("resnet18"))
    assert len(losses) == 12 and losses[-1] < 1


def test_the_transformer_learns_and_writes():
    text = output_of("transformer", "--steps", 25)
    losses = losses_in(text)
    assert losses[0] > 3 and losses[-1] < 2
    assert len(text.split("a sample:\n")[1]) > 100


def test_ranks_of_one_learn_to_count():
    text = output_of("distributed", "--steps", 40)
    losses = losses_in(text)
    assert losses[0] > 2.5 and losses[-1] < 1.2
    assert re.search(r"1 rank, alone: the model's digest is [0-9a-f]{12}", text)


@pytest.mark.slow
def test_a_selective_state_space_is_the_same_by_steps_and_by_pairs():
    first, tree = (losses_in(output_of("mamba", "--steps", 1, "--length", 6, *how))[0] for how in ((), ("--tree",)))
    assert first > 1.9 and abs(first - tree) < 1e-3


@pytest.mark.slow
def test_a_selective_state_space_remembers_what_is_marked():
    text = output_of("mamba")
    losses = losses_in(text)
    assert losses[0] > 1.9 and losses[-1] < 0.5
    assert re.search(r"ms per step; chance is 12\.5%", text)
