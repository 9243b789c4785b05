"""Copies beside the work, and times by marks, on an emulated GPU."""

from __future__ import annotations

import gc
import json
from pathlib import Path

import numpy as np
import pytest

import wengert as wg
from tests.backends.emulated import EmulatedDriver
from tests.kernels.emulator import compiler
from wengert.backends.cuda import copies
from wengert.data import ArrayDataset, DataLoader
from wengert.inspect import spans, table
from wengert.inspect.model import as_data
from wengert.inspect.recorded import record
from wengert.runtime.debug.profile import profile

pytestmark = [
    pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler to emulate kernels with"),
    pytest.mark.usefixtures("gpu"),
]


@pytest.fixture(autouse=True)
def _own_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """No streams of other tests, and a ceiling that is not measured."""
    monkeypatch.setattr(copies, "_lanes", {})
    monkeypatch.setattr(table, "ceiling", lambda device="cpu": table.Ceiling(1e9, 1e9, 2e9))


def test_an_upload_is_a_copy_of_any_array() -> None:
    array = np.arange(24).reshape(4, 6)[:, ::2]
    uploaded = wg.cuda.upload(array)
    expected = array.copy()
    array[...] = 0
    assert uploaded.device == "cuda:0" and (uploaded.numpy() == expected).all()
    assert wg.cuda.upload(np.zeros((0, 3))).shape == (0, 3)
    with pytest.raises(wg.errors.DTypeError, match="dtype object cannot become a tensor"):
        wg.cuda.upload(np.array([None]))


def test_blocks_are_used_again(gpu: EmulatedDriver) -> None:
    for i in range(20):
        assert wg.cuda.upload(np.full(1000, i)).numpy()[0] == i
    assert len(copies._lanes["cuda:0"].blocks) <= 1


def test_pinned_memory_is_read_where_it_lies_and_given_back(gpu: EmulatedDriver) -> None:
    gc.collect()  # what other tests left
    held = len(gpu.blocks)
    array = wg.cuda.pinned((3, 4), wg.float64)
    assert array.shape == (3, 4) and copies.is_pinned(array[1:]) and not copies.is_pinned(array[:, 1:])
    array[...] = 7
    assert (wg.cuda.upload(array).numpy() == 7).all()
    assert not copies._lanes["cuda:0"].blocks
    copies._lanes.clear()
    del array
    gc.collect()
    assert len(gpu.blocks) == held


def test_a_download_is_what_the_value_was_then() -> None:
    x = wg.cuda.upload(np.arange(6.0).reshape(2, 3))
    before = wg.cuda.transfers()["downloads"]
    found = wg.cuda.download(x)
    x.assign(x * 0)
    assert found.numpy().tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]] and found.numpy() is found.numpy()
    assert wg.cuda.transfers()["downloads"] == before + 1
    assert float(wg.cuda.download(wg.cuda.upload(np.float32(2.5)))) == 2.5
    assert wg.cuda.download(wg.cuda.upload(np.zeros((0, 2)))).numpy().shape == (0, 2)
    with pytest.raises(wg.errors.DeviceError, match="on the host already"):
        wg.cuda.download(wg.ones(2))


def test_a_download_tells_of_an_index_out_of_range() -> None:
    table, rows = wg.cuda.upload(np.ones((4, 3))), wg.cuda.upload(np.array([0, 7]))
    found = wg.cuda.download(wg.take(table, rows, axis=0))
    with pytest.raises(wg.errors.OutOfRangeError, match="gather"):
        found.numpy()


@pytest.mark.parametrize("options", [{}, {"prefetch": 0}], ids=str)
def test_a_loader_gives_the_same_batches_on_a_gpu(options: dict[str, int]) -> None:
    data = ArrayDataset(np.arange(70).reshape(7, 10), np.arange(7))
    there, here = (DataLoader(data, 2, shuffle=True, device=device, **options) for device in ("cuda", "cpu"))
    for loader in (there, here):
        next(iter(loader))  # and on from the second
    for _ in range(2):
        found = [[part.tolist() for part in batch] for batch in there]
        assert found == [[part.tolist() for part in batch] for batch in here]
        assert there.state_dict() == here.state_dict()
    for loader in (there, here):
        loader.close()


def step(x: wg.Tensor) -> wg.Tensor:
    return wg.tanh(x @ x).sum(axis=1)


@pytest.mark.parametrize("compiled", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_profile_has_a_row_for_each_kernel(compiled: bool, tmp_path: Path) -> None:
    function = wg.compile(step) if compiled else step
    x = wg.cuda.upload(np.ones((8, 8)))
    function(x).numpy()
    with wg.profile() as p:
        for i in range(3):
            function(wg.cuda.upload(np.full((8, 8), float(i)))).numpy()
    rows = p.rows("kernel")
    assert {row.device for row in rows.values()} == {"cuda:0"} and {row.count for row in rows.values()} == {3}
    product = next(row for name, row in rows.items() if name.startswith("matmul"))
    assert product.flops >= 3 * 2 * 8**3 and product.half == 0 and product.moved >= 3 * 2 * 8 * 8 * 8
    assert all("test_cuda_copies.py" in line for line in p.rows("line"))
    assert "ceiling: 1.0 GB/s" in p.table() and "cuda:0: tensors hold" in p.table()
    told = json.loads(p.trace(tmp_path / "trace.json").read_text())["traceEvents"]
    names = {event["tid"]: event["args"]["name"] for event in told if event["ph"] == "M"}
    shown = [names[event["tid"]] for event in told if event["ph"] == "X"]
    assert shown.count("copies to cuda:0") == 3 and shown.count("cuda:0") == sum(row.count for row in rows.values())


def test_a_timeline_has_kernels_and_copies_by_the_clock_of_the_host() -> None:
    function = wg.compile(step)
    x = wg.cuda.upload(np.ones((8, 8)))
    function(x).numpy()
    with wg.inspect.timeline() as timeline:
        function(wg.cuda.upload(np.full((8, 8), 2.0))).numpy()
    (one,) = timeline.ranks
    kernels = one.of(spans.COMPUTE)
    assert [kernel.name.split()[0] for kernel in kernels] == ["matmul", "sum"]
    assert [copy.name for copy in one.of(spans.COPY)] == ["copy of 512 B"]
    assert all(0 <= span.start < span.stop <= one.stop for span in kernels)
    assert all("test_cuda_copies.py" in kernel.line for kernel in kernels)


def test_a_programs_kernels_are_timed_one_by_one() -> None:
    x = wg.tensor(np.ones((8, 8)), device="cuda")
    kernels = profile(wg.compile(step), x)
    assert [kernel.name.split()[0] for kernel in kernels] == ["matmul", "sum"]
    assert all(0 < kernel.seconds < 10 for kernel in kernels) and kernels[0].flops == 2 * 8**3


def test_the_page_of_a_program_on_a_gpu_has_its_passes_kernels_and_memory(tmp_path: Path) -> None:
    compiled = wg.compile(step)
    x = wg.tensor(np.ones((8, 8)), device="cuda")
    with wg.profile() as p:
        compiled(x)
    text = wg.inspect.page(compiled, tmp_path / "step.html", x, profile=p).read_text()
    data = json.loads(text.split("const model = ")[1].split(";</script>")[0])
    found = data["compiler"]
    assert found["language"] == "CUDA"
    names = [each["name"] for each in found["passes"]]
    assert names[0] == "recorded" and names[-1] == "fuse"
    assert [kernel["name"].split()[0] for kernel in found["kernels"]] == ["matmul", "sum"]
    assert all("__global__" in k["source"] and k["seconds"] > 0 and k["nodes"] for k in found["kernels"])
    assert [moment["live"] for moment in found["memory"]] == [8 * 8 * 8] * 2


@pytest.mark.parametrize("compiled", [False, True])
def test_the_op_that_makes_the_first_nan_is_named(compiled: bool) -> None:
    def root(x: wg.Tensor) -> wg.Tensor:
        return wg.sqrt(x).sum() * 2

    function = wg.compile(root) if compiled else root
    with wg.debug_nans():
        assert function(wg.tensor([4.0, 9.0], wg.float64, device="cuda")).item() == 10
        with pytest.raises(wg.errors.NaNError, match=r"sqrt produced 1 NaN of 2 elements from inputs in \[-4, 9\]"):
            function(wg.tensor([-4.0, 9.0], wg.float64, device="cuda")).item()


def test_the_page_of_a_tensor_on_a_gpu_shows_its_values() -> None:
    x = wg.tensor(np.arange(1.0, 9.0).reshape(1, 1, 2, 4), device="cuda", requires_grad=True)
    y = wg.max_pool2d(x, 2).sum()
    assert y.item() == 14
    for recorded in (record(y, (), {}), record(lambda x: wg.max_pool2d(x, 2).sum(), (x,), {})):
        told = as_data(recorded)["forward"]
        assert told[-1]["value"]["shown"] == ["14"]
        assert next(node for node in told if node["op"] == "max_pool")["value"]["parts"][0]["max"] == "8"
