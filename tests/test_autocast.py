"""`wg.autocast`: the table is complete and PyTorch's, casts happen once, and training stays close to float32's."""

from __future__ import annotations

import threading
from collections import defaultdict

import numpy as np
import pytest

import wengert as wg
import wengert.cuda  # whose op is in the table too
import wengert.ode  # and an op of it
import wengert.ops.transfer  # with the collectives, which are loaded when they are used
from tests.ops import suite
from wengert.core import tree
from wengert.core.graph import ancestors, recording
from wengert.ops.op import registry
from wengert.runtime.static.compile import compile

LOW, FULL = ("bfloat16", "float32")

# --- the table of primitives ----------------------------------------------------------------------------------------


def _names(*lines):
    return {name for line in lines for name in line.split()}


LOW_OPS = {"matmul", "convolve", "attention", "csr_product", "sampled_product"}
FULL_OPS = _names(
    "exp expm1 log log1p log2 log10 pow square reciprocal tan asin acos sinh cosh erfinv",
    "sum prod cumsum cumprod",
    "solve triangular_solve inv cofactor det slogdet cholesky qr svd eigh pinv",
    "eig lu_factor failing_minor matrix_exp sparse_solve",
)
# Why an op is computed in the dtype its operands meet in. Of elementwise ops these are the ones that PyTorch has too; a
# new one that says nothing rounds once to that dtype, and needs no line here.
NEUTRAL_OPS = {
    "moves values, or marks one": _names(
        "pick pack data placeholder literal variable stop_gradient recompute_barrier solved converged stopped alias",
        "to_device cast",
        "reshape permute_dims broadcast_to slice place flip concat gather scatter take_along put_along put_slice",
        "unfold where",
    ),
    "arithmetic that rounds once": _names(
        "safe_multiply add subtract multiply divide floor_divide remainder negative positive abs sign floor ceil trunc",
        "round copysign nextafter maximum minimum real imag conj frexp",
    ),
    "keeps its operand's range, and has its dtype in PyTorch": _names(
        "sqrt logaddexp sin cos atan tanh asinh acosh atanh atan2 hypot sigmoid erf erfc lgamma digamma polygamma",
        "gelu_sigmoid gelu_slope",
    ),
    "chooses, or adds a few, and has its operand's dtype in PyTorch": _names(
        "max min max_pool sum_pool fold scatter_add add_along logcumsumexp sort topk",
    ),
    "its result is no float": _names(
        "equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor logical_not",
        "isfinite isinf isnan signbit all any argmax argmin argsort searchsorted cumargmax cumargmin",
        "bincount flat_nonzero mode",
    ),
    "takes no floats": _names(
        "bitwise_and bitwise_or bitwise_xor bitwise_invert bitwise_left_shift bitwise_right_shift iota random_bits",
        "checked_index pivots_to_order",
    ),
    "gives complex64 from half precision anyway": _names("fft ifft rfft irfft"),
    "is recorded by a rule, with autocast off, or within a function that has one as a whole": _names(
        "attention_backward convolve_input convolve_weight",
    ),
    "is made by the compiler, of dtypes that are settled": _names(
        "convolve_last convolve_input_last convolve_weight_last max_pool_last max_pool_back_last sum_pool_last",
        "tree_sum tree_prod tree_max tree_min tree_matmul tree_convolve tree_convolve_input tree_convolve_weight",
        "tree_scatter_add",
    ),
    "is a kernel of the user's own, for the dtypes it is written for": _names("cuda_kernel"),
    "moves values between ranks, and adds those of one dtype": _names(
        "all_reduce all_reduce_max all_reduce_many all_gather reduce_scatter ppermute all_to_all replicate block rank",
        "transfer microbatch settled",
    ),
    "carries a graph whose ops have theirs": _names(
        "checkpoint cond while_loop while_gradient scan custom_vjp custom_jvp implicit"
    ),
}


def test_every_primitive_is_in_one_class():
    neutral = {name for names in NEUTRAL_OPS.values() for name in names}
    classes = {"low": LOW_OPS, "full": FULL_OPS, None: neutral}
    assert sum(map(len, classes.values())) == len(LOW_OPS | FULL_OPS | neutral), "a primitive is in two classes"
    others = ("bitcast",)  # of `wengert.torch`, where that is imported
    own = {name: op for name, op in registry.items() if not name.startswith("test") and name not in others}
    assert {name for name, op in own.items() if op.kind != "elementwise"} <= LOW_OPS | FULL_OPS | neutral <= set(own)
    for precision, names in classes.items():
        found = {name for name, op in own.items() if op.precision == precision}
        assert found == (names if precision is not None else set(own) - LOW_OPS - FULL_OPS)


# --- the table of public functions ----------------------------------------------------------------------------------

LOW_FUNCTIONS = _names(
    "matmul linear conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d einsum vecdot",
    "linalg.multi_dot scaled_dot_product_attention addmm baddbmm inner prelu",
)
FULL_FUNCTIONS = _names(
    "exp expm1 log log1p log2 log10 pow square reciprocal tan asin acos sinh cosh erfinv",
    "sum prod cumsum cumprod cumulative_sum cumulative_prod logsumexp norm trace softmax log_softmax softplus",
    "layer_norm group_norm rms_norm local_response_norm normalize cosine_similarity interpolate",
    "mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy binary_cross_entropy_with_logits kl_div",
    "poisson_nll_loss gaussian_nll_loss hinge_embedding_loss margin_ranking_loss cosine_embedding_loss",
    "triplet_margin_loss nll_loss cross_entropy soft_margin_loss multi_margin_loss multilabel_margin_loss",
    "multilabel_soft_margin_loss lp_pool1d lp_pool2d lp_pool3d pairwise_distance pdist renorm softmin gumbel_softmax",
    "exp2 rsqrt xlogy logit sinc cdist cov corrcoef trapezoid cumulative_trapezoid nansum",
    "linalg.cholesky linalg.det linalg.eigh linalg.eigvalsh linalg.inv linalg.matrix_norm linalg.pinv linalg.qr",
    "linalg.slogdet linalg.solve linalg.svd linalg.svdvals linalg.triangular_solve linalg.vector_norm",
    "linalg.cholesky_ex linalg.cholesky_inverse linalg.cholesky_solve linalg.cond linalg.eig linalg.eigvals",
    "linalg.householder_product linalg.inv_ex linalg.logdet linalg.lstsq linalg.lu linalg.lu_factor",
    "linalg.lu_factor_ex linalg.lu_solve linalg.matrix_exp linalg.solve_ex linalg.solve_triangular linalg.tensorinv",
    "linalg.tensorsolve linalg.vander",
    "histogram histogramdd special.beta special.entr special.spherical_bessel_j0 special.xlog1py",
)
BY_ITS_OPS = {"linalg.matrix_power"}  # inverses are full, products low, and the first power is the matrix itself

CASES = defaultdict(list)
for _case in suite.collect():
    if suite.Call(_case).floating:
        CASES[_case.name].append(suite.Call(_case))


def _dtypes(result):
    return [leaf.dtype.name for leaf in tree.flatten(result)[0] if isinstance(leaf, wg.Tensor)]


def _called(call, dtype, tracked):
    arguments = [wg.tensor(call.leaves[i].astype(dtype)) for i in call.floating]
    for argument in arguments:
        argument.requires_grad = tracked
    return _dtypes(call(*arguments))


@pytest.mark.parametrize("name", sorted(set(CASES) - BY_ITS_OPS))
@pytest.mark.parametrize("tracked", [False, True], ids=["untracked", "tracked"])
def test_the_dtype_of_every_public_function(name, tracked):
    becomes = {"float32": LOW} if name in LOW_FUNCTIONS else {"bfloat16": FULL} if name in FULL_FUNCTIONS else {}
    for call in CASES[name]:
        for dtype in (wg.bfloat16, wg.float32, wg.float64):
            without = _called(call, dtype, tracked)
            with wg.autocast():
                found = _called(call, dtype, tracked)
            expected = [becomes.get(dtype.name, d) if d == dtype.name else d for d in without]
            assert found == expected, (call.case, dtype.name)


def test_the_tables_name_functions_that_have_cases():
    assert set(CASES) >= LOW_FUNCTIONS | FULL_FUNCTIONS | BY_ITS_OPS


# --- values ---------------------------------------------------------------------------------------------------------


def _random(seed, *shapes):
    rng = np.random.default_rng(seed)
    return [rng.uniform(0.1, 0.9, shape).astype(np.float32) for shape in shapes]


_TARGETS = np.array([0, 2, 1])
AS_ON_TORCHS_CPU = {  # where PyTorch's list for the CPU has the function in the same place as that for CUDA
    "matmul": ([(3, 4), (4, 5)], lambda x, a, b: x.matmul(a, b)),
    "linear": ([(3, 4), (5, 4), (5,)], lambda x, a, w, b: x.nn.functional.linear(a, w, b)),
    "conv1d": ([(2, 3, 8), (4, 3, 3), (4,)], lambda x, a, w, b: x.nn.functional.conv1d(a, w, b)),
    "conv2d": ([(2, 3, 6, 6), (4, 3, 3, 3), (4,)], lambda x, a, w, b: x.nn.functional.conv2d(a, w, b)),
    "conv_transpose2d": (
        [(2, 3, 4, 4), (3, 2, 3, 3), (2,)],
        lambda x, a, w, b: x.nn.functional.conv_transpose2d(a, w, b),
    ),
    "einsum": ([(3, 4), (5, 4)], lambda x, a, b: x.einsum("ij,kj->ik", a, b)),
    "scaled_dot_product_attention": (
        [(2, 3, 4), (2, 5, 4), (2, 5, 4)],
        lambda x, q, k, v: x.nn.functional.scaled_dot_product_attention(q, k, v),
    ),
    "mse_loss": ([(3, 4), (3, 4)], lambda x, a, b: x.nn.functional.mse_loss(a, b)),
    "l1_loss": ([(3, 4), (3, 4)], lambda x, a, b: x.nn.functional.l1_loss(a, b)),
    "huber_loss": ([(3, 4), (3, 4)], lambda x, a, b: x.nn.functional.huber_loss(a, b)),
    "binary_cross_entropy_with_logits": (
        [(3, 4), (3, 4)],
        lambda x, a, b: x.nn.functional.binary_cross_entropy_with_logits(a, b),
    ),
    "relu": ([(3, 4)], lambda x, a: x.relu(a)),
    "add": ([(3, 4), (4,)], lambda x, a, b: x.add(a, b)),
    "mean": ([(3, 4)], lambda x, a: x.mean(a)),
    "sqrt": ([(3, 4)], lambda x, a: x.sqrt(a)),
    "elu": ([(3, 4)], lambda x, a: x.nn.functional.elu(a)),
    "gelu": ([(3, 4)], lambda x, a: x.nn.functional.gelu(a)),
}
AS_ON_TORCHS_CUDA = {  # PyTorch's list for CUDA: the function in float32 of what was of half precision
    "exp": ([(3, 4)], lambda x, a: x.exp(a)),
    "log": ([(3, 4)], lambda x, a: x.log(a)),
    "pow": ([(3, 4), (3, 4)], lambda x, a, b: x.pow(a, b)),
    "reciprocal": ([(3, 4)], lambda x, a: x.reciprocal(a)),
    "sum": ([(3, 4)], lambda x, a: x.sum(a)),
    "prod": ([(3, 4)], lambda x, a: x.prod(a)),
    "cumsum": ([(7,)], lambda x, a: x.cumsum(a, 0)),
    "softmax": ([(3, 4)], lambda x, a: x.softmax(a, -1)),
    "log_softmax": ([(3, 4)], lambda x, a: x.log_softmax(a, -1)),
    "softplus": ([(3, 4)], lambda x, a: x.nn.functional.softplus(a)),
    "logsumexp": ([(3, 4)], lambda x, a: x.logsumexp(a, -1)),
    "norm": ([(3, 4)], lambda x, a: x.norm(a)),
    "layer_norm": ([(3, 4), (4,), (4,)], lambda x, a, w, b: x.nn.functional.layer_norm(a, (4,), w, b)),
    "group_norm": ([(2, 4, 3), (4,), (4,)], lambda x, a, w, b: x.nn.functional.group_norm(a, 2, w, b)),
    "rms_norm": ([(3, 4), (4,)], lambda x, a, w: x.nn.functional.rms_norm(a, (4,), w)),
    "cosine_similarity": ([(3, 4), (3, 4)], lambda x, a, b: x.cosine_similarity(a, b)),
    "cross_entropy": ([(3, 4)], lambda x, a: x.nn.functional.cross_entropy(a, x.tensor(_TARGETS))),
    "nll_loss": ([(3, 4)], lambda x, a: x.nn.functional.nll_loss(a, x.tensor(_TARGETS))),
    "kl_div": ([(3, 4), (3, 4)], lambda x, a, b: x.nn.functional.kl_div(a, b, reduction="sum")),
}


class _Functions:
    """Wengert under torch's spelling: `x.nn.functional.f` is `x.f`."""

    def __getattr__(self, name):
        return self if name in ("nn", "functional") else getattr(wg, name)


def _close(found, expected, tolerance):
    np.testing.assert_allclose(
        found.numpy().astype(np.float32), expected.float().numpy(), rtol=tolerance, atol=tolerance
    )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", AS_ON_TORCHS_CPU)
def test_values_are_those_of_torchs_autocast_on_the_cpu(name, dtype):
    torch = pytest.importorskip("torch", reason="compares with torch")
    shapes, call = AS_ON_TORCHS_CPU[name]
    arrays = _random(1, *shapes)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        expected = call(torch, *[torch.tensor(a).to(getattr(torch, dtype)) for a in arrays])
    with wg.autocast():
        found = call(_Functions(), *[wg.tensor(a).to(getattr(wg, dtype)) for a in arrays])
    assert found.dtype.name == str(expected.dtype).removeprefix("torch.")
    _close(found, expected, 1e-5 if found.dtype.name == "float32" else 2e-2)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", AS_ON_TORCHS_CUDA)
def test_values_are_those_of_torchs_table_for_cuda(name, dtype):
    torch = pytest.importorskip("torch", reason="compares with torch")
    shapes, call = AS_ON_TORCHS_CUDA[name]
    arrays = _random(2, *shapes)
    expected = call(torch, *[torch.tensor(a).to(getattr(torch, dtype)).float() for a in arrays])
    with wg.autocast():
        found = call(_Functions(), *[wg.tensor(a).to(getattr(wg, dtype)) for a in arrays])
    assert found.dtype.name == "float32"
    _close(found, expected, 1e-5)  # float32's tolerance: nothing inside was rounded to bfloat16


def test_a_dtype_that_is_asked_for_holds():
    x = wg.ones(3, dtype=wg.bfloat16)
    with wg.autocast():
        assert wg.sum(x, dtype=wg.bfloat16).dtype == wg.bfloat16
        assert wg.prod(x, dtype=wg.float64).dtype == wg.float64


def test_operators_are_as_the_functions():
    a, h = wg.ones((2, 2)), wg.full((2, 2), 1.5, dtype=wg.bfloat16)
    with wg.autocast():
        assert _dtypes([a @ a, a @ h, h @ h]) == ["bfloat16"] * 3
        assert _dtypes([h**2, h**1, h**0.1, h**h, 2**h]) == ["float32"] * 5
        assert _dtypes([h + h, h * 2.0, h / 2, 1 / h, -h]) == ["bfloat16"] * 5
        assert _dtypes([a + h, wg.concat([a, h]), wg.where(a > 0, a, h)]) == ["float32"] * 3
        np.testing.assert_allclose((h**0.1).numpy(), np.float32(1.5) ** np.float32(0.1), rtol=1e-6)


def test_float64_is_never_lowered_nor_what_stands_beside_it():
    a, b = wg.tensor(np.array([[1 / 3]])), wg.tensor([[1 / 3]])
    with wg.autocast():
        assert (a @ b).dtype == wg.float64
        assert (a @ b).item() == 1 / 3 * float(np.float32(1 / 3))
        assert wg.linear(b, b, wg.tensor(np.array([1.0]))).dtype == wg.float64


def test_a_widened_operand_is_taken_as_it_was():
    a, h = wg.ones((2, 2)), wg.ones((2, 2), dtype=wg.bfloat16)
    with wg.autocast():
        product = h @ a
    assert product.node.sources[0] is h.node


# --- the context ----------------------------------------------------------------------------------------------------


def _dtype_of_a_product():
    return (wg.ones((2, 2)) @ wg.ones((2, 2))).dtype.name


def test_it_nests_and_ends():
    assert _dtype_of_a_product() == "float32"
    with wg.autocast():
        assert _dtype_of_a_product() == "bfloat16"
        with wg.autocast(enabled=False):
            assert _dtype_of_a_product() == "float32"
            with wg.autocast("float16"):
                assert _dtype_of_a_product() == "float16"
        assert _dtype_of_a_product() == "bfloat16"
    with pytest.raises(ZeroDivisionError), wg.autocast():
        _ = 1 / 0
    assert _dtype_of_a_product() == "float32"


def test_it_is_a_decorator():
    decorated = wg.autocast(wg.float16)(_dtype_of_a_product)
    assert [decorated(), decorated(), _dtype_of_a_product()] == ["float16", "float16", "float32"]


def test_it_holds_for_its_thread():
    found = []
    with wg.autocast():
        thread = threading.Thread(target=lambda: found.append(_dtype_of_a_product()))
        thread.start()
        thread.join()
    assert found == ["float32"]


def test_grad_modes_and_transforms_keep_it():
    x = wg.ones((2, 2))
    with wg.autocast():
        with wg.no_grad():
            assert _dtype_of_a_product() == "bfloat16"
            with wg.enable_grad():
                assert _dtype_of_a_product() == "bfloat16"
        seen = []
        wg.grad(lambda w: (seen.append((w @ x).dtype.name), (w @ x).sum())[1])(x)
        assert seen == ["bfloat16"]


@pytest.mark.parametrize("dtype", [wg.float32, wg.int32, "cuda"])
def test_only_half_precision_can_be_asked_for(dtype):
    with pytest.raises(wg.errors.DTypeError, match="autocast"):
        wg.autocast(dtype)


# --- gradients and replays ------------------------------------------------------------------------------------------


def _network():
    wg.manual_seed(3)
    model = wg.nn.Sequential(wg.nn.Linear(6, 8), wg.nn.Tanh(), wg.nn.LayerNorm(8), wg.nn.Linear(8, 4))
    return model, wg.random.normal((5, 6)), wg.tensor([0, 1, 2, 3, 0])


def _gradients(inside):
    model, x, targets = _network()
    with wg.autocast():
        loss = wg.cross_entropy(model(x), targets)
        if inside:
            loss.backward()
    if not inside:
        loss.backward()
    return [p.grad for p in model.parameters()]


def test_backward_inside_is_backward_outside():
    inside, outside = _gradients(True), _gradients(False)
    assert _dtypes(inside) == ["float32"] * len(inside)
    for a, b in zip(inside, outside):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_gradients_are_torchs():
    torch = pytest.importorskip("torch", reason="compares with torch")
    model, x, targets = _network()
    theirs = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 4))
    theirs.load_state_dict({k: torch.tensor(v.numpy()) for k, v in model.state_dict().items()})
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(theirs(torch.tensor(x.numpy())), torch.tensor(targets.numpy()))
    loss.backward()
    for a, b in zip(_gradients(False), theirs.parameters()):
        np.testing.assert_allclose(a.numpy(), b.grad.numpy(), rtol=0.05, atol=5e-3)


def _products_in(outputs, since=0):
    return [node for node in ancestors(outputs, since) if node.op.name == "matmul"]


def test_derivatives_are_recorded_with_autocast_off():
    w, x = wg.ones((3, 3)), wg.ones((2, 3))
    with wg.autocast():
        assert recording.autocast is wg.bfloat16
        gradient = wg.grad(lambda w: ((x @ w) ** 2).sum())(w)
        _, tangent = wg.jvp(lambda w: wg.exp(x @ w), (w,), (w,))
    assert gradient.dtype == tangent.dtype == wg.float32
    for node in _products_in([gradient.node, tangent.node]):
        assert node.dtype is wg.bfloat16 and all(source.dtype is wg.bfloat16 for source in node.sources)
    assert not [n for n in ancestors([gradient.node]) if n.op.name == "cast" and n.sources[0].op.name == "cast"]


def _layer(w, x):
    return wg.tanh(x @ w) * wg.softmax(x @ w)


REPLAYS = {
    "vmap": lambda w, x: wg.vmap(lambda row: _layer(w, row))(x),
    "checkpoint": lambda w, x: wg.checkpoint(_layer)(w, x),
    "cond": lambda w, x: wg.cond(wg.sum(x) > 0, lambda x: _layer(w, x), lambda x: _layer(w, x) * 2, x),
    "scan": lambda w, x: wg.scan(lambda c, row: (c, _layer(w, row)), wg.tensor(0.0), x)[1],
}


@pytest.mark.parametrize("name", REPLAYS)
def test_replays_are_not_cast_again(name):
    rng = np.random.default_rng(5)
    w, x = wg.tensor(rng.normal(size=(4, 4)).astype(np.float32)), wg.tensor(rng.random((3, 4)).astype(np.float32))

    def loss(f):
        return lambda w: (f(w, x) ** 2).sum()

    with wg.autocast():
        plain, again = _layer(w, x), REPLAYS[name](w, x)
        slopes = wg.grad(loss(_layer))(w), wg.grad(loss(REPLAYS[name]))(w)
    outside = wg.grad(wg.autocast()(loss(REPLAYS[name])))(w)
    assert plain.dtype == again.dtype == slopes[1].dtype == wg.float32
    np.testing.assert_allclose(again.numpy(), plain.numpy(), rtol=1e-6)
    np.testing.assert_allclose(slopes[1].numpy(), slopes[0].numpy(), rtol=2e-2, atol=2e-2)
    np.testing.assert_array_equal(slopes[1].numpy(), outside.numpy())


def test_a_compiled_function_knows_autocast_from_outside_and_inside():
    x = wg.ones((2, 2))
    product = compile(lambda a: a @ a)
    lowered = compile(wg.autocast(wg.float16)(lambda a: a @ a))
    for _ in range(3):
        assert product(x).dtype == wg.float32
        with wg.autocast():
            assert product(x).dtype == wg.bfloat16
        assert lowered(x).dtype == wg.float16


def test_custom_rules_get_the_forward_pass_dtypes():
    seen = []

    @wg.custom_vjp
    def doubled(x):
        return x * 2

    doubled.defvjp(lambda x: (x * 2, x), lambda x, g: (seen.append((x @ x).dtype.name), g * 2)[1])
    with wg.autocast():
        wg.grad(lambda x: doubled(x).sum())(wg.ones((2, 2)))
    assert seen == ["float32"]


# --- layers and training --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda: wg.nn.RNN(4, 4),
        lambda: wg.nn.RNN(4, 4, bias=False, bidirectional=True),
        lambda: wg.nn.LSTM(4, 4, num_layers=2),
        lambda: wg.nn.LSTM(4, 4, proj_size=2),
        lambda: wg.nn.GRU(4, 4),
        lambda: wg.nn.Linear(4, 4, bias=False),
        lambda: wg.nn.Conv1d(3, 2, 1),
    ],
)
def test_layers_of_products_give_the_low_dtype_and_float32_gradients(make):
    layer = make()
    with wg.autocast():
        result = layer(wg.ones((2, 3, 4)))
    output = result[0] if isinstance(result, tuple) else result
    assert set(_dtypes(result)) == {"bfloat16"}
    output.sum().backward()
    assert {p.grad.dtype.name for p in layer.parameters()} == {"float32"}


@pytest.mark.parametrize("cell", ["RNNCell", "LSTMCell", "GRUCell"])
def test_cells_give_the_low_dtype(cell):
    with wg.autocast():
        assert set(_dtypes(getattr(wg.nn, cell)(4, 4)(wg.ones((2, 4))))) == {"bfloat16"}


def test_a_transformer_layer_gives_what_torchs_does_on_cuda():
    layer = wg.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    with wg.autocast():
        y = layer(wg.ones((2, 3, 8)))
    assert y.dtype == wg.float32  # the layer norm at its end
    wg.sum(y).backward()
    assert {p.grad.dtype.name for p in layer.parameters()} == {"float32"}


def _mlp():
    return wg.nn.Sequential(wg.nn.Linear(10, 32), wg.nn.GELU(), wg.nn.Linear(32, 32), wg.nn.ReLU(), wg.nn.Linear(32, 3))


def _convnet():
    return wg.nn.Sequential(
        wg.nn.Conv2d(1, 6, 3),
        wg.nn.BatchNorm2d(6),
        wg.nn.ReLU(),
        wg.nn.MaxPool2d(2),
        wg.nn.Conv2d(6, 8, 3),
        wg.nn.ReLU(),
        wg.nn.AdaptiveAvgPool2d(1),
        wg.nn.Flatten(),
        wg.nn.Linear(8, 3),
    )


def _trained(make, shape, dtype, steps=20):
    """The losses of a training run; `dtype` is what autocast lowers to, or None for float32 throughout."""
    wg.manual_seed(7)
    model = make()
    optimizer = wg.optim.Adam(model.parameters(), lr=0.01)
    scaler = wg.optim.GradScaler(enabled=dtype is wg.float16)
    rng = np.random.default_rng(8)
    x, targets = rng.normal(size=shape).astype(np.float32), rng.integers(0, 3, shape[0])
    x, targets = wg.tensor(x + targets.reshape(-1, *(1,) * (x.ndim - 1)).astype(np.float32)), wg.tensor(targets)
    losses = []
    for _ in range(steps):
        with wg.autocast(dtype or wg.bfloat16, enabled=dtype is not None):
            loss = wg.cross_entropy(model(x), targets)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        assert {p.grad.dtype.name for p in model.parameters()} == {"float32"}
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    assert {p.dtype.name for p in model.parameters()} == {"float32"}
    return losses


@pytest.mark.parametrize("dtype", [wg.bfloat16, wg.float16], ids=["bfloat16", "float16"])
@pytest.mark.parametrize("make, shape", [(_mlp, (24, 10)), (_convnet, (12, 1, 12, 12))], ids=["mlp", "convnet"])
def test_training_stays_close_to_float32(make, shape, dtype):
    full, mixed = _trained(make, shape, None), _trained(make, shape, dtype)
    assert full[-1] < 0.9 * full[0]
    assert full != mixed
    # the loss falls up to 16-fold; torch's own runs of the MLP under bfloat16 differ by 0.7 to 5.4 %, over six seeds
    np.testing.assert_allclose(mixed, full, rtol=0.06)
