"""What big libraries (transformers, accelerate, peft, timm) ask of PyTorch beside its functions."""

import math
import subprocess
import sys
import types

import numpy as np
import pytest

import wengert.torch as torch
from wengert.torch import library, nn
from wengert.torch.nn import functional as F
from wengert.torch.nn.attention import flex_attention as flex
from wengert.torch.vision.transforms import v2


def test_a_custom_op_with_a_rule_is_called_by_its_name():
    @library.custom_op("tests::scaled", mutates_args=())
    def scaled(x: torch.Tensor, factor: float = 3.0) -> torch.Tensor:
        return x * factor

    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * ctx.factor + 0 * x, None

    def keep(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.factor = 10 * inputs[1]  # not the derivative, so that the rule is seen

    scaled.register_autograd(backward, setup_context=keep)
    scaled.register_fake(lambda x, factor=3.0: torch.empty_like(x))
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = torch.ops.tests.scaled(x, factor=2.0)
    assert y.tolist() == [2.0, 4.0]
    y.sum().backward()
    assert x.grad.tolist() == [20.0, 20.0]
    assert torch.ops.tests.scaled.default(x).tolist() == [3.0, 6.0]


def test_a_custom_op_without_a_rule_is_differentiated_through():
    library.custom_op("tests::square", lambda x: x * x, mutates_args=(), schema="(Tensor x) -> Tensor")
    x = torch.tensor([3.0], requires_grad=True)
    torch.ops.tests.square(x).backward()
    assert x.grad.tolist() == [6.0]


def test_a_library_defines_and_implements():
    lib = library.Library("tests", "FRAGMENT")
    lib.define("plus_one(Tensor x) -> Tensor")
    with pytest.raises(NotImplementedError, match=r"tests::plus_one.*CPU"):
        torch.ops.tests.plus_one(torch.ones(1))
    lib.impl("plus_one", lambda x: x + 1, "CPU")
    assert torch.ops.tests.plus_one(torch.ones(1)).tolist() == [2.0]
    with pytest.raises(AttributeError, match="'_OpNamespace' 'tests' object has no attribute 'missing'"):
        torch.ops.tests.missing
    with pytest.raises(RuntimeError, match="does not exist"):
        library.register_fake("tests::missing", lambda x: x)


def test_meta_tensors_have_shapes_and_no_values():
    x = torch.empty(3, 4, device="meta")
    y = x @ torch.ones(4, 5, device="meta") + 1
    assert (y.shape, y.device, y.is_meta, x.to("meta") is x) == ((3, 5), torch.device("meta"), True, True)
    assert repr(x) == "tensor(..., device='meta', size=(3, 4))"
    for read in (x.tolist, x.cpu, lambda: x.sum().item()):
        with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data!"):
            read()
    assert torch.empty_like(x, device="cpu").device.type == "cpu"


def test_a_model_is_made_on_meta_and_filled():
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    assert model[0].weight.is_meta and model[1].running_mean.is_meta
    model(torch.empty(5, 3, device="meta")).sum().backward()
    assert model[0].weight.grad.shape == (2, 3) and model[0].weight.grad.is_meta
    with pytest.raises(NotImplementedError, match="to_empty"):
        model.to("cpu")
    whole = model.to_empty(device="cpu")
    assert whole is model and model[0].weight.device.type == "cpu" and type(model[0].weight) is nn.Parameter
    with torch.device("meta"):
        model = nn.Linear(3, 2)
    model.load_state_dict({"weight": torch.ones(2, 3), "bias": torch.zeros(2)}, assign=True)
    assert model(torch.ones(1, 3)).tolist() == [[3.0, 3.0]]


def test_a_model_made_on_meta_draws_no_random_numbers(tmp_path):
    script = tmp_path / "draw.py"
    script.write_text(
        "import torch\ntorch.manual_seed(0)\nwith torch.device('meta'): torch.nn.Linear(2, 2)\n"
        "print(round(torch.rand(1).item(), 4))\n"
    )
    command = [sys.executable, "-m", "wengert.cli", "torch", "--torch-random", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.stdout == "0.4963\n", done.stderr


def test_without_a_gpu_cuda_is_an_assertion_error():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    for ask in (lambda: torch.zeros(2).to("cuda"), nn.Linear(2, 2).cuda, lambda: torch.zeros(2, device="cuda")):
        with pytest.raises(AssertionError):
            ask()


def test_bytes_of_a_file_become_tensors_of_their_own(tmp_path):
    numbers = np.arange(6, dtype=np.float32)
    path = tmp_path / "numbers"
    path.write_bytes(b"head" + numbers.tobytes())
    storage = torch.UntypedStorage.from_file(str(path), shared=False, nbytes=28)
    assert storage.nbytes() == 28
    x = torch.asarray(storage[12:28], dtype=torch.uint8).view(dtype=torch.float32).reshape([2, 2])
    assert x.tolist() == [[2.0, 3.0], [4.0, 5.0]]
    x += 1
    assert x.tolist() == [[3.0, 4.0], [5.0, 6.0]] and path.read_bytes()[4:] == numbers.tobytes()


def test_safetensors_saves_and_opens_tensors(tmp_path):
    pytest.importorskip("safetensors", reason="safetensors is not installed")
    script = tmp_path / "save.py"
    script.write_text(
        "import torch\nfrom safetensors import safe_open\nfrom safetensors.torch import load_file, save_file\n"
        "a = torch.arange(6.0).view(2, 3); b = torch.tensor([1.5, -2.0], dtype=torch.bfloat16)\n"
        "save_file({'a': a * 2, 'b': b}, 'f.safetensors')\n"
        "with safe_open('f.safetensors', framework='pt') as f: print(f.get_tensor('a').tolist())\n"
        "print(load_file('f.safetensors')['b'])\n"
    )
    command = [sys.executable, "-m", "wengert.cli", "torch", str(script)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines() == [
        "[[0.0, 2.0, 4.0], [6.0, 8.0, 10.0]]",
        "tensor([ 1.5000, -2.0000], dtype=torch.bfloat16)",
    ], done.stderr


def test_a_wrapper_of_an_optimizer_steps_without_hooks_of_its_own():
    class Wrapper(torch.optim.Optimizer):
        def __init__(self, optimizer):
            self.optimizer = optimizer

        @property
        def param_groups(self):
            return self.optimizer.param_groups

        def step(self, closure=None):
            self.optimizer.step(closure)

    p = nn.Parameter(torch.ones(1))
    wrapper = Wrapper(torch.optim.SGD([p], lr=0.5))
    p.grad = torch.ones(1)
    wrapper.step()
    assert p.tolist() == [0.5]


def _qkv(heads=4, kv_heads=4):
    torch.manual_seed(0)
    return torch.randn(2, heads, 7, 8), torch.randn(2, kv_heads, 7, 8), torch.randn(2, kv_heads, 7, 8)


def test_flex_attention_without_functions_is_attention():
    q, k, v = _qkv(4, 2)
    wanted = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    torch.testing.assert_close(flex.flex_attention(q, k, v, enable_gqa=True), wanted)
    with pytest.raises(ValueError, match="Hq=4 and Hkv=2"):
        flex.flex_attention(q, k, v)


def test_flex_attention_masks_and_changes_scores():
    q, k, v = _qkv()
    q.requires_grad_()
    slope = torch.tensor([0.0, 0.5, -0.25, 1.0], requires_grad=True)
    block = flex.create_block_mask(lambda b, h, i, j: i >= j, None, None, 7, 7, device="cpu", BLOCK_SIZE=4)
    made, lse = flex.flex_attention(q, k, v, lambda s, b, h, i, j: s + slope[h] * (i - j), block, return_lse=True)
    at = torch.arange(7)
    bias = slope[:, None, None] * (at[:, None] - at) + torch.where(at[:, None] >= at, 0.0, -math.inf)
    torch.testing.assert_close(made, F.scaled_dot_product_attention(q, k, v, attn_mask=bias[None]))
    scores = q @ k.transpose(-2, -1) / math.sqrt(8) + bias
    torch.testing.assert_close(lse, scores.logsumexp(-1))
    mine = torch.autograd.grad(made.square().sum(), (q, slope))
    theirs = torch.autograd.grad((scores.softmax(-1) @ v).square().sum(), (q, slope))
    torch.testing.assert_close(mine, theirs)


def test_block_masks_combine_and_count():
    causal, near = (lambda b, h, i, j: i >= j), (lambda b, h, i, j: i - j <= 2)
    both = flex.create_mask(flex.and_masks(causal, near), None, 2, 5, 5)
    at = np.arange(5)
    apart = at[:, None] - at
    assert both.shape == (1, 2, 5, 5) and (both[0, 1].numpy() == ((apart >= 0) & (apart <= 2))).all()
    either = flex.create_mask(flex.or_masks(causal, near), None, None, 5, 5)
    assert either.all().item()
    block = flex.create_block_mask(causal, 1, 1, 8, 8, device="cpu", BLOCK_SIZE=4)
    assert block.to_dense().tolist() == [[[[1, 0], [1, 1]]]] and block.sparsity() == 25.0


def test_a_query_that_sees_no_key_gives_zero():
    q, k, v = _qkv()
    block = flex.create_block_mask(lambda b, h, i, j: i > 2, None, None, 7, 7)
    made = flex.flex_attention(q, k, v, None, block)
    assert not made[:, :, :3].any() and made[:, :, 3:].any()


def test_transforms_v2_prepare_an_image():
    array = (np.arange(12 * 10 * 3) % 251).astype(np.uint8).reshape(12, 10, 3)
    prepare = v2.Compose([v2.ToImage(), v2.CenterCrop(6), v2.ToDtype(torch.float32, scale=True)])
    made = prepare(array)
    assert made.dtype == torch.float32
    np.testing.assert_allclose(made.numpy(), array[3:9, 2:8].transpose(2, 0, 1) / np.float32(255))
    image = v2.functional.to_image(array)
    assert v2.functional.get_size(image) == [12, 10]
    assert v2.functional.pad_image(image, [1, 2]).shape == (3, 16, 12)
    assert v2.functional.grayscale_to_rgb(image[:1]).shape == (3, 12, 10)
    assert v2.functional.to_dtype(image, torch.float64).max().item() == 250.0
    with pytest.raises(AttributeError, match=r"torchvision.transforms.v2.functional.nothing is not in wengert.torch"):
        v2.functional.nothing


def test_bytes_are_resized_an_axis_at_a_time():
    image = torch.arange(48, dtype=torch.uint8).reshape(1, 6, 8) * 5
    wanted = v2.Resize((6, 5))(image)
    wanted = v2.Resize((4, 5))(wanted)
    assert torch.equal(v2.Resize((4, 5))(image), wanted)


@pytest.mark.parametrize(
    "name", ["distributed.checkpoint.save", "distributed.checkpoint.hf_storage.HuggingFaceStorageReader"]
)
def test_checkpoints_of_many_ranks_say_where_they_are(name):
    from importlib import import_module

    module, _, attribute = name.rpartition(".")
    with pytest.raises(RuntimeError, match=r"wg\.distributed\.checkpoint"):
        getattr(import_module(f"wengert.torch.{module}"), attribute)({}, checkpoint_id="folder")


def test_names_for_unwrapping_exist():
    from wengert.torch.distributed.algorithms.join import Join
    from wengert.torch.distributed.fsdp.fully_sharded_data_parallel import FullyShardedDataParallel

    assert isinstance(torch._dynamo.eval_frame, types.ModuleType)
    assert not isinstance(nn.Linear(1, 1), (torch._dynamo.eval_frame.OptimizedModule, FullyShardedDataParallel))
    with Join([]):
        pass
