"""Saving and loading: everything comes back as it was, files are whole or not there, and damage is named."""

from __future__ import annotations

import json
import os
import pickle
import stat
import struct
import subprocess
import sys
from collections import OrderedDict, namedtuple
from dataclasses import dataclass

import numpy as np
import pytest

import wengert as wg
from wengert.core.errors import ArgumentError, DTypeError, FileError

DTYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
]  # fmt: skip


@pytest.fixture
def path(tmp_path):
    return tmp_path / "saved.safetensors"


def same(a, b):
    """Equal in structure, types, dtypes, shapes and bits."""
    if isinstance(a, wg.Tensor):
        a, b = a.numpy(), b.numpy()
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, dict):
        return type(b) is dict and list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and (a == b or a != a)


# --- there and back -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0,), (2, 0, 3)])
def test_every_dtype_and_shape_comes_back(path, dtype, shape):
    x = wg.tensor(np.arange(np.prod(shape)).reshape(shape)).to(dtype)
    wg.save(path, x)
    assert same(x, wg.load(path))


def test_special_values_come_back_bit_by_bit(path):
    x = wg.tensor(np.array([np.nan, -np.inf, -0.0, 5e-324]))
    z = wg.tensor(np.array([complex(np.nan, 1), complex(-0.0, np.inf)]))
    wg.save(path, [x, z])
    assert same([x, z], wg.load(path))


def test_nested_containers_come_back(path):
    tree = {
        "model": {"layers": [{"weight": wg.tensor([[1.0, 2.0]]), "bias": wg.tensor(0.5)}, (), {}]},
        "moments": {0: (wg.tensor([1]), wg.tensor([2])), 7: None},
        "epoch": 3,
        "big": 1 << 200,
        "rates": [0.1, float("inf"), float("nan"), -0.0, 1e-320],
        "phase": complex(1.5, float("-inf")),
        "done": False,
        "name": 'ünïcode "quoted"\n',
    }
    wg.save(path, tree)
    assert same(tree, wg.load(path))


@pytest.mark.parametrize("value", [None, 3, "text", 2.5, True, [], {}, ()])
def test_a_container_need_hold_no_tensors(path, value):
    wg.save(path, value)
    assert same(value, wg.load(path))


def test_torchs_order_of_arguments_gets_the_one_here(path):
    with pytest.raises(ArgumentError, match=r"the path comes first: write wg\.save\(path, tree\)"):
        wg.save({"weight": wg.ones(2)}, path)
    assert not path.exists()


def test_awkward_keys_do_not_collide(path):
    tree = {"a.b": wg.tensor(1), "a": {"b": wg.tensor(2)}, "__metadata__": wg.tensor(3), "": wg.tensor(4), 1: 5, "1": 6}
    wg.save(path, tree)
    assert same(tree, wg.load(path))


def test_a_tensor_in_two_places_is_stored_once(path):
    tied = wg.tensor(np.ones(1000))
    wg.save(path, {"in": tied, "out": tied})
    loaded = wg.load(path)
    assert loaded["in"] is loaded["out"]
    assert path.stat().st_size < 2 * tied.nbytes


def test_pending_tracked_and_moved_values_are_saved(path):
    x = wg.tensor(np.arange(6.0).reshape(2, 3), requires_grad=True)
    wg.save(path, [x, x.T, x * 2, x[:, ::2]])
    loaded = wg.load(path)
    assert [t.tolist() for t in loaded] == [t.tolist() for t in (x, x.T, x * 2, x[:, ::2])]
    assert not loaded[0].requires_grad


def test_arrays_are_saved_as_tensors(path):
    wg.save(path, {"array": np.arange(3, dtype=">i4"), "scalar": np.float32(2)})
    loaded = wg.load(path)
    assert loaded["array"].tolist() == [0, 1, 2] and loaded["array"].dtype is wg.int32
    assert loaded["scalar"].shape == () and loaded["scalar"].dtype is wg.float32


def test_loaded_tensors_can_be_trained(path):
    wg.save(path, {"w": wg.tensor([1.0, 2.0])})
    w = wg.load(path)["w"].requires_grad_()
    (w * w).sum().backward()
    with wg.no_grad():
        w -= w.grad * 0.5
    assert w.tolist() == [0.0, 0.0]


def test_a_generator_goes_on_where_it_was(path):
    generator = wg.random.Generator(4)
    wg.random.normal((3,), generator=generator)
    wg.save(path, generator.state())
    expected = wg.random.normal((3,), generator=generator).tolist()
    assert wg.random.normal((3,), generator=wg.random.Generator(0).set_state(wg.load(path))).tolist() == expected


def test_dict_subclasses_come_back_as_dicts(path):
    wg.save(path, OrderedDict(b=1, a=2))
    assert same({"b": 1, "a": 2}, wg.load(path))


# --- with other programs --------------------------------------------------------------------------------------------


def test_files_of_others_are_a_flat_dict(path):
    from safetensors.numpy import save_file

    save_file({"layer.weight": np.ones((2, 3), np.float32), "step": np.array(7)}, path, {"format": "pt"})
    loaded = wg.load(path)
    assert sorted(loaded) == ["layer.weight", "step"]
    assert loaded["step"].item() == 7 and loaded["layer.weight"].dtype is wg.float32


def test_others_read_the_tensors_by_their_paths(path):
    from safetensors.numpy import load_file

    wg.save(path, {"layers": [{"weight": wg.tensor([1.0, 2.0])}]})
    assert load_file(path)["layers.0.weight"].tolist() == [1.0, 2.0]


def test_torch_reads_bfloat16(path):
    pytest.importorskip("torch")
    from safetensors.torch import load_file, save_file

    wg.save(path, {"w": wg.tensor([1.5, -2.0]).to(wg.bfloat16)})
    theirs = load_file(path)["w"]
    assert str(theirs.dtype) == "torch.bfloat16" and theirs.tolist() == [1.5, -2.0]
    save_file({"w": theirs * 2}, path)
    assert wg.load(path)["w"].tolist() == [3.0, -4.0]


# --- writing --------------------------------------------------------------------------------------------------------


def test_a_failed_save_leaves_the_old_file(path, monkeypatch):
    wg.save(path, {"version": 1})
    monkeypatch.setattr(os, "replace", lambda *a: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        wg.save(path, {"version": 2})
    assert wg.load(path) == {"version": 1}
    assert os.listdir(path.parent) == [path.name]


def test_saving_replaces_the_file_and_leaves_nothing_beside_it(path):
    for version in (1, 2):
        wg.save(str(path), {"version": version, "x": wg.tensor(np.zeros(100))})
    assert wg.load(str(path))["version"] == 2
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's")
def test_a_saved_file_has_the_usual_permissions(path):
    path.with_name("plain").touch()
    wg.save(path, 1)
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(path.with_name("plain").stat().st_mode)


def test_places_that_cannot_be_written(path):
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        wg.save(path / "missing" / "x", 1)
    with pytest.raises(IsADirectoryError, match="is a folder"):
        wg.save(path.parent, 1)


Point = namedtuple("Point", "x y")


@dataclass
class Settings:
    rate: float


@pytest.mark.parametrize(
    ("tree", "error", "message"),
    [
        ({"a": [Settings(0.1)]}, ArgumentError, r"the value at 'a.0' is a Settings; .* dataclasses.asdict"),
        ({"a": Point(1, 2)}, ArgumentError, "the value at 'a' is a Point"),
        (object(), ArgumentError, "the value is a object"),
        ({(1, 2): 3}, ArgumentError, r"has the key \(1, 2\); keys must be strings or integers"),
        ({"a": {True: 3}}, ArgumentError, "the value at 'a' has the key True"),
        ({"a": np.array(["x"])}, DTypeError, "the value at 'a'"),
        ({"a": lambda: 0}, ArgumentError, "is a function"),
    ],
)
def test_what_a_file_cannot_hold_is_named(path, tree, error, message):
    with pytest.raises(error, match=message):
        wg.save(path, tree)
    assert not path.exists()


# --- damage ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def saved(path):
    wg.save(path, {"layer": {"weight": wg.tensor(np.arange(50.0)), "bias": wg.tensor([1.0])}, "epoch": 3})
    return path


def test_no_truncated_file_is_read(saved):
    whole = saved.read_bytes()
    for size in [0, 1, 7, 8, 9, 50, *range(100, len(whole), 97), len(whole) - 1]:
        saved.write_bytes(whole[:size])
        with pytest.raises(FileError, match="truncated" if size else "empty"):
            wg.load(saved)


def test_appended_bytes_are_noticed(saved):
    size = saved.stat().st_size
    saved.write_bytes(saved.read_bytes() + b"x")
    with pytest.raises(FileError, match=f"was altered: it has {size + 1} bytes, but its header describes {size}"):
        wg.load(saved)


def test_an_altered_tensor_is_named(saved):
    data = bytearray(saved.read_bytes())
    data[-20] ^= 1
    saved.write_bytes(data)
    with pytest.raises(FileError, match=r"is corrupt: the checksum of the tensor 'layer.(weight|bias)' does not match"):
        wg.load(saved)


def rewritten(path, change):
    """The file with its header changed."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    change(header)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length :])


def describe_other_tensor(header):
    structure = header["__metadata__"]["structure"].replace("layer.bias", "layer.none")
    header["__metadata__"]["structure"] = structure


def change_a_number(header):
    structure = header["__metadata__"]["structure"]
    assert '["epoch", 3]' in structure
    header["__metadata__"]["structure"] = structure.replace('["epoch", 3]', '["epoch", 8]')


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (describe_other_tensor, "does not match its tensors: 'layer.none'"),
        (lambda h: h["__metadata__"].update(structure="{"), "does not match its tensors"),
        (lambda h: h["__metadata__"].pop("structure"), "does not match its tensors: 'structure'"),
        (lambda h: h["__metadata__"].update(version="2"), "has format version 2; this Wengert reads version 1"),
        (change_a_number, "the checksum of its description does not match"),
        (lambda h: h["layer.bias"].update(dtype="I32"), "the checksum of the tensor 'layer.bias' does not match"),
        (lambda h: h["layer.weight"].update(shape=[5, 10]), "the checksum of the tensor 'layer.weight' does not match"),
        (lambda h: h["layer.bias"].update(dtype="F77"), "the tensor 'layer.bias' has the dtype 'F77'"),
        (lambda h: h.update({"layer.bias": 3}), "its header cannot be parsed"),
    ],
)
def test_an_altered_header_is_noticed(saved, change, message):
    rewritten(saved, change)
    with pytest.raises(FileError, match=message):
        wg.load(saved)


def test_other_files_are_refused(path):
    path.write_bytes(b"not tensors at all, but text")
    with pytest.raises(FileError, match="is not a safetensors file"):
        wg.load(path)
    with pytest.raises(FileNotFoundError):
        wg.load(path.with_name("missing"))
    np.save(path.with_suffix(".npy"), np.ones(2))
    np.savez(path.with_suffix(".npz"), x=np.ones(2))
    for suffix in (".npy", ".npz"):
        with pytest.raises(FileError, match=r"is a NumPy file; read it with np.load"):
            wg.load(path.with_suffix(suffix))


class Bomb:
    def __reduce__(self):
        return os.system, ("touch exploded",)


def test_pickles_are_refused_and_never_run(path, monkeypatch):
    monkeypatch.chdir(path.parent)
    for protocol in (2, 3, 4, 5):
        path.write_bytes(pickle.dumps(Bomb(), protocol))
        with pytest.raises(FileError, match="PyTorch file or a pickle"):
            wg.load(path)
    assert not path.with_name("exploded").exists()


@pytest.mark.parametrize("length", [640, 896, 1152, 1408])
def test_a_header_whose_length_begins_like_a_pickle_is_read(path, length):
    """The first bytes of a file are its header's length: 640 is 80 02, with which pickles begin."""
    tree = {"x": wg.ones(2), "note": ""}
    wg.save(path, tree)
    wg.save(path, {**tree, "note": " " * (length - int.from_bytes(path.read_bytes()[:8], "little"))})
    assert path.read_bytes()[:2] == length.to_bytes(2, "little")
    assert wg.load(path)["x"].tolist() == [1.0, 1.0]


def test_neither_saving_nor_loading_needs_safetensors(path):
    script = (
        "import sys; sys.modules['safetensors'] = None\n"
        "import wengert as wg\n"
        f"wg.save({str(path)!r}, [wg.ones(2)]); print(wg.load({str(path)!r})[0].tolist())\n"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout == "[1.0, 1.0]\n"
