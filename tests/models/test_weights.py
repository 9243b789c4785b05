"""Weights from safetensors files by name: what fits is loaded, what does not is listed and changes nothing."""

from __future__ import annotations

import json

import ml_dtypes
import numpy as np
import pytest

import wengert as wg
from wengert.models import GPT, MLP, GPTConfig, load_weights, resnet18

safetensors = pytest.importorskip("safetensors.numpy", reason="safetensors, the extra `files`, is not installed")

SIZES = {"vocab_size": 31, "n_positions": 16, "n_embd": 8, "n_layer": 2, "n_head": 2}


def arrays(model):
    return {name: np.array(value.detach().numpy()) for name, value in model.state_dict().items()}


def same(a, b):
    return all(np.array_equal(value, arrays(b)[name]) for name, value in arrays(a).items())


def test_a_file_of_another_program_loads_by_name(tmp_path):
    trained, fresh = resnet18(5, stem="cifar"), resnet18(5, stem="cifar")
    trained.bn1.running_mean.assign(wg.ones(64))
    trained.bn1.num_batches_tracked.assign(7)
    safetensors.save_file(arrays(trained), tmp_path / "resnet.safetensors")
    assert load_weights(fresh, tmp_path / "resnet.safetensors") == ([], [])
    assert same(trained, fresh)
    assert fresh.bn1.num_batches_tracked.item() == 7


def test_a_file_in_half_precision_fills_the_model_s_own_dtype(tmp_path):
    trained, fresh = MLP(3, [4, 1]), MLP(3, [4, 1])
    half = {name: value.astype(np.float16) for name, value in arrays(trained).items()}
    safetensors.save_file(half, tmp_path / "half.safetensors")
    load_weights(fresh, str(tmp_path / "half.safetensors"))
    for name, value in arrays(fresh).items():
        assert value.dtype == np.float32
        np.testing.assert_array_equal(value, half[name].astype(np.float32))


def test_a_file_in_bfloat16_loads(tmp_path):
    fresh = MLP(3, [4, 1])
    half = {name: value.astype(ml_dtypes.bfloat16) for name, value in arrays(MLP(3, [4, 1])).items()}
    wg.save(tmp_path / "half.safetensors", half)
    load_weights(fresh, tmp_path / "half.safetensors")
    np.testing.assert_array_equal(arrays(fresh)["layers.0.weight"], half["layers.0.weight"].astype(np.float32))


def test_published_gpt2_files_load_though_their_names_are_shorter(tmp_path):
    """They have no prefix, the tied weight once, and the causal masks of each layer."""
    trained, fresh = GPT(GPTConfig(**SIZES)), GPT(GPTConfig(**SIZES))
    published = {name.removeprefix("transformer."): value for name, value in arrays(trained).items()}
    del published["lm_head.weight"]
    for layer in range(2):
        published[f"h.{layer}.attn.bias"] = np.tril(np.ones((1, 1, 16, 16), np.float32))
        published[f"h.{layer}.attn.masked_bias"] = np.array(-1e4, np.float32)
    safetensors.save_file(published, tmp_path / "model.safetensors")
    load_weights(fresh, tmp_path / "model.safetensors")
    assert same(trained, fresh)
    assert fresh.lm_head.weight is fresh.transformer.wte.weight


def test_a_tied_weight_may_be_there_under_either_name(tmp_path):
    trained, fresh = GPT(GPTConfig(**SIZES)), GPT(GPTConfig(**SIZES))
    state = arrays(trained)
    del state["transformer.wte.weight"]
    safetensors.save_file(state, tmp_path / "model.safetensors")
    load_weights(fresh, tmp_path / "model.safetensors")
    assert same(trained, fresh)


def test_an_index_brings_several_files_together(tmp_path):
    trained, fresh = MLP(3, [4, 4, 1]), MLP(3, [4, 4, 1])
    state = arrays(trained)
    names = sorted(state)
    for file, part in (("a.safetensors", names[:3]), ("b.safetensors", names[3:])):
        safetensors.save_file({name: state[name] for name in part}, tmp_path / file)
    placed = {name: "a.safetensors" if name in names[:3] else "b.safetensors" for name in names}
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": placed}))
    load_weights(fresh, index)
    assert same(trained, fresh)

    (tmp_path / "b.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match=r"b\.safetensors"):
        load_weights(fresh, index)
    index.write_text("{}")
    with pytest.raises(wg.errors.FileError, match="weight_map"):
        load_weights(fresh, index)


def test_what_does_not_fit_is_listed_in_one_error_and_nothing_is_loaded(tmp_path):
    model = MLP(3, [4, 1])
    before = arrays(model)
    state = {name: value + 1 for name, value in before.items()}
    state["layers.0.weight"] = np.zeros((4, 5), np.float32)
    state["layers.7.weight"] = state.pop("layers.1.weight")
    safetensors.save_file(state, tmp_path / "wrong.safetensors")
    with pytest.raises(wg.errors.ArgumentError) as raised:
        load_weights(model, tmp_path / "wrong.safetensors")
    message = str(raised.value)
    assert "wrong.safetensors" in message and "MLP" in message
    assert "1 missing from the state:\n    layers.1.weight" in message
    assert "1 not in the model:\n    layers.7.weight" in message
    assert "layers.0.weight: (4, 3) in the model, (4, 5) in the state" in message
    for name, value in arrays(model).items():
        np.testing.assert_array_equal(value, before[name])


def test_not_strict_loads_what_fits_and_says_what_did_not(tmp_path):
    trained, model = MLP(3, [4, 1]), MLP(3, [4, 1])
    state = arrays(trained)
    state["head.weight"] = state.pop("layers.1.weight")
    safetensors.save_file(state, tmp_path / "part.safetensors")
    loaded = load_weights(model, tmp_path / "part.safetensors", strict=False)
    assert loaded == (["layers.1.weight"], ["head.weight"])
    np.testing.assert_array_equal(arrays(model)["layers.0.weight"], state["layers.0.weight"])


def test_names_can_be_changed_and_left_out(tmp_path):
    trained, model = MLP(3, [4, 1]), MLP(3, [4, 1])
    state = {f"net.{name}": value for name, value in arrays(trained).items()}
    state["optimizer.step"] = np.zeros(())
    safetensors.save_file(state, tmp_path / "net.safetensors")
    load_weights(model, tmp_path / "net.safetensors", rename=lambda n: n[4:] if n.startswith("net.") else None)
    assert same(trained, model)
    with pytest.raises(wg.errors.FileError, match="more than one tensor for"):
        load_weights(model, tmp_path / "net.safetensors", rename=lambda name: "layers.0.bias")


def test_a_checkpoint_with_more_than_weights_says_what_to_take(tmp_path):
    model = MLP(3, [4, 1])
    wg.save(tmp_path / "checkpoint.safetensors", {"model": model.state_dict(), "epoch": 3})
    with pytest.raises(wg.errors.FileError, match=r"'model', 'epoch'.*load_state_dict"):
        load_weights(model, tmp_path / "checkpoint.safetensors")


def test_a_file_that_is_not_there_or_not_safetensors_raises(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_weights(MLP(3, [1]), tmp_path / "none.safetensors")
    (tmp_path / "torch.bin").write_bytes(b"PK\x03\x04" + bytes(100))
    with pytest.raises(wg.errors.FileError, match="not a PyTorch file"):
        load_weights(MLP(3, [1]), tmp_path / "torch.bin")
