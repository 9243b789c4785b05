"""Odd files and odd values: nothing raw leaves `load` or `save`, no checksum is switched off, float8 files load."""

from __future__ import annotations

import json
import os
import struct

import ml_dtypes
import numpy as np
import pytest

import wengert as wg
from wengert.core.errors import ArgumentError, FileError, WengertError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "odd.safetensors"


def write(path, header, data=b""):
    """A file with this header, given as an object or as bytes."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def parts(path):
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + length]), content[8 + length :]


# --- checksums ------------------------------------------------------------------------------------------------------


def test_no_flipped_bit_of_the_header_turns_the_checksums_off(path):
    tree = {"w": wg.tensor([1.0, 2.0]), "epoch": 3}
    wg.save(path, tree)
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    for place in range(8 + length):
        for bit in range(8):
            damaged = bytearray(content)
            damaged[place] ^= 1 << bit
            path.unlink()
            path.write_bytes(damaged)
            try:
                loaded = wg.load(path)
            except FileError:
                continue
            assert loaded.keys() == tree.keys() and loaded["epoch"] == 3 and loaded["w"].tolist() == [1.0, 2.0]


@pytest.mark.parametrize("kept", ["format", "structure", "checksums", "checksum"])
def test_a_trace_of_our_description_is_enough_to_ask_for_all_of_it(path, kept):
    wg.save(path, {"w": wg.tensor([1.0])})
    header, data = parts(path)
    metadata = header["__metadata__"]
    header["__metadata__"] = {kept: metadata[kept]}
    write(path, header, data)
    with pytest.raises(FileError, match="is corrupt"):
        wg.load(path)


def test_the_description_of_another_program_is_no_concern(path):
    header = {
        "__metadata__": {"format": "pt", "version": "7"},
        "w": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},
    }
    write(path, header, b"\x05")
    assert wg.load(path)["w"].tolist() == [5]


# --- small floats ---------------------------------------------------------------------------------------------------

EIGHT_BITS = {
    "F8_E4M3": (ml_dtypes.float8_e4m3fn, wg.float16),
    "F8_E5M2": (ml_dtypes.float8_e5m2, wg.float16),
    "F8_E4M3FNUZ": (ml_dtypes.float8_e4m3fnuz, wg.float16),
    "F8_E5M2FNUZ": (ml_dtypes.float8_e5m2fnuz, wg.float16),
    "F8_E8M0": (ml_dtypes.float8_e8m0fnu, wg.float32),
}


@pytest.mark.parametrize("name", EIGHT_BITS)
def test_every_value_of_eight_bits_is_loaded_exactly(path, name):
    small, wide = EIGHT_BITS[name]
    data = bytes(range(256))
    write(path, {"x": {"dtype": name, "shape": [16, 16], "data_offsets": [0, 256]}}, data)
    loaded = wg.load(path)["x"]
    assert loaded.dtype is wide and loaded.shape == (16, 16)
    expected = np.frombuffer(data, small).astype(np.float64).reshape(16, 16)
    np.testing.assert_array_equal(loaded.numpy().astype(np.float64), expected)


def test_float4_has_two_values_a_byte_the_first_in_the_low_bits(path):
    write(path, {"x": {"dtype": "F4", "shape": [2, 4], "data_offsets": [0, 4]}}, bytes([0x10, 0x32, 0x7F, 0x8E]))
    loaded = wg.load(path)["x"]
    assert loaded.dtype is wg.float16
    assert loaded.tolist() == [[0.0, 0.5, 1.0, 1.5], [-6.0, 6.0, -4.0, -0.0]]


def test_torchs_float8_files_load(path):
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    values = torch.tensor([[0.5, -448.0], [1.75, 0.0]])
    save_file({"w": values.to(torch.float8_e4m3fn), "s": values.to(torch.float8_e5m2)}, path)
    loaded = wg.load(path)
    assert loaded["w"].tolist() == values.tolist()
    assert loaded["s"].tolist() == values.to(torch.float8_e5m2).float().tolist()


def test_dtypes_that_have_no_order_in_a_byte_are_refused_by_name(path):
    write(path, {"x": {"dtype": "F6_E2M3", "shape": [4], "data_offsets": [0, 3]}}, bytes(3))
    with pytest.raises(FileError, match="the tensor 'x' has the dtype 'F6_E2M3'"):
        wg.load(path)


# --- odd headers ----------------------------------------------------------------------------------------------------

GOOD = {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}


@pytest.mark.parametrize(
    ("header", "data", "message"),
    [
        (b'{"a":' * 5000 + b"1" + b"}" * 5000, b"", "cannot be parsed"),
        (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", b"", "cannot be parsed"),
        ({"x": {"dtype": "F32", "shape": [1] * 200, "data_offsets": [0, 4]}}, bytes(4), "has 200 dimensions"),
        ({"x": {"dtype": "F32", "shape": [0, 2**63], "data_offsets": [0, 0]}}, b"", "the tensor 'x' has the shape"),
        ({"x": {"dtype": "F32", "shape": [2**62, 2**62], "data_offsets": [0, 4]}}, bytes(4), "does not fit"),
        ({"x": {"dtype": "F32", "shape": [-1, -1], "data_offsets": [0, 4]}}, bytes(4), "the tensor 'x' has the shape"),
        ({"x": {"dtype": "F32", "shape": [1.0], "data_offsets": [0, 4]}}, bytes(4), "the tensor 'x' has the shape"),
        ({"x": {"dtype": "F32", "shape": [True], "data_offsets": [0, 4]}}, bytes(4), "the tensor 'x' has the shape"),
        ({"x": {"dtype": "F32", "shape": "3", "data_offsets": [0, 4]}}, bytes(4), "the tensor 'x' has the shape"),
        ({"x": {"dtype": 7, "shape": [1], "data_offsets": [0, 4]}}, bytes(4), "the tensor 'x' has the dtype 7"),
        ({"x": {"dtype": ["F32"], "shape": [1], "data_offsets": [0, 4]}}, bytes(4), "the tensor 'x' has the dtype"),
        ({"x": {"dtype": "F32", "shape": [1], "data_offsets": [0]}}, bytes(4), "cannot be parsed"),
        ({"x": {"dtype": "F32", "shape": [1], "data_offsets": [0.0, 4.0]}}, bytes(4), "cannot be parsed"),
        ({"x": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}}, bytes(4), "cannot be parsed|bytes, but"),
        ({"x": {"dtype": "F32", "shape": [1], "data_offsets": [-4, 0]}}, b"", "overlap or leave"),
        ({"x": GOOD, "y": GOOD}, b"\x01", "overlap or leave"),
        ({"x": GOOD, "y": {**GOOD, "data_offsets": [2, 3]}}, b"\x01\x02\x03", "overlap or leave"),
        ({"x": {"shape": [1], "data_offsets": [0, 1]}}, b"\x01", "cannot be parsed"),
        ({"x": None}, b"", "cannot be parsed"),
        (b'{"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"x":{}}', b"\x01", "cannot be parsed"),
        ({"x": {"dtype": "F4", "shape": [3], "data_offsets": [0, 2]}}, bytes(2), "does not fit"),
        (b'{"x\xff":1}', b"", "cannot be parsed"),
        (b'{"x":1', b"", "cannot be parsed"),
        (b'{"\\ud800":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', b"\x01", "cannot be parsed"),
        (b'{"__metadata__":{"a":"\\ud800"}}', b"", "cannot be parsed"),
        (b'{"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"y":NaN}}', b"\x01", "cannot be parsed"),
        (b'{"x":' + b"9" * 5000 + b"}", b"", "cannot be parsed"),
        ({"__metadata__": [1], "x": GOOD}, b"\x01", "cannot be parsed"),
        ({"__metadata__": {"format": 3}, "x": GOOD}, b"\x01", "cannot be parsed"),
    ],
)
def test_odd_headers_are_refused(path, header, data, message):
    write(path, header, data)
    with pytest.raises(FileError, match=message):
        wg.load(path)


def test_files_that_the_library_reads_are_read_alike(path):
    numpy_files = pytest.importorskip("safetensors.numpy")
    rng = np.random.default_rng(0)
    arrays = {f"t{i}": rng.normal(size=shape).astype(kind) for i, (shape, kind) in enumerate(
        [((3, 4), "f4"), ((), "f8"), ((0, 5), "f2"), ((7,), "i1"), ((2, 2), "c8"), ((5,), "?"), ((3,), "u8")]
    )}  # fmt: skip
    numpy_files.save_file(arrays, path, {"made": "elsewhere"})
    loaded = wg.load(path)
    assert loaded.keys() == arrays.keys()
    for name, array in arrays.items():
        assert loaded[name].dtype == array.dtype and loaded[name].numpy().tobytes() == array.tobytes()


def signed(path, structure, arrays=None):
    """A file as `save` writes it, with right checksums, of any description."""
    from wengert.api import files

    files.write_described(path, arrays or {}, json.dumps(structure) if not isinstance(structure, str) else structure)


@pytest.mark.parametrize(
    "structure",
    [
        "[" * 5000 + "]" * 5000,
        '{"list": [' * 2000 + "]}" * 2000,
        {"dict": [[["unhashable"], 1]]},
        {"dict": [[1.5, 1]]},
        {"dict": [1]},
        {"dict": 5},
        {"list": 5},
        {"tensor": "missing"},
        {"tensor": ["x"]},
        {"complex tensor": "x"},
        {"complex tensor": "scalar"},
        {"float": [1]},
        {"float": 10**400},
        {"complex": ["1"]},
        {"complex": 5},
        {"int": "seven"},
        {"unknown": 1},
        {},
        {"list": [], "tuple": []},
        [1, 2],
    ],
    ids=lambda structure: str(structure)[:30],
)
def test_odd_descriptions_with_right_checksums_are_refused(path, structure):
    signed(path, structure, {"x": np.ones(3), "scalar": np.array(2.0)})
    with pytest.raises(FileError, match="description does not match"):
        wg.load(path)


# --- odd values -----------------------------------------------------------------------------------------------------


def nested(depth, leaf=None):
    tree = leaf
    for _ in range(depth):
        tree = [tree]
    return tree


def test_containers_may_be_nested_a_hundred_deep_and_not_a_thousand(path):
    wg.save(path, nested(100, wg.tensor([1.0])))
    tree = wg.load(path)
    for _ in range(100):
        (tree,) = tree
    assert tree.tolist() == [1.0]
    path.unlink()
    for depth in (1000, 100_000):
        with pytest.raises(ArgumentError, match="nested more than 100 deep"):
            wg.save(path, nested(depth))
    assert not path.exists()


def test_a_container_that_holds_itself_is_named(path):
    inner = {"here": []}
    inner["here"].append(inner)
    with pytest.raises(ArgumentError, match=r"the value at 'top.here.0' is a container that contains itself"):
        wg.save(path, {"top": inner})
    shared = [1]
    wg.save(path, [shared, shared, {"again": shared}])  # the same in two places is none in itself
    assert wg.load(path) == [[1], [1], {"again": [1]}]


@pytest.mark.parametrize(
    "key", ["\ud800", "a\udfffb", "\0", "\n", '"', "\u2028", "", "__metadata__", "é", "\\", -1, 10**30], ids=ascii
)
def test_odd_keys_come_back(path, key):
    wg.save(path, {key: wg.tensor([1.0]), "text": str(key)})
    loaded = wg.load(path)
    assert list(loaded) == [key, "text"] and loaded[key].tolist() == [1.0] and loaded["text"] == str(key)


def test_keys_that_have_one_name_in_the_file_do_not_collide(path):
    tree = {"\ud800": wg.tensor(1), "\\ud800": wg.tensor(2), "?": wg.tensor(3)}
    wg.save(path, tree)
    assert [value.item() for value in wg.load(path).values()] == [1, 2, 3]


def test_integers_of_any_length_come_back(path):
    numbers = [10**5000, -(10**5000), 1 << 60, 1 << 1999, 1 << 2000]
    wg.save(path, numbers)
    assert wg.load(path) == numbers


def test_keys_of_any_length_come_back(path):
    wg.save(path, {10**5000: 1, "x" * 100_000: wg.tensor(2)})
    assert [str(key)[:1] if type(key) is str else key == 10**5000 for key in wg.load(path)] == [True, "x"]


class Text(str):
    pass


class Sneaky(dict):
    def items(self):
        return [("a", object())]


@pytest.mark.parametrize(
    "value", [Text("x"), Sneaky(), {"a": object}, np.array([None]), np.datetime64("2020"), {1, 2}, b"x"]
)
def test_odd_values_come_back_or_are_refused(path, value):
    try:
        wg.save(path, value)
    except WengertError:
        assert not path.exists()
        return
    assert wg.load(path) == value


@pytest.mark.parametrize("bad", ["a\0b", 3, None, b"bytes", "\ud800"], ids=ascii)
def test_paths_that_are_none_are_refused(bad):
    with pytest.raises(ArgumentError, match="path"):
        wg.load(bad)
    with pytest.raises(ArgumentError, match="path"):
        wg.save(bad, 1)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes are POSIX's")
def test_what_is_no_file_is_refused_without_waiting(path):
    os.mkfifo(path)
    with pytest.raises(FileError, match="is not a file of tensors, but a pipe"):
        wg.load(path)
    with pytest.raises(IsADirectoryError):
        wg.load(path.parent)
