"""PyTorch's files: what torch writes is read, what is written torch reads, and nothing in a file is run."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import subprocess
import sys
import zipfile
from collections import OrderedDict

import ml_dtypes
import numpy as np
import pytest

import wengert as wg
from wengert.api import torch_format
from wengert.api.torch_format import DTYPES, ArchiveError, Name, RefusedError, Storage, TensorInStorage, TensorMaker
from wengert.core.errors import DeviceError, FileError

OLD = pytest.mark.parametrize("old", [False, True], ids=["zip", "old"])


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.pt"


def array_of(tensor):
    """A torch tensor's values, in NumPy's dtypes."""
    if str(tensor.dtype) == "torch.bfloat16":
        return tensor.detach().view(__import__("torch").int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.detach().resolve_conj().resolve_neg().numpy()


# --- reading --------------------------------------------------------------------------------------------------------


@OLD
def test_every_dtype_is_read(torch, path, old):
    values = {}
    for name in ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool",
                 "complex64", "complex128", "uint16", "uint32", "uint64"):  # fmt: skip
        for shape in ((), (3,), (2, 3), (0, 2)):
            values[name, shape] = (torch.arange(float(np.prod(shape))).reshape(shape) + 1).to(getattr(torch, name))
    torch.save(list(values.values()), path, _use_new_zipfile_serialization=not old)
    for (name, shape), expected, found in zip(values, values.values(), wg.load(path)):
        assert found.shape == shape and found.dtype.name == name
        assert found.numpy().tobytes() == array_of(expected).tobytes()


def test_small_floats_are_read_as_those_that_hold_them(torch, path):
    names = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "complex32"]
    values = {name: torch.tensor([1.0, 2.0, 0.5]).to(getattr(torch, name)) for name in names}
    torch.save(values, path)
    found = wg.load(path)
    assert all(tensor.tolist() == [1, 2, 0.5] for tensor in found.values())
    assert {found[name].dtype.name for name in names} == {"float16", "float32", "complex64"}


@OLD
def test_views_strides_and_shared_storages(torch, path, old):
    base = torch.arange(24.0).reshape(4, 6)
    z = torch.complex(base, -base)
    values = [
        base,
        base.T,
        base[1:3, ::2],
        base[:, 0],
        base[2],
        base[3, 5],
        base.expand(2, 4, 6),
        base[0:0],
        base.view(-1),
    ]
    values += [z.conj(), torch.complex(base, base).conj().imag, torch.nn.Parameter(base[1]), base]
    torch.save(values, path, _use_new_zipfile_serialization=not old)
    found = wg.load(path)
    for ours, theirs in zip(found, values):
        assert ours.tolist() == array_of(theirs).tolist() and ours.shape == theirs.shape
        assert ours.requires_grad == theirs.requires_grad
    assert found[0] is found[-1]
    assert np.shares_memory(found[0].numpy(), found[4].numpy())  # a row
    assert path.stat().st_size < 8000


@OLD
def test_containers_and_other_values(torch, path, old):
    values = {
        "dict": {1: None, "a": True, 2.5: (1, (2, []))}, "set": {1, 2}, "bytes": b"ab\xff", "big": 1 << 80, "neg": -5,
        "array": bytearray(b"xy"), "z": 1 + 2j, "text": "ünï\ud800", "ordered": OrderedDict(b=1, a=2),
        "size": torch.Size([2, 3]), "dtype": torch.bfloat16, "device": torch.device("cuda", 1), "float": 1e-300,
        "scalar": np.float64(2.5), "numpy": np.arange(6, dtype=">i4").reshape(2, 3)[:, ::-1], "long": list(range(3000)),
    }  # fmt: skip
    torch.save(values, path, _use_new_zipfile_serialization=not old)
    found = wg.load(path)
    numpy, expected = found.pop("numpy"), values.pop("numpy")
    assert numpy.tolist() == expected.tolist()
    assert found.pop("dtype") is wg.bfloat16 and values.pop("dtype") and found.pop("device") == "cuda:1"
    values.pop("device")
    assert found == values and type(found["ordered"]) is OrderedDict and type(found["scalar"]) is np.float64


def test_a_training_state_is_read(torch, path):
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    optimizer = {"state": {0: {"step": torch.tensor(1.0), "exp_avg": torch.ones(4, 3)}}, "param_groups": [{"lr": 0.1}]}
    torch.save({"model": model.state_dict(), "optimizer": optimizer, "epoch": 3}, path)
    found = wg.load(path)
    ours = wg.nn.Sequential(wg.nn.Linear(3, 4), wg.nn.BatchNorm1d(4))
    ours.load_state_dict(found["model"])
    x = torch.randn(2, 3)
    assert np.allclose(ours.eval()(wg.tensor(x.numpy())).detach().numpy(), model.eval()(x).detach().numpy(), atol=1e-6)
    assert found["model"]._metadata["0"] == {"version": 1}
    assert found["optimizer"]["state"][0]["exp_avg"].shape == (4, 3) and found["epoch"] == 3


def test_tensors_of_a_file_can_be_trained(torch, path):
    torch.save([torch.nn.Parameter(torch.ones(3)), torch.ones(4)[:2]], path)
    w, part = wg.load(path)
    (w * 2).sum().backward()
    assert w.grad.tolist() == [2, 2, 2]
    part += 1
    assert part.tolist() == [2, 2]


def test_map_location(torch, path):
    torch.save({"a": torch.ones(2), "b": torch.zeros(1)}, path)
    wg.save(path.with_suffix(".safetensors"), {"a": wg.ones(2), "b": [wg.zeros(1)]})
    seen = []

    def to_host(storage, location):
        seen.append((location, storage.nbytes))
        return storage

    for file in (path, path.with_suffix(".safetensors")):
        for where in (None, "cpu", {"cuda:0": "cpu"}, to_host, lambda storage, location: None, torch.device("cpu")):
            assert wg.load(file, map_location=where)["a"].device == "cpu"
        assert wg.load(file, map_location=lambda storage, location: storage.cpu())["a"].device == "cpu"
        with pytest.raises(DeviceError):
            wg.load(file, map_location=lambda storage, location: storage.cuda(77))
        for where in ("nowhere", {"cpu": "nowhere"}, lambda storage, location: "nowhere"):
            with pytest.raises(DeviceError, match="nowhere"):
                wg.load(file, map_location=where)
    assert ("cpu", 8) in seen


def test_a_file_of_a_gpu_comes_to_the_host(path):
    write_pickle(
        path,
        b"\x80\x02"
        + tensor_code(
            b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x06\x00\x00\x00cuda:3K\x02t"
        ),
        {"data/0": bytes(8)},
    )
    assert wg.load(path).device == "cpu"
    with pytest.raises(DeviceError):
        wg.load(path, map_location={"cuda:3": "nowhere"})


# --- writing --------------------------------------------------------------------------------------------------------


def test_what_is_saved_torch_reads(torch, path):
    shared = wg.ones((3, 4))
    names = [name for name in DTYPES if hasattr(wg, name)]
    assert "bool" in names and len(names) == 15
    tree = {
        "all": [wg.tensor([1, 0, 2]).to(getattr(wg, name)) for name in names],
        "empty": wg.zeros((0, 2)), "scalar": wg.tensor(2.5), "twice": [shared, shared], "array": np.arange(3),
        "rest": (1, None, True, "x", 1.5, 1 << 70, {"k": []}, 2j), "grad": wg.ones(2).requires_grad_(),
    }  # fmt: skip
    wg.save(path, tree)
    found = torch.load(path, weights_only=True)
    for ours, theirs in zip(tree["all"], found["all"]):
        assert str(theirs.dtype) == f"torch.{ours.dtype.name}" and ours.numpy().tobytes() == array_of(theirs).tobytes()
    assert found["empty"].shape == (0, 2) and found["scalar"].shape == () and found["rest"] == tree["rest"]
    first, second = found["twice"]
    first[0, 0] = 7
    assert second[0, 0] == 7 and found["grad"].requires_grad and found["array"].tolist() == [0, 1, 2]
    again = wg.load(path)
    assert again["twice"][0] is again["twice"][1] and again["rest"] == tree["rest"]
    for mmap in (True, False):
        assert torch.load(path, mmap=mmap, weights_only=True)["scalar"].item() == 2.5
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None and "model/data.pkl" in archive.namelist()


def test_views_and_parameters_are_written_as_described(torch):
    base = np.arange(12, dtype=np.float32)
    storage = Storage("", base.view(np.uint8), DTYPES["float32"], "cpu")

    class View(tuple):
        pass

    def describe(value):
        return TensorInStorage(storage, DTYPES["float32"], *value) if isinstance(value, View) else None

    views = {"a": View((0, (3, 4), (4, 1))), "t": View((1, (4, 2), (1, 4))), "p": View((2, (3,), (2,), True, True))}
    file = io.BytesIO()
    torch_format.write(file, {**views, "d": Name("torch", "int64")}, describe=describe)
    file.seek(0)
    found = torch.load(file, weights_only=True)
    assert found["d"] is torch.int64 and isinstance(found["p"], torch.nn.Parameter) and found["p"].tolist() == [2, 4, 6]
    assert found["t"].stride() == (1, 4) and found["t"].storage_offset() == 1
    found["a"][0, 1] = 50
    assert found["t"][0, 0] == 50
    file.seek(0)
    stored = torch_format.read(file, make=lambda x: x, make_parameter=lambda x, grad: x._replace(is_parameter=grad))
    assert stored["t"].storage is stored["a"].storage and stored["t"].strides == (1, 4) and stored["p"].is_parameter
    assert np.shares_memory(stored["t"].array(), stored["a"].array())


def test_a_failed_save_leaves_the_old_file(path):
    wg.save(path, {"a": wg.ones(1)})
    with pytest.raises(ValueError, match="a file can hold dicts"):
        wg.save(path, {"a": object()})
    assert wg.load(path)["a"].tolist() == [1] and os.listdir(path.parent) == ["model.pt"]
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        wg.save(path.parent / "none" / "x.pt", {})


def test_torch_is_not_needed(path):
    script = (
        "import sys; sys.modules['torch'] = None\n"
        "import wengert as wg\n"
        f"wg.save({str(path)!r}, [wg.ones(2)]); print(wg.load({str(path)!r})[0].tolist())\n"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout == "[1.0, 1.0]\n"


# --- anything -------------------------------------------------------------------------------------------------------


class Own:
    """Something of the user's, at module level as pickle wants it."""

    def __init__(self, x):
        self.x = x

    def __eq__(self, other):
        return self.x == other.x


def read(file, **options):
    maker = TensorMaker(False)
    return torch_format.read(file, make=maker.tensor, make_parameter=maker.parameter, **options)


@OLD
def test_with_weights_only_false_anything_is_read(torch, path, old, monkeypatch):
    class Made:
        def __setstate__(self, state):
            self.state = state

    wanted = []

    def find(module, name):
        wanted.append(f"{module}.{name}")
        return Made if name in ("Linear", "Sequential") else None

    module = torch.nn.Sequential(torch.nn.Linear(2, 3))
    torch.save({"own": Own([1]), "module": module, "w": torch.ones(2)}, path, _use_new_zipfile_serialization=not old)
    monkeypatch.setitem(sys.modules, Own.__module__, sys.modules[__name__])
    with pytest.raises(RefusedError, match=r"refers to [\w.]*test_torch_files\.Own"):
        wg.load(path)
    found = read(path, weights_only=False, find=find)
    assert found["own"] == Own([1]) and found["w"].tolist() == [1, 1] and isinstance(found["module"], Made)
    linear = found["module"].state["_modules"]["0"].state["_parameters"]
    assert linear["weight"].tolist() == module[0].weight.tolist() and linear["weight"].requires_grad
    assert "torch.nn.modules.linear.Linear" in wanted
    with pytest.raises(RefusedError, match=r"torch\.nn\.modules\.container\.Sequential"):
        read(path, weights_only=False)


def test_names_can_be_allowed(torch, path, monkeypatch):
    monkeypatch.setitem(sys.modules, Own.__module__, sys.modules[__name__])
    torch.save([Own({"a": torch.ones(1)}), torch.Size([2])], path)
    names = {f"{Own.__module__}.Own": Own, "torch.Size": lambda sizes: ("size", *sizes)}
    own, size = read(path, names=names)
    assert own.x["a"].tolist() == [1] and size == ("size", 2)


# --- hostile files --------------------------------------------------------------------------------------------------


def write_pickle(path, content, records=None, **options):
    with zipfile.ZipFile(path, "w", **options) as archive:
        archive.writestr("m/data.pkl", content)
        archive.writestr("m/version", "3\n")
        for name, data in (records or {}).items():
            archive.writestr(f"m/{name}", data)


def tensor_code(pid, size=b"K\x02\x85", stride=b"K\x01\x85", offset=b"K\x00"):
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + pid + b"Q" + offset + size + stride + b"\x89}tR."


STORAGE = b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x02t"


class Runs:
    def __init__(self, function, *args):
        self.call = function, args

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (Runs(os.system, "touch exploded"), r"(posix|nt)\.system"),
        (Runs(eval, "open('exploded', 'w')"), r"builtins\.eval"),
        (Runs(exec, "open('exploded', 'w')"), r"builtins\.exec"),
        (Runs(getattr, "x", "upper"), r"builtins\.getattr"),
        (Runs(subprocess.call, ["touch", "exploded"]), r"subprocess\.call"),
        (Runs(open, "exploded", "w"), r"(_io|io)\.open"),
        (Runs(np.load, "x"), r"numpy\.load"),
        ({"a": [Runs(__import__, "os")]}, r"builtins\.__import__"),
    ],
)
@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_nothing_in_a_file_is_run(path, monkeypatch, value, name, protocol):
    monkeypatch.chdir(path.parent)
    write_pickle(path, pickle.dumps(value, protocol))
    with pytest.raises(RefusedError, match=rf"refused to read .*model\.pt': it refers to {name}") as raised:
        wg.load(path)
    assert isinstance(raised.value, pickle.UnpicklingError) and not (path.parent / "exploded").exists()
    legacy = torch_format.reader.MAGIC + pickle.dumps({"little_endian": True}, 2) + pickle.dumps(value, protocol)
    path.write_bytes(legacy + pickle.dumps([], 2))
    with pytest.raises(RefusedError, match=name):
        wg.load(path)
    assert not (path.parent / "exploded").exists()


CRAFTED = {
    "a dotted name": (b"\x80\x04\x8c\x05torch\x8c\x09os.system\x93.", r"torch\.os\.system"),
    "another module's name": (b"\x80\x02cnumpy.core.multiarray\nos\n.", r"numpy\.core\.multiarray\.os"),
    "a call of text": (b"\x80\x02X\x01\x00\x00\x00a)R.", "it calls 'a', which is not an allowed function"),
    "a call of a dtype": (b"\x80\x02ctorch\nfloat32\n)R.", "it calls a Float32DType"),
    "a new object of a class": (b"\x80\x02cnumpy\nndarray\n)\x81.", "not an allowed function"),
    "a method of a dict": (
        b"\x80\x02ccollections\nOrderedDict\n)R}X\x05\x00\x00\x00itemsK\x01sb.",
        "attribute 'items'",
    ),
    "a state for a list": (b"\x80\x02]}b.", "it sets the state of a list"),
    "an extension": (b"\x80\x02\x82\x01.", "the instruction"),
    "an old object": (b"(ios\nsystem\n.", "the instruction"),
    "a number in text": (b"I12\n.", "the instruction"),
    "an array of objects": (
        b"\x80\x02cnumpy\ndtype\nX\x01\x00\x00\x00O\x85R.",
        "it has a NumPy dtype 'O'",
    ),
    "a sparse tensor": (b"\x80\x02ctorch._utils\n_rebuild_sparse_tensor\n.", "it has a sparse tensor"),
    "a quantized storage": (b"\x80\x02ctorch\nQInt8Storage\n.", "dtype that Wengert does not have"),
    "a module as a storage": (b"\x80\x02X\x06\x00\x00\x00moduleNNNN(" + b"t" + b"0000" + b"Q.", "is malformed"),
    "bytes encoded by rot13": (
        b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00aX\x05\x00\x00\x00rot13\x86R.",
        "it encodes",
    ),
}


@pytest.mark.parametrize("kind", CRAFTED)
def test_crafted_pickles_are_refused(path, kind):
    content, message = CRAFTED[kind]
    write_pickle(path, content)
    with pytest.raises(FileError, match=message):
        wg.load(path)


BROKEN = {
    "nothing": b"",
    "no end": b"\x80\x02}",
    "an empty stack": b"\x80\x02.",
    "too much": b"\x80\x02NN.",
    "no mark": b"\x80\x02t.",
    "a mark as a value": b"\x80\x02(.",
    "no such note": b"\x80\x02h\x05.",
    "text that breaks off": b"\x80\x02X\xff\xff\xff\xffab.",
    "text that is none": b"\x80\x02X\x01\x00\x00\x00\xff.",
    "bytes of a terabyte": b"\x80\x04\x8e\x00\x00\x00\x00\x00\x01\x00\x00a.",
    "a list as a key": b"\x80\x02}]Ns.",
    "three items": b"\x80\x02}(NNNu.",
    "beyond its storage": b"\x80\x02" + tensor_code(STORAGE, size=b"K\x03\x85"),
    "beyond by its offset": b"\x80\x02" + tensor_code(STORAGE, offset=b"K\x01"),
    "beyond by strides": b"\x80\x02" + tensor_code(STORAGE, stride=b"K\x02\x85"),
    "a negative stride": b"\x80\x02" + tensor_code(STORAGE, stride=b"J\xff\xff\xff\xff\x85"),
    "a negative size": b"\x80\x02" + tensor_code(STORAGE, size=b"J\xff\xff\xff\xff\x85"),
    "a size of text": b"\x80\x02" + tensor_code(STORAGE, size=b"X\x01\x00\x00\x002\x85"),
    "more strides than sizes": b"\x80\x02" + tensor_code(STORAGE, stride=b"K\x01K\x01\x86"),
    "a storage of another size": b"\x80\x02" + tensor_code(STORAGE.replace(b"K\x02t", b"K\x03t")),
    "a storage that is missing": b"\x80\x02" + tensor_code(STORAGE.replace(b"\x01\x00\x00\x000", b"\x01\x00\x00\x001")),
    "a storage of 2^60 elements": b"\x80\x02"
    + tensor_code(STORAGE.replace(b"K\x02t", b"\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x10t")),
    "no storage": b"\x80\x02" + tensor_code(b"N").replace(b"NQ", b"N"),
    "a terabyte by expanding": b"\x80\x02"
    + tensor_code(STORAGE, size=b"\x8a\x06\x00\x00\x00\x00\x00\x01\x85", stride=b"K\x00\x85"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_pickles_that_make_no_sense(path, kind):
    write_pickle(path, BROKEN[kind], {"data/0": bytes(8)})
    with pytest.raises(FileError, match=r"model\.pt"):
        wg.load(path)


def nested(depth, code=b"\x86", start=b")"):
    return b"\x80\x02" + start + b"2" * 0 + (b"2" + code) * depth


def test_nested_values_take_no_time(path):
    doubled = (
        b"\x80\x02)" + b"q\x00h\x00\x86" * 200
    )  # a tuple of itself twice, 200 deep: 2^200 parts to hash or to show
    for content in (b"}".join([b"\x80\x02", doubled[2:] + b"Ns."]), doubled + b")R.", doubled + b"Q."):
        write_pickle(path, content)
        with pytest.raises(FileError):
            wg.load(path)
    write_pickle(path, b"\x80\x02" + b"]" * 50_000 + b"a" * 49_999 + b".")
    assert isinstance(wg.load(path), list)
    write_pickle(path, b"\x80\x02Nr\xff\xff\xff\xff.")  # a note at a place of four billion
    assert wg.load(path) is None


def test_bombs_are_refused(path):
    pid = STORAGE.replace(b"K\x02t", b"J\x00\x00\x00\x04t")
    code = b"\x80\x02" + tensor_code(pid)
    write_pickle(path, code, {"data/0": bytes(4 << 26)}, compression=zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 1 << 20
    with pytest.raises(ArchiveError, match="would unpack to 268,435,"):
        wg.load(path)
    write_pickle(path, b"\x80\x02" + tensor_code(STORAGE), {"data/0": bytes(8)}, compression=zipfile.ZIP_DEFLATED)
    assert wg.load(path).tolist() == [0, 0]  # packed by somebody, as one may


def test_archives_that_are_odd(path):
    good = b"\x80\x02" + tensor_code(STORAGE)
    write_pickle(path, good, {"data/0": bytes(8), "constants.pkl": b""})
    with pytest.raises(RefusedError, match="TorchScript"):
        wg.load(path)
    write_pickle(path, good, {"data/0": bytes(8), "byteorder": b"middle"})
    with pytest.raises(ArchiveError, match="its byte order is 'middle'"):
        wg.load(path)
    write_pickle(path, good, {"data/0": np.array([1, 2], ">f4").tobytes(), "byteorder": b"big"})
    assert wg.load(path).tolist() == [1, 2]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", b"")
    with pytest.raises(ArchiveError, match=r"it has no data\.pkl"):
        wg.load(path)
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(path, "w") as archive:
        archive.writestr("m/data.pkl", good)
        archive.writestr("m/data.pkl", b"\x80\x02N.")
    with pytest.raises(ArchiveError, match="a record occurs twice"):
        wg.load(path)


def test_records_may_not_lie_over_one_another(path):
    write_pickle(path, b"\x80\x02N.", {"data/0": bytes(100), "data/1": bytes(100)})
    content = bytearray(path.read_bytes())
    places = [i for i in range(len(content)) if content[i : i + 4] == b"PK\x01\x02"]
    offsets = [struct.unpack_from("<L", content, place + 42)[0] for place in places]
    struct.pack_into("<L", content, places[-1] + 42, offsets[-2])
    path.write_bytes(content)
    with pytest.raises(ArchiveError, match="does not lie within the file"):
        wg.load(path)


def test_damage_and_truncation_are_noticed(path):
    wg.save(path, {"w": wg.tensor(np.arange(300.0)), "n": 3})
    content = path.read_bytes()
    for end in (0, 1, 3, 4, 30, 100, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:end])
        with pytest.raises(FileError, match=r"model\.pt"):
            wg.load(path)
    place = content.index(np.float64(77.0).tobytes())
    path.write_bytes(content[:place] + b"\x01" + content[place + 1 :])
    with pytest.raises(ArchiveError, match="'data/0' is corrupt: its checksum does not match"):
        wg.load(path)


def test_other_pickles_are_refused(path):
    path.write_bytes(pickle.dumps({"a": 1}, 2))
    with pytest.raises(FileError, match="PyTorch file or a pickle"):
        wg.load(path)
    with pytest.raises(RefusedError, match=r"it is a pickle, but torch\.save"):
        read(path)
    np.savez(path.with_suffix(".npz"), a=np.ones(2))
    with pytest.raises(FileError, match="is a NumPy file"):
        wg.load(path.with_suffix(".npz"))


def test_an_old_file_whose_storages_do_not_fit(torch, path):
    torch.save([torch.ones(3)], path, _use_new_zipfile_serialization=False)
    content = path.read_bytes()
    for changed, message in (
        (content[:-1], "is truncated"),
        (content + b"x", "extra data after the last storage"),
        (content[:-20] + struct.pack("<q", 4) + content[-12:], "its size does not match its tensors"),
    ):
        path.write_bytes(changed)
        with pytest.raises(ArchiveError, match=message):
            wg.load(path)


# --- models in several files ----------------------------------------------------------------------------------------


@pytest.fixture
def model(tmp_path):
    for number in (1, 2):
        arrays = {f"layer{number}.w": wg.full((2,), number), f"layer{number}.b": wg.zeros(1)}
        wg.save(tmp_path / f"model-{number}.safetensors", arrays)
    places = {f"layer{n}.{part}": f"model-{n}.safetensors" for part in "wb" for n in (2, 1)}
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 24}, "weight_map": places}))
    return tmp_path, index, places


def test_a_folder_of_hugging_face_is_read(model):
    folder, index, places = model
    for path in (folder, index):
        found = wg.load(path)
        assert list(found) == list(places) and found["layer2.w"].tolist() == [2, 2]
    os.remove(index)
    os.rename(folder / "model-1.safetensors", folder / "model.safetensors")
    assert list(wg.load(folder)) == ["layer1.w", "layer1.b"]


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("../secret.safetensors", "not a file in its folder"),
        ("/etc/passwd", "not a file in its folder"),
        ("..", "not a file in its folder"),
        (3, "not a file in its folder"),
        ("model-3.safetensors", "is missing, although"),
        ("model-2.safetensors", r"has no 'layer1\.w', which"),
    ],
)
def test_an_index_that_does_not_fit(model, place, message):
    folder, index, places = model
    index.write_text(json.dumps({"weight_map": {**places, "layer1.w": place}}))
    with pytest.raises(FileError, match=message):
        wg.load(folder)
    for text in ("", "[]", "{}", '{"weight_map": 3}', "\xff", "[" * 5000):
        index.write_text(text, "latin1")
        with pytest.raises(FileError, match="is not an index"):
            wg.load(folder)


def test_an_index_of_torchs_files_is_read(torch, tmp_path):
    torch.save({"w": torch.ones(2)}, tmp_path / "pytorch_model-1.bin")
    (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": {"w": "pytorch_model-1.bin"}}))
    assert wg.load(tmp_path)["w"].tolist() == [1, 1]
