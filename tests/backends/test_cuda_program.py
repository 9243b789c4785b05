"""Programs of the CUDA backend on an emulated GPU: what they compute, replay, overwrite and copy."""

from __future__ import annotations

import ctypes
import gc
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.backends.emulated import EMULATED, EmulatedDriver
from tests.compiler.test_compiled_ops import CASES
from tests.compiler.three_steps import tier
from tests.gpu.test_ops import wrong_alone
from tests.kernels.cores import emulated
from tests.kernels.emulator import compiler
from wengert.backends.cuda import interpret
from wengert.backends.cuda.dlpack import _require_contiguous, from_interface
from wengert.backends.cuda.memory import DeviceArray, download, upload
from wengert.backends.cuda.program import CAPTURED_ANEW, build
from wengert.compiler import simplify
from wengert.core import devices
from wengert.core.devices import keepers
from wengert.core.graph import Graph, now
from wengert.kernels.cuda import source
from wengert.kernels.launch import H200
from wengert.kernels.prebuilt import reductions
from wengert.ops import elementwise as e
from wengert.ops.core import placeholder
from wengert.ops.linalg import matmul

pytestmark = [
    pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler to emulate kernels with"),
    pytest.mark.usefixtures("gpu"),
]


def test_values_go_up_and_come_down() -> None:
    x = wg.tensor([[1.0, 2.0], [3.0, 4.0]], device="cuda")
    assert x.device == "cuda:0" and x.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert x.to("cpu").device == "cpu"


def test_memory_of_others_that_begins_off_the_grid_is_copied(gpu: EmulatedDriver) -> None:
    class Lent:
        def __init__(self, pointer: int) -> None:
            self.__cuda_array_interface__ = {"typestr": "<f4", "shape": (4,), "data": (pointer, False), "version": 3}

    block = gpu.allocate(64)
    gpu.upload(block, np.arange(8, dtype=np.float32))
    array, copy = from_interface(Lent(block)), from_interface(Lent(block + 4))
    assert array.pointer == block and download(array).tolist() == [0, 1, 2, 3]
    assert copy.pointer % 16 == 0 and download(copy).tolist() == [1, 2, 3, 4]
    del array, copy
    gpu.free(block)


@pytest.mark.parametrize("shape, strides", [((3, 0), [1, 1]), ((0, 3), [7, 7]), ((1, 3), [9, 1])])
def test_strides_that_reach_no_element_count_for_nothing(shape: tuple[int, ...], strides: list[int]) -> None:
    _require_contiguous(shape, strides)


def test_dlpack_copies_where_that_is_asked_for() -> None:
    class Asking:
        """What hands a tensor on as somebody who asks for something."""

        def __init__(self, tensor: wg.Tensor, **options: Any) -> None:
            self.tensor, self.options = tensor, options

        def __dlpack__(self, **options: Any) -> Any:
            return self.tensor.__dlpack__(**options, **self.options)

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.options.get("dl_device") or self.tensor.__dlpack_device__()

    def address(tensor: wg.Tensor) -> int:
        return int(tensor.__cuda_array_interface__["data"][0])

    x = wg.arange(4, device="cuda")
    same, copy = (wg.from_dlpack(Asking(x, copy=copy)) for copy in (None, True))
    assert address(same) == address(x) != address(copy) and same.tolist() == copy.tolist() == x.tolist()
    assert wg.from_dlpack(np.ones(3), device="cuda").device == "cuda:0"
    down = wg.from_dlpack(Asking(x, dl_device=(1, 0)))
    assert down.device == "cpu" and down.tolist() == x.tolist()
    with pytest.raises(BufferError, match="without a copy"):
        x.__dlpack__(dl_device=(1, 0), copy=False)


def test_memory_of_others_is_given_back_when_their_stream_waits_for_ours(
    gpu: EmulatedDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Lent:
        def __init__(self) -> None:
            data = (block, False)
            self.__cuda_array_interface__ = {"typestr": "<f4", "shape": (4,), "data": data, "version": 3, "stream": 7}

        def __del__(self) -> None:
            events.append("given back")

    block, events = gpu.allocate(16), list[Any]()
    monkeypatch.setattr(gpu, "be_waited_for", events.append)
    array = from_interface(Lent())
    assert array.nbytes == 16 and events == []
    del array
    assert events == [7, "given back"]
    gpu.free(block)


def test_dynamic_ops_run_on_the_device() -> None:
    x = wg.arange(6, dtype=wg.float32, device="cuda").reshape(2, 3)
    y = wg.exp(x).sum(axis=1) + 2.0 * x[:, 1]
    want = np.exp(np.arange(6, dtype=np.float32).reshape(2, 3)).sum(1) + 2 * np.array([1, 4])
    assert y.device == "cuda:0"
    np.testing.assert_allclose(y.numpy(), want, rtol=1e-6)


def test_a_program_of_a_value_with_itself_is_not_one_of_two_values() -> None:
    with tier("interpret"):
        x, y = wg.tensor([2.0, 3.0], device="cuda"), wg.tensor([5.0, 7.0], device="cuda")
        assert (x * x).tolist() == [4.0, 9.0]
        assert (x * y).tolist() == [10.0, 21.0]
        assert wg.where(x > 2, x, x).tolist() == [2.0, 3.0] and wg.where(x > 2, x, y).tolist() == [5.0, 3.0]


@pytest.mark.slow
def test_ops_alone_equal_their_references() -> None:
    assert not wrong_alone(CASES[::20])


def test_gradients() -> None:
    x = wg.tensor([1.0, 2.0, 3.0], device="cuda", requires_grad=True)
    (wg.sin(x) * x).sum().backward()
    values = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(x.grad.numpy(), np.sin(values) + values * np.cos(values), rtol=1e-5)
    assert x.grad.device == "cuda:0"


def losses(device: str, compiled: bool, steps: int = 6) -> list[float]:
    wg.manual_seed(0)
    model = wg.nn.Sequential(wg.nn.Linear(5, 8), wg.nn.ReLU(), wg.nn.Linear(8, 3)).to(wg.float64).to(device)
    optimizer = wg.optim.Adam(model.parameters(), lr=1e-2)
    rng = np.random.default_rng(0)
    x = wg.tensor(rng.normal(size=(7, 5)), device=device)
    y = wg.tensor(rng.integers(0, 3, 7), device=device)

    def step(x: wg.Tensor, y: wg.Tensor) -> wg.Tensor:
        optimizer.zero_grad()
        loss = wg.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    function = wg.compile(step) if compiled else step
    return [function(x, y).item() for _ in range(steps)]


@pytest.mark.parametrize("compiled", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_training_gives_the_same_losses_as_on_the_cpu(compiled: bool, gpu: EmulatedDriver) -> None:
    np.testing.assert_allclose(losses("cuda", compiled), losses("cpu", compiled), rtol=1e-12)
    assert not compiled or gpu.replays > 2


@pytest.mark.parametrize("axis", [0, 1])
def test_blocks_that_share_a_row_read_what_one_of_them_overwrites(axis: int) -> None:
    """All blocks of the last pass read the scale of a row, which one of them updates."""
    rows = np.random.default_rng(0).normal(size=(8, 40_000)).astype(np.float32)
    rows = np.ascontiguousarray(rows.T) if axis == 0 else rows

    def step(device: str) -> tuple[wg.Tensor, wg.Tensor]:
        scale = wg.ones((1, 8) if axis == 0 else (8, 1), device=device)

        @wg.compile
        def compiled(x: wg.Tensor) -> wg.Tensor:
            scaled = wg.sin(x) * scale
            total = scaled.sum(axis, keepdims=True)
            scale.assign(scale - total)
            return scaled - total

        return compiled(wg.tensor(rows, device=device)), scale

    for got, want in zip(step("cuda"), step("cpu")):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-4, atol=1e-3)


def convolution_losses(device: str, half: bool) -> tuple[list[float], str]:
    """The losses of a small residual network, in bfloat16 or not, and what its convolutions became."""
    wg.manual_seed(0)
    conv = wg.nn.Conv2d
    layers = {"stem": conv(3, 8, 7, 2, 3, bias=False), "first": conv(8, 8, 3, 1, 1), "second": conv(8, 8, 3, 1, 1)}
    model = wg.nn.ModuleDict({**layers, "norm": wg.nn.BatchNorm2d(8), "head": wg.nn.Linear(8, 3)}).to(device)
    optimizer = wg.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    rng = np.random.default_rng(0)
    x = wg.tensor(rng.normal(size=(4, 3, 16, 16)).astype(np.float32), device=device)
    y = wg.tensor(rng.integers(0, 3, 4), device=device)

    @wg.compile
    def step(x: wg.Tensor, y: wg.Tensor) -> wg.Tensor:
        optimizer.zero_grad()
        with wg.autocast(wg.bfloat16, enabled=half):
            h = wg.max_pool2d(wg.relu(model["norm"](model["stem"](x))), 3, 2, 1)
            h = wg.relu(h + model["second"](wg.relu(model["first"](h))))
            loss = wg.cross_entropy(model["head"](h.mean((2, 3))), y)
        loss.backward()
        optimizer.step()
        return loss

    return [step(x, y).item() for _ in range(4)], step.explain("layout")


def test_convolutions_in_half_precision_have_their_channels_last() -> None:
    losses, graph = convolution_losses("cuda", half=True)
    assert all(f"{op}_last" in graph for op in ("convolve", "convolve_weight", "max_pool_back"))
    np.testing.assert_allclose(losses, convolution_losses("cpu", half=True)[0], rtol=2e-2)


def test_what_follows_a_convolution_of_one_image_is_part_of_its_kernel(
    gpu: EmulatedDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batch normalisation, what is added and relu, where the blocks of a cluster share the depth."""
    monkeypatch.setattr(gpu, "properties", H200)
    monkeypatch.setattr(gpu, "prepared", emulated)
    wg.manual_seed(0)
    first, second, norm = wg.nn.Conv2d(64, 64, 3, padding=1), wg.nn.Conv2d(64, 64, 3, padding=1), wg.nn.BatchNorm2d(64)
    model = wg.nn.ModuleList([first, second, norm]).to(wg.bfloat16).eval()
    x = wg.tensor(np.random.default_rng(0).normal(size=(1, 64, 3, 4))).astype(wg.bfloat16)

    def block(x: wg.Tensor) -> wg.Tensor:
        with wg.no_grad():
            return wg.relu(norm(second(wg.relu(norm(first(x))))) + x)

    expected = wg.compile(block)(x).astype(wg.float32).numpy()
    model.to("cuda")
    compiled = wg.compile(block)
    for _ in range(2):
        found = compiled(x.to("cuda")).to("cpu").astype(wg.float32).numpy()
    np.testing.assert_allclose(found, expected, rtol=0.02, atol=0.02)
    entries = [x.entry for step in compiled._newest("a test").program.steps for x in step.launches]
    assert entries.count("convolve") == 2 and not any("where" in entry for entry in entries), entries


def test_float32_is_given_to_tensor_cores_where_the_setting_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device emulated has none for it, so that the numbers are those of float32 either way."""
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-3, 4, shape).astype(np.float32) for shape in ((2, 4, 6, 6), (8, 4, 3, 3))]
    x, weight = (wg.tensor(array, device="cuda") for array in arrays)
    convolve = wg.compile(lambda x, weight: wg.relu(wg.conv2d(x, weight)))
    expected = wg.relu(wg.conv2d(*map(wg.tensor, arrays))).numpy()
    for tf32 in (False, True, False):
        monkeypatch.setattr(wg.config, "tf32", tf32)
        np.testing.assert_array_equal(convolve(x, weight).numpy(), expected)
        assert ("convolve_last" in convolve.explain("layout")) == tf32


@pytest.mark.slow
def test_training_with_tf32_gives_the_same_losses_as_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wg.config, "tf32", True)
    losses, _ = convolution_losses("cuda", half=False)
    np.testing.assert_allclose(losses, convolution_losses("cpu", half=False)[0], rtol=1e-4)


@pytest.mark.parametrize("compiled", [False, True])
def test_loss_scaling_skips_what_is_not_finite_and_lowers_the_scale(compiled: bool) -> None:
    w = wg.tensor([2.0, 3.0], requires_grad=True, device="cuda")
    optimizer, scaler = wg.optim.SGD([w], lr=0.25), wg.optim.GradScaler(device="cuda")

    def step(x: wg.Tensor) -> None:
        optimizer.zero_grad()
        scaler.scale((w * w * x).sum()).backward()
        scaler.step(optimizer)
        scaler.update()

    function = wg.compile(step) if compiled else step
    course = []
    for factor in (1.0, np.inf, 1.0, 1.0):
        function(wg.tensor(np.array([1.0, factor], np.float32), device="cuda"))
        course.append((w.tolist(), scaler.get_scale()))
    steps = [[1.0, 1.5], [1.0, 1.5], [0.5, 0.75], [0.25, 0.375]]
    assert course == list(zip(steps, [65536.0, 32768.0, 32768.0, 32768.0]))


def test_a_returned_value_is_never_overwritten() -> None:
    double = wg.compile(lambda x: x * 2)
    held = [double(wg.full((10,), i, device="cuda", dtype=wg.float32)) for i in range(6)]
    assert [t.numpy()[0].item() for t in held] == [2.0 * i for i in range(6)]


def test_dropout_differs_between_replays_and_repeats_from_a_seed() -> None:
    x = wg.ones((64,), device="cuda")
    drop = wg.compile(lambda x: wg.dropout(x, 0.5))

    def three() -> list[np.ndarray]:
        wg.manual_seed(3)
        return [drop(x).numpy() for _ in range(3)]

    first, second = three(), three()
    assert all((a == b).all() for a, b in zip(first, second))
    assert (first[0] != first[1]).any()
    wg.manual_seed(3)
    assert (wg.dropout(wg.ones((64,)), 0.5).numpy() == first[0]).all()


def test_gradients_cross_devices() -> None:
    x = wg.tensor([1.0, 2.0], requires_grad=True)
    (x.to("cuda") ** 2).sum().backward()
    assert x.grad.device == "cpu" and x.grad.tolist() == [2.0, 4.0]


def test_compiled_functions_follow_the_default_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "default", "cpu")
    made = wg.compile(lambda: wg.ones((3,)) * 2)
    for device in ("cpu", "cuda:0", "cpu", "cuda:0"):
        wg.set_default_device(device)
        assert [made().device for _ in range(3)] == [device] * 3


def test_compiled_functions_follow_what_they_read_to_another_device() -> None:
    w = wg.arange(4, dtype=wg.float32)
    doubled = wg.compile(lambda: (w * 2).sum())
    for device in ("cpu", "cuda:0", "cpu", "cuda:0"):
        w.to_(device)
        results = [doubled() for _ in range(3)]
        assert [result.device for result in results] == [device] * 3 and [r.item() for r in results] == [12] * 3


def test_devices_do_not_mix_silently() -> None:
    with pytest.raises(wg.errors.DeviceError, match="move one with"):
        wg.tensor([1.0]) + wg.tensor([1.0], device="cuda")


def test_an_index_out_of_range_names_the_op() -> None:
    table = wg.ones((4, 3), device="cuda")
    rows = wg.tensor([0, 7], device="cuda")
    with pytest.raises(wg.errors.OutOfRangeError, match="gather"):
        wg.take(table, rows, axis=0).numpy()
    assert wg.take(table, wg.tensor([1], device="cuda"), axis=0).tolist() == [[1.0, 1.0, 1.0]]


def test_a_hundred_steps_upload_nothing_and_download_once() -> None:
    scale = wg.tensor([1.0, 2.0, 3.0, 4.0], device="cuda", requires_grad=True)
    optimizer = wg.optim.SGD([scale], lr=1e-2)
    x, y = wg.ones((3, 4), device="cuda"), wg.ones((3, 4), device="cuda")

    def step() -> wg.Tensor:
        optimizer.zero_grad()
        loss = ((x * scale - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(5):
        step()
    before = wg.cuda.transfers()
    for _ in range(100):
        loss = step()
    loss.item()
    after = wg.cuda.transfers()
    assert after["uploads"] == before["uploads"] and after["downloads"] == before["downloads"] + 1


@pytest.fixture
def checking() -> Iterator[None]:
    """Every kernel is compared with its reference."""
    wg.config.check = True
    yield
    wg.config.check = False


def test_a_checked_step_is_the_same_step(checking: None) -> None:
    checked = losses("cuda", True, steps=3)
    wg.config.check = False
    assert checked == losses("cuda", True, steps=3)


@pytest.mark.parametrize("name", ["interpret", "compile"])
def test_check_names_a_wrong_kernel(checking: None, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "_extreme", lambda total: "7")
    monkeypatch.setattr(reductions, "text", reductions.text.__wrapped__)  # as if no text had been made before
    monkeypatch.setattr(interpret, "_carriers", OrderedDict())
    x = wg.tensor([[1.0, 2.0, 0.5], [3.0, 4.0, 0.5]], device="cuda")
    with (
        tier(name),
        pytest.raises(wg.errors.CompilerError, match=r"wg_\w*max\w*, stores max float32\[2\] and") as error,
    ):
        largest = wg.max(x, axis=1)
        largest.numpy()
    assert "largest = wg.max(x, axis=1)" in str(error.value)


def test_check_names_the_kernel_of_an_illegal_access(checking: None, gpu: EmulatedDriver) -> None:
    def fail() -> None:
        raise wg.errors.CudaError("CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered")

    double = wg.compile(lambda x: x * 2)
    x = wg.tensor([1.0, 2.0], device="cuda")
    with pytest.MonkeyPatch.context() as broken:
        broken.setattr(gpu, "synchronize", fail)
        with pytest.raises(wg.errors.CudaError, match=r"step 0, wg_\w+, which computes multiply.*ILLEGAL") as error:
            double(x)
    assert "lambda x: x * 2" in str(error.value)
    with pytest.MonkeyPatch.context() as broken, tier("interpret"):
        broken.setattr(gpu, "download", lambda *_: fail())
        with pytest.raises(wg.errors.CudaError, match=r"wg_exp\w+, which computes exp.*ILLEGAL"):
            wg.exp(x).numpy()


def test_check_finds_a_wrong_rewrite(checking: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(simplify._table, e.negative, (lambda node: node.sources[0],))
    with pytest.raises(wg.errors.CompilerError, match="in simplify by the rule"):
        wg.compile(lambda x: wg.exp(-(x * 1.0 + 0.0)))(wg.tensor([1.0, 2.0], device="cuda"))


def test_the_gradient_of_a_convolution_of_nothing_is_zero() -> None:
    nothing = wg.ones((0, 2, 5, 4), device="cuda")
    found = wg.compile(wg.grad(lambda w: wg.conv2d(nothing, w).sum()))(wg.ones((3, 2, 3, 2), device="cuda"))
    assert found.shape == (3, 2, 3, 2) and not found.numpy().any()


def let_go() -> None:
    """Free what programs, those of other tests too, keep for later: running out of memory would have them let go."""
    for keeper in list(keepers):
        keeper.let_go()
    gc.collect()


def test_memory_comes_back_after_running_out(gpu: EmulatedDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    held = wg.ones((50_000,), device="cuda") * 1.0  # more than what other tests may have left
    held.numpy()
    monkeypatch.setattr(gpu, "memory", 1 << 20)
    for _ in range(5):
        with pytest.raises(MemoryError, match=r"tensors hold \d(.|\n)*kB at test_cuda_program.py:\d+"):
            wg.tensor(np.ones(1 << 20, np.float32), device="cuda").numpy()
    assert (held + 1).numpy()[0] == 2.0


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "dynamic"])
def test_an_error_holds_no_memory(gpu: EmulatedDriver, monkeypatch: pytest.MonkeyPatch, compiled: bool) -> None:
    """It is there again when the error was handled, without a search for garbage."""
    several = lambda x: (x + 1, x * 2, x - 1, wg.exp(x))
    four = wg.compile(several) if compiled else several
    x = wg.ones(1 << 16, device="cuda") * 1.0
    for part in four(x):
        part.numpy()
    del part
    let_go()
    live = wg.cuda.memory().live
    monkeypatch.setattr(gpu, "memory", gpu.reserved() + (3 << 18))
    gc.disable()
    try:
        with pytest.raises(MemoryError):
            for part in four(x):
                part.numpy()
        part = None
        assert wg.cuda.memory().live == live
    finally:
        gc.enable()


@pytest.mark.slow
def test_what_only_garbage_holds_can_be_had(gpu: EmulatedDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    class Cycle:
        def __init__(self) -> None:
            self.held, self.itself = wg.ones(1 << 16, device="cuda") * 1.0, self
            self.held.numpy()

    gc.collect()
    monkeypatch.setattr(gpu, "memory", gpu.reserved() + (5 << 17))
    for _ in range(5):
        Cycle()


def test_attention_over_nothing_is_computed_on_the_host() -> None:
    def gradients(*operands: wg.Tensor) -> tuple[wg.Tensor, ...]:
        return wg.grad(lambda q, k, v: wg.scaled_dot_product_attention(q, k, v).sum(), (0, 1, 2))(*operands)

    shapes = ((2, 3, 4), (2, 0, 4), (2, 0, 5))
    found = wg.compile(gradients)(*[wg.ones(shape, device="cuda") for shape in shapes])
    assert [g.shape for g in found] == list(shapes) and not found[0].numpy().any()


def test_explain_names_launches_and_what_the_host_computes() -> None:
    f = wg.compile(lambda x: abs(wg.fft.rfft(wg.exp(x))) * 2)
    f(wg.tensor([3.0, 1.0, 2.0], device="cuda"))
    text = f.explain()
    assert "1 ops on the host: rfft" in text and "elements" in text
    assert "__global__" in f.source() and "__global__" in f.explain("build")
    assert "def graph" in f.explain("cse") and "# kernel 0" in f.explain("fuse")
    assert "peak memory" in text and "arena" in f.explain("memory") and len(f.memory()) > 2


@pytest.mark.parametrize("check", [False, True], ids=["", "checked"])
def test_a_kernel_of_ones_own(check: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wg.config, "check", check)
    triple = wg.cuda.kernel(
        'extern "C" __global__ void triple(const float *x, int n, float *y)'
        "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = 3 * x[i]; }",
        "triple",
        grid=lambda x, n: -(-n // 256),
    )
    x = wg.arange(300, dtype=wg.float32, device="cuda")
    assert (triple(x, 300).numpy() == 3 * np.arange(300)).all()
    compiled = wg.compile(lambda x: triple(x + 1, 300) - 1)
    for _ in range(4):
        assert (compiled(x).numpy() == 3 * (np.arange(300) + 1) - 1).all()
    with pytest.raises(wg.errors.DeviceError, match="on a GPU"):
        triple(wg.ones(3), 3)


def test_numbers_that_are_equal_and_not_the_same_are_two_arguments_of_a_kernel() -> None:
    filled = wg.cuda.kernel(
        'extern "C" __global__ void filled(const float *x, float a, float *y) { y[threadIdx.x] = a; }',
        "filled",
        grid=1,
        block=4,
    )
    x = wg.ones(4, device="cuda")
    for number in (0.0, -0.0, 0.0):
        assert (np.signbit(filled(x, number).numpy()) == np.signbit(number)).all()
    with pytest.raises(wg.errors.ArgumentError, match=r"np\.int64\(4294967296\)"):
        filled(x, 1 << 32)


def test_a_convolution_whose_stride_is_longer_than_its_input() -> None:
    """Some of the places that the stride divides the input into are empty."""
    rng = np.random.default_rng(0)
    x, weight = (rng.normal(size=shape).astype(np.float32) for shape in ((1, 2, 3, 3, 1), (2, 2, 2, 2, 1)))
    function = wg.compile(lambda x, w: wg.conv_transpose3d(x, w, stride=2))
    on_gpu, on_cpu = (function(*[wg.tensor(a, device=d) for a in (x, weight)]).numpy() for d in ("cuda", "cpu"))
    np.testing.assert_allclose(on_gpu, on_cpu, rtol=1e-5, atol=1e-6)


def test_equal_kernels_over_nothing_stay_apart() -> None:
    since = now()
    inputs = [placeholder(shape, wg.float32, "cuda:0") for shape in ((2, 0), (3, 0))]
    program = build(Graph(inputs, [e.negative(x) for x in inputs], since))
    results = program([np.ones(node.shape, np.float32) for node in inputs])
    assert [result.shape for result in results] == [(2, 0), (3, 0)]


def test_what_cannot_be_captured_is_named_and_launched(gpu: EmulatedDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*launched: object) -> None:
        if gpu.captured is not None:
            raise wg.errors.CudaError("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED: operation not permitted")
        launch(*launched)

    launch = gpu.launch
    monkeypatch.setattr(gpu, "launch", refuse)
    double = wg.compile(lambda x: x * 2)
    x, replays = wg.tensor([1.0, 2.0], device="cuda"), gpu.replays
    assert double(x).tolist() == [2.0, 4.0]
    with pytest.warns(RuntimeWarning, match=r"wg_\w+, which computes multiply at test_cuda_program.py:\d+, cannot be"):
        assert double(x).tolist() == [2.0, 4.0]
    assert double(x).tolist() == [2.0, 4.0] and gpu.replays == replays


def test_products_with_a_row_or_a_column_are_loops() -> None:
    rng = np.random.default_rng(0)
    shapes = {"a": (5, 3), "b": (3, 4), "column": (3, 1), "row": (1, 5)}
    arrays = {name: rng.normal(size=shape) for name, shape in shapes.items()}

    def products(a: wg.Tensor, b: wg.Tensor, column: wg.Tensor, row: wg.Tensor) -> tuple[wg.Tensor, ...]:
        return a @ column, row @ a, a.T @ row.T, column.T @ a.T, column @ row, row @ (a @ b), (a @ b).T @ row.T

    compiled = wg.compile(products)
    found = compiled(*[wg.tensor(array, device="cuda") for array in arrays.values()])
    a, b, column, row = arrays.values()
    want = (a @ column, row @ a, a.T @ row.T, column.T @ a.T, column @ row, row @ (a @ b), (a @ b).T @ row.T)
    for one, other in zip(found, want):
        np.testing.assert_allclose(one.numpy(), other, rtol=1e-12)
    assert compiled.explain().count("matmul (") == 1


def test_branches_do_not_wait_for_one_another() -> None:
    def two_branches(x: wg.Tensor) -> tuple[wg.Tensor, wg.Tensor]:
        return (x @ x).sum(axis=0), wg.cumsum(wg.cumsum(x, axis=0), axis=1)

    compiled = wg.compile(two_branches)
    x = np.arange(16, dtype=np.float64).reshape(4, 4)
    for _ in range(3):
        first, second = compiled(wg.tensor(x, device="cuda"))
        assert (first.numpy() == (x @ x).sum(0)).all() and (second.numpy() == x.cumsum(0).cumsum(1)).all()
    program = compiled._newest("a test").program
    assert sorted(map(len, program.plan.waits)) == [0, 0, 1, 1]
    [stretch] = program.pieces
    assert [call for call, others in stretch.graph.waits.items() if not others] == [0]  # a graph has one beginning


class FakeLibrary:
    """A library's candidate for x @ y. Captured, it keeps the addresses it was captured with."""

    workspace, name, works = 0, "fake", True

    def __init__(self, shape: tuple[int, int, int]) -> None:
        self.shape = shape

    def enqueue(self, stream: int, pointers: list[int], workspace: int) -> None:
        if EMULATED.captured is not None:
            then = list(pointers)
            EMULATED.captured.append(lambda: self.multiply(then))
        else:
            self.multiply(pointers)

    def multiply(self, pointers: list[int]) -> None:
        m, n, k = self.shape
        x, y, z = (
            np.ctypeslib.as_array((ctypes.c_float * (a * b)).from_address(p)).reshape(a, b)
            for p, (a, b) in zip(pointers, ((m, k), (k, n), (m, n)))
        )
        z[...] = x @ y


def test_what_a_library_reads_and_writes_may_move(gpu: EmulatedDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    from wengert.backends.cuda import blas
    from wengert.kernels.matmul import cuda as matmul_cuda

    monkeypatch.setattr(matmul_cuda, "is_small", lambda node: False)
    monkeypatch.setattr(blas, "candidates", lambda s, device: [FakeLibrary((s.m, s.n, s.k))])

    def both(x: wg.Tensor, y: wg.Tensor) -> tuple[wg.Tensor, wg.Tensor]:
        product = x @ y
        return product, wg.relu(product) + 1

    compiled = wg.compile(both)
    held = []
    for i in range(5):
        x, y = np.full((3, 4), i - 2, np.float32), np.arange(8, dtype=np.float32).reshape(4, 2)
        held.append((compiled(wg.tensor(x, device="cuda"), wg.tensor(y, device="cuda")), x @ y))
    for (product, more), want in held:
        assert (product.numpy() == want).all() and (more.numpy() == np.maximum(want, 0) + 1).all()


def test_a_program_that_launches_nothing_is_called_again_and_again(gpu: EmulatedDriver) -> None:
    nothing = wg.compile(lambda x: x[:0] * 2.0)
    x = wg.tensor([1.0, 2.0], device="cuda")
    assert [nothing(x).tolist() for _ in range(6)] == [[]] * 6


@pytest.mark.parametrize("repeats", [False, True])
def test_running_out_of_memory_while_addresses_change_leaves_none_behind(
    repeats: bool, gpu: EmulatedDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    from wengert.backends.cuda import blas
    from wengert.kernels.matmul import cuda as matmul_cuda

    size = 1 << 18
    monkeypatch.setattr(matmul_cuda, "is_small", lambda node: False)
    monkeypatch.setattr(blas, "candidates", lambda s, device: [FakeLibrary((s.m, s.n, s.k))])
    since = now()
    x, y = (placeholder(shape, wg.float32, "cuda:0") for shape in ((2, size), (size, 2)))
    program = build(Graph([x, y], [matmul(x, y)], since))
    ones, twos = (upload(np.full((2, size), k, np.float32), "cuda:0") for k in (1, 2))
    count = CAPTURED_ANEW + 2  # with the last one it moves once too often
    others = [upload(np.full((size, 2), 1 / size, np.float32), "cuda:0") for _ in range(count)]
    for other in others[:-1]:
        assert (download(program([ones, other])[0]) == 1).all()
    repeat = program.replay([0, 1], [0])
    assert repeat is not None

    def call(arrays: list[DeviceArray]) -> list[DeviceArray]:
        if not repeats:
            return program(arrays)
        made = [make() for make in repeat.makers]
        assert repeat.run(arrays, made)
        return made

    assert (download(call([ones, others[-2]])[0]) == 1).all()
    let_go()
    with monkeypatch.context() as context:
        context.setattr(gpu, "memory", gpu.reserved() + size)  # too little for a fixed place of what moves again
        with pytest.raises(wg.errors.OutOfMemoryError):
            call([twos, others[-1]])
    assert (download(call([ones, others[-2]])[0]) == 1).all()
    assert (download(call([twos, others[-1]])[0]) == 2).all()


@pytest.mark.parametrize("with_forward", [True, False])
def test_attention_computes_forward_once(with_forward: bool) -> None:
    """Backward takes what forward kept where both are in a program; on its own it runs forward again."""
    rng = np.random.default_rng(0)
    x, seed = rng.standard_normal((2, 20, 24)), rng.standard_normal((2, 2, 20, 4))

    def gradient(device: str) -> tuple[np.ndarray, str]:
        weights = wg.tensor(seed, device=device)

        def loss(x: wg.Tensor) -> wg.Tensor:
            q, k, v = (wg.swapaxes(part.reshape((2, 20, 2, 4)), 1, 2) for part in wg.chunk(x, 3, axis=-1))
            y = wg.scaled_dot_product_attention(q, k, v, is_causal=True)
            return (y * y * weights if with_forward else y * weights).sum()

        function = wg.compile(wg.grad(loss))
        found = function(wg.tensor(x, device=device)).numpy()
        return found, function.source() if device == "cuda" else ""

    found, source = gradient("cuda")
    np.testing.assert_allclose(found, gradient("cpu")[0], rtol=1e-10, atol=1e-12)
    assert source.count(") attention(") == 1


@pytest.mark.parametrize("checks", [True, False])
@pytest.mark.parametrize("with_forward", [True, False])
def test_attention_writes_heads_side_by_side(with_forward: bool, checks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result and the cotangents lie as the products before and after them do."""
    monkeypatch.setattr(wg.config, "check", checks)
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 20, 24)), rng.standard_normal((8, 3))

    def gradient(device: str) -> tuple[np.ndarray, str]:
        weight = wg.tensor(w, device=device)

        def loss(x: wg.Tensor) -> wg.Tensor:
            q, k, v = (wg.swapaxes(part.reshape((2, 20, 2, 4)), 1, 2) for part in wg.chunk(x, 3, axis=-1))
            y = wg.scaled_dot_product_attention(q, k, v, is_causal=True)
            y = wg.swapaxes(y, 1, 2).reshape((2, 20, 8)) @ weight
            return (y * y if with_forward else y).sum()

        function = wg.compile(wg.grad(loss))
        found = function(wg.tensor(x, device=device)).numpy()
        return found, function.source() if device == "cuda" else ""

    found, source = gradient("cuda")
    np.testing.assert_allclose(found, gradient("cpu")[0], rtol=1e-10, atol=1e-12)
    assert "to_key_row = 24" in source and ("y_row = 8" in source) == with_forward


def test_updates_and_casts_of_one_text_are_one_launch() -> None:
    def trained(device: str) -> tuple[list[np.ndarray], object]:
        rng = np.random.default_rng(0)
        weights = [rng.normal(size=(12, 12)) for _ in range(3)] + [rng.normal(size=(12, 5))]
        slots = [wg.tensor(w, dtype=wg.float32, device=device, requires_grad=True) for w in weights]
        x = wg.tensor(rng.normal(size=(4, 12)), dtype=wg.float32, device=device)
        optimizer = wg.optim.SGD(slots, lr=0.1, momentum=0.9)

        def step() -> None:
            optimizer.zero_grad()
            y = x
            with wg.autocast(wg.bfloat16):
                for weight in slots:
                    y = wg.tanh(y @ weight)
            (y.astype(wg.float32) ** 2).sum().backward()
            optimizer.step()

        run = wg.compile(step)
        for _ in range(4):
            run()
        return [slot.detach().numpy() for slot in slots], run._newest("x").program

    (found, program), (expected, _) = trained("cuda"), trained("cpu")
    for got, want in zip(found, expected):
        np.testing.assert_allclose(got, want, rtol=0.05, atol=0.02)
    launches = [x for step in program.steps for x in step.launches]
    tables = [len(a) for launch in launches for a in launch.arguments if isinstance(a, tuple)]
    assert min(tables) == 10, "five casts, each with what is cast and its copy, are one launch"
    assert len(tables) >= 2
    assert len(program.steps) == len(program.plan.grouping.groups)


def test_weights_turned_to_channels_last_are_one_launch_before_all_that_read_them() -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=shape).astype(np.float32) for shape in ((16, 8, 3, 3), (8, 16, 3, 3), (8, 8, 3, 3))]

    def chained(x: wg.Tensor, *weights: wg.Tensor) -> wg.Tensor:
        for weight in weights:
            rows = wg.permute_dims(weight, (0, 2, 3, 1)).reshape(-1, weight.shape[1])
            x = wg.tanh(rows @ x)[: weight.shape[0]]
        return x

    def run(device: str) -> tuple[np.ndarray, object]:
        compiled = wg.compile(chained)
        given = [wg.tensor(array, device=device) for array in (np.ones((8, 4), np.float32), *arrays)]
        for _ in range(3):
            found = compiled(*given)
        return found.numpy(), compiled._newest("x").program

    (found, program), (expected, _) = run("cuda"), run("cpu")
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert program.described().count("3 transpositions of one text") == 1
