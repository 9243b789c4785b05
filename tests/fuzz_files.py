"""The fuzzer of files: small files with random damage; a load gives what was saved, to the bit, or raises our error.

    python -m tests.fuzz_files [COUNT] [SEED]

There are five kinds of files. What `save` wrote has checksums: damage must be noticed. A description that was changed
and signed anew is what no `save` writes: it must be read or refused. Files of other programs have no checksums: what is
read must be what the safetensors library reads. PyTorch's archives have checksums of their records: what is read must
be what was saved. One with a damaged pickle and right checksums must be read or refused, and so must one of the older
form, which has none.
"""

from __future__ import annotations

import copy
import io
import json
import os
import pickle
import random
import re
import struct
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import wengert as wg
from wengert.api.files import write_described
from wengert.api.torch_format.reader import MAGIC
from wengert.core.errors import WengertError

Draw = random.Random
SHOWN = 20  # of the failures


def comparable(tree: Any) -> Any:
    """A tree as something that `==` compares to the bit."""
    if isinstance(tree, wg.Tensor):
        return "tensor", tree.dtype.name, tree.shape, tree.numpy().tobytes()
    if isinstance(tree, dict):
        return "dict", [(key, comparable(value)) for key, value in tree.items()]
    if isinstance(tree, (list, tuple)):
        return type(tree).__name__, [comparable(value) for value in tree]
    return type(tree).__name__, repr(tree)


# --- what is damaged ------------------------------------------------------------------------------------------------


def saved_trees() -> list[Any]:
    """What is saved: weights, a state as a training keeps it, numbers, odd keys, nothing at all."""
    rng = np.random.default_rng(0)
    shared = wg.tensor(rng.normal(size=(3,)))
    return [
        {
            "layers": [{"weight": wg.tensor(rng.normal(size=(4, 3)).astype(np.float32)), "bias": wg.zeros(4)}],
            "epoch": 3,
        },
        {
            "kind": "wengert training",
            "optimizer": {"state": {0: {"step": wg.tensor(5)}}, "param_groups": [{"betas": (0.9, 0.99)}]},
            "best": None,
            "history": [{"kind": "train", "step": 1, "loss": 0.5}],
            "tied": [shared, shared],
        },
        [wg.tensor(rng.integers(0, 2, 9).astype(bool)), wg.tensor([1 + 2j]), wg.zeros((0, 3)), float("nan"), 1 << 70],
        {"\ud800": wg.tensor([1.0]), "a.b": 1, "a": {"b": wg.tensor([2], dtype=wg.uint8)}, -3: (True, "ünï", 2j)},
        wg.tensor(rng.normal(size=(2, 2))).to(wg.bfloat16),
        None,
    ]


def foreign_files() -> list[bytes]:
    """Files of other programs, with small floats among them."""
    arrays = {
        "a": ("F32", [2, 3], np.arange(6, dtype=np.float32).tobytes()),
        "b": ("F8_E4M3", [4], np.arange(4).astype(ml_dtypes.float8_e4m3fn).tobytes()),
        "c": ("I64", [], np.int64(7).tobytes()),
        "d": ("F4", [2, 2], b"\x10\x32"),
        "e": ("BOOL", [3], b"\x00\x01\x01"),
    }
    return [_foreign(arrays, {}), _foreign({"a": arrays["a"]}, {"format": "pt"}), _foreign({}, {})]


def _foreign(arrays: dict[str, Any], metadata: dict[str, str]) -> bytes:
    header: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    data = b""
    for name, (dtype, shape, content) in arrays.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


# --- damage ---------------------------------------------------------------------------------------------------------

ODD_VALUES: list[Any] = [
    None, True, 0, -1, 1, 2**31, 2**63, 2**64, 10**30, 1.5, float("inf"), float("nan"), "", "F32", "F8_E5M2", "F6_E2M3",
    "BOOL", "wengert", "x" * 50, "\ud800", [], [0], [1] * 70, [-1], [2**40, 2**40], [[1]], {}, {"dict": 3},
    {"tensor": "a"}, {"list": [1]}, {"float": "x"},
]  # fmt: skip


def bit_flip(content: bytes, draw: Draw) -> bytes:
    """A bit, or a few, the other way round."""
    data = bytearray(content)
    for _ in range(draw.choice([1, 1, 1, 2, 8])):
        data[_place(data, draw)] ^= 1 << draw.randrange(8)
    return bytes(data)


def byte_edit(content: bytes, draw: Draw) -> bytes:
    """Bytes removed, doubled, zeroed, exchanged or replaced."""
    data = bytearray(content)
    place, length = _place(data, draw), draw.choice([1, 2, 8, 64])
    kind = draw.randrange(5)
    if kind == 0:
        del data[place : place + length]
    elif kind == 1:
        data[place:place] = data[place : place + length]
    elif kind == 2:
        data[place : place + length] = bytes(len(data[place : place + length]))
    elif kind == 3:
        other = draw.randrange(len(data))
        data[place], data[other] = data[other], data[place]
    else:
        data[place] = draw.randrange(256)
    return bytes(data)


def _place(data: bytearray, draw: Draw) -> int:
    """A place to damage; mostly in the header, which says the most."""
    header = min(8 + int.from_bytes(data[:8], "little"), len(data))
    return draw.randrange(header if draw.random() < 0.7 else len(data))


def truncation(content: bytes, draw: Draw) -> bytes:
    """The file cut off, at its beginning or its end, or with more behind it."""
    kind = draw.randrange(3)
    if kind == 0:
        return content[: draw.randrange(len(content))]
    return content[draw.randrange(1, 40) :] if kind == 1 else content + draw.randbytes(draw.choice([1, 8, 100]))


def length_edit(content: bytes, draw: Draw) -> bytes:
    """Another length of the header."""
    (length,) = struct.unpack("<Q", content[:8])
    kind = draw.randrange(3)
    chosen = [max(length + draw.randint(-9, 9), 0), draw.randrange(1 << 64), 1 << draw.randrange(64)][kind]
    return struct.pack("<Q", chosen) + content[8:]


def header_edit(content: bytes, draw: Draw) -> bytes:
    """Something in the header's JSON replaced, removed or renamed, the rest of the file as it was."""
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    for _ in range(draw.choice([1, 1, 2])):
        _edit(header, draw)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + content[8 + length :]


def _edit(tree: Any, draw: Draw) -> None:
    """Change one place of nested dicts and lists."""
    while True:
        keys = list(tree) if isinstance(tree, dict) else list(range(len(tree)))
        if not keys:
            return
        key = draw.choice(keys)
        if isinstance(tree[key], (dict, list)) and tree[key] and draw.random() < 0.8:
            tree = tree[key]
            continue
        kind = draw.randrange(4)
        if kind == 0 and key != "__metadata__":  # without its metadata a file of ours is one of another program
            del tree[key]
        elif kind == 1 and isinstance(tree, dict):
            tree[f"{key}{draw.choice('_x')}"] = tree.pop(key) if key != "__metadata__" else 1
        elif kind == 2 and isinstance(tree[key], str) and tree[key]:
            tree[key] = bit_flip_text(tree[key], draw)
        elif key != "__metadata__":
            tree[key] = copy.deepcopy(draw.choice(ODD_VALUES))
        return


def bit_flip_text(text: str, draw: Draw) -> str:
    """A text with one character changed."""
    place = draw.randrange(len(text))
    return text[:place] + chr(ord(text[place]) ^ (1 << draw.randrange(7))) + text[place + 1 :]


def anywhere(content: bytes, draw: Draw) -> bytes:
    """A bit the other way round, or bytes exchanged, wherever it may be."""
    data = bytearray(content)
    for _ in range(draw.choice([1, 1, 2, 4])):
        place = draw.randrange(len(data))
        kind = draw.randrange(4)
        if kind == 0:
            data[place] ^= 1 << draw.randrange(8)
        elif kind == 1:
            data[place] = draw.choice(PICKLE_CODES)
        elif kind == 2:
            del data[place : place + draw.choice([1, 2, 8])]
        else:
            data[place:place] = data[place : place + draw.choice([1, 4, 40])]
        data = data or bytearray(b"x")
    return bytes(data)


PICKLE_CODES = (
    b"\x80\x81\x85\x86\x87\x88\x8a\x8b\x8c\x8d\x8e\x8f\x90\x91\x93\x94\x95\x96()0128BCGJKMNQRTUX]abcdehjlqrstu}."
)
DAMAGES: list[Callable[[bytes, Draw], bytes]] = [bit_flip, byte_edit, truncation, length_edit, header_edit]
TORCH_DAMAGES: list[Callable[[bytes, Draw], bytes]] = [anywhere, anywhere, truncation]


# --- what must hold -------------------------------------------------------------------------------------------------


class Fuzzer:
    """Damages files, loads them, and counts what came of it. `failures` has what must not be."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "file.safetensors"
        self.counts: Counter[str] = Counter()
        self.failures: list[str] = []
        self.own = [(self._content_of(tree), comparable(self._loaded(tree))) for tree in saved_trees()]
        self.foreign = foreign_files()
        self.path = folder / "file.pt"
        self.torch = [(self._content_of(tree), comparable(self._loaded(tree))) for tree in saved_trees()]
        self.old = [old_torch_file(content) for content, _ in self.torch]
        self.path = folder / "file.safetensors"

    def _content_of(self, tree: Any) -> bytes:
        wg.save(self.path, tree)
        return self.path.read_bytes()

    def _loaded(self, tree: Any) -> Any:
        wg.save(self.path, tree)
        return wg.load(self.path)

    def _load(self, content: bytes) -> Any:
        self.path.unlink(missing_ok=True)  # some file systems take their time to write over a file
        self.path.write_bytes(content)
        return wg.load(self.path)

    def try_one(self, seed: int) -> None:
        """One damaged file."""
        draw = Draw(seed)
        kind = draw.choices(["own", "signed", "foreign", "torch", "torch_signed", "torch_old"], [7, 1, 2, 3, 3, 2])[0]
        try:
            getattr(self, f"_try_{kind}")(draw)
        except WengertError:
            self.counts["refused"] += 1
        except BaseException as error:
            self.failures.append(f"seed {seed}, {kind}: {type(error).__name__}: {error}")
            if len(self.failures) <= SHOWN:
                print(self.failures[-1], flush=True)
            if isinstance(error, KeyboardInterrupt):
                raise

    def _try_own(self, draw: Draw) -> None:
        content, expected = draw.choice(self.own)
        assert comparable(self._load(draw.choice(DAMAGES)(content, draw))) == expected, "another value was read"
        self.counts["read as saved"] += 1

    def _try_signed(self, draw: Draw) -> None:
        """A description changed and signed anew; what it says is read, or refused."""
        content, _ = draw.choice(self.own)
        (length,) = struct.unpack("<Q", content[:8])
        described = [json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["structure"])]
        for _ in range(draw.choice([1, 2, 4])):
            _edit(described, draw)
        arrays = {"a": np.ones(3), "tensor": np.zeros((2, 2)), "layers.0.bias": np.ones(4, np.float32)}
        write_described(self.path, arrays, json.dumps(described[0] if described else None))
        wg.load(self.path)
        self.counts["signed anew and read"] += 1

    def _try_foreign(self, draw: Draw) -> None:
        content = draw.choice(DAMAGES)(draw.choice(self.foreign), draw)
        found = self._load(content)
        for name, array in _by_library(content).items():
            tensor = found[name].numpy()
            assert tensor.shape == array.shape, f"{name} has another shape"
            assert array.dtype == bool or tensor.tobytes() == array.tobytes(), f"{name} is read as something else"
        self.counts["of other programs, read"] += 1

    def _try_torch(self, draw: Draw) -> None:
        content, expected = draw.choice(self.torch)
        assert comparable(self._load(draw.choice(TORCH_DAMAGES)(content, draw))) == expected, "another value was read"
        self.counts["of PyTorch, read as saved"] += 1

    def _try_torch_signed(self, draw: Draw) -> None:
        """A pickle that was changed, in an archive whose checksums are right; it is read or refused."""
        content, _ = draw.choice(self.torch)
        file = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(file, "w") as new:
            for info in old.infolist():
                data = old.read(info)
                new.writestr(info.filename, anywhere(data, draw) if info.filename.endswith("data.pkl") else data)
        comparable(self._load(file.getvalue()))
        self.counts["of PyTorch, changed and read"] += 1

    def _try_torch_old(self, draw: Draw) -> None:
        comparable(self._load(draw.choice(TORCH_DAMAGES)(draw.choice(self.old), draw)))
        self.counts["of an old PyTorch, read"] += 1


def old_torch_file(content: bytes) -> bytes:
    """An archive of PyTorch in the form that its files had before 1.6."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        records = {info.filename.split("/", 1)[1]: archive.read(info) for info in archive.infolist()}
    keys = sorted(name[5:] for name in records if name.startswith("data/"))
    sizes: dict[str, int] = {}
    for match in re.finditer(
        rb"X\x01\x00\x00\x00(\d)(?:q.)?(?:X.{4}cpu(?:q.)?|h.)(?:K(.)|M(..))t", records["data.pkl"], re.S
    ):
        sizes[match[1].decode()] = int.from_bytes(match[2] or match[3], "little")
    value = re.sub(rb"t(q.)?Q", lambda match: b"Nt" + match[0][1:], records["data.pkl"], flags=re.S)
    parts = [MAGIC, pickle.dumps({"little_endian": True}, 2), value, pickle.dumps(keys, 2)]
    parts += [struct.pack("<q", sizes.get(key, 0)) + records[f"data/{key}"] for key in keys]
    return b"".join(parts)


def _by_library(content: bytes) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of a file that we read, as the library reads them; those of dtypes that NumPy has."""
    import safetensors

    parts = dict(safetensors.deserialize(content))
    names = {"F16": "f2", "F32": "f4", "F64": "f8", "I8": "i1", "I16": "i2", "I32": "i4", "I64": "i8", "BOOL": "?"}
    known = {name: part for name, part in parts.items() if part["dtype"] in names}
    return {
        name: np.frombuffer(bytes(part["data"]), names[part["dtype"]]).reshape(part["shape"])
        for name, part in known.items()
    }


def main(count: int = 10_000, seed: int = 0) -> int:
    """Load `count` damaged files; the number of failures."""
    in_memory = "/dev/shm" if os.path.isdir("/dev/shm") else None  # where files are written quickly
    with tempfile.TemporaryDirectory(dir=in_memory) as folder:
        fuzzer = Fuzzer(Path(folder))
        for number in range(seed, seed + count):
            fuzzer.try_one(number)
            if (number + 1 - seed) % 10_000 == 0 or number + 1 == seed + count:
                print(
                    f"{number + 1 - seed:,} files: {dict(fuzzer.counts)}, {len(fuzzer.failures)} failures", flush=True
                )
    return len(fuzzer.failures)


if __name__ == "__main__":
    sys.exit(min(main(*map(int, sys.argv[1:3])), 1))
