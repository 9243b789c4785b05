"""What `nn.Module` does for a PyTorch program, run with either library and compared."""

import copy
import pickle
from collections import OrderedDict

import numpy as np
import pytest

import wengert.torch as torch

theirs = pytest.importorskip("torch")

LIBRARIES = [torch, theirs]


def plain(value):
    """A result as Python values that two libraries can agree on."""
    if hasattr(value, "detach"):
        return np.asarray(value.detach().numpy()).tolist()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def agree(program):
    same(plain(program(torch)), plain(program(theirs)))


def same(a, b, where="result"):
    if isinstance(b, list) and isinstance(a, list):
        assert len(a) == len(b), where
        for i, (x, y) in enumerate(zip(a, b)):
            same(x, y, f"{where}[{i}]")
    elif isinstance(b, dict) and isinstance(a, dict):
        assert list(a) == list(b), where
        for key in b:
            same(a[key], b[key], f"{where}[{key!r}]")
    elif isinstance(b, float) and isinstance(a, float):
        assert a == b or abs(a - b) <= 1e-5 * (1 + abs(b)), (where, a, b)
    else:
        assert a == b and type(a) is type(b), (where, a, b)


def error_of(function):
    try:
        function()
    except Exception as error:
        return next(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins"), str(error)
    return None


def net_of(t, bias=True):
    nn = t.nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(3, 4, bias=bias)
            self.norm = nn.BatchNorm1d(4)
            self.scale = nn.Parameter(t.ones(4))
            self.register_buffer("table", t.arange(4).float())
            self.register_buffer("hidden", t.zeros(2), persistent=False)
            self.register_parameter("absent", None)
            self.layers = nn.ModuleList([nn.Linear(4, 4), nn.ReLU(inplace=True)])
            self.heads = nn.ModuleDict({"a": nn.Linear(4, 2), "b": nn.Identity()})

        def forward(self, x):
            x = self.norm(self.first(x)) * self.scale + self.table
            for layer in self.layers:
                x = layer(x)
            return self.heads["a"](x)

    net = Net()
    with t.no_grad():
        for i, p in enumerate(net.parameters()):
            p.copy_(t.linspace(-1, 1, p.numel()).reshape(p.shape) * (i + 1) / 3)
    return net


def test_names():
    def program(t):
        net = net_of(t)
        return (
            [n for n, _ in net.named_parameters()],
            [n for n, _ in net.named_buffers()],
            [n for n, _ in net.named_modules()],
            [n for n, _ in net.named_children()],
            list(net.state_dict()),
            list(net.state_dict(prefix="p.")),
            list(net._parameters),
            list(net._modules),
            list(net._buffers),
            repr(net),
            [n for n, _ in net.named_parameters("top", recurse=False)],
            sum(p.numel() for p in net.parameters() if p.requires_grad),
            [type(m).__name__ for m in net.modules()],
        )

    agree(program)


def test_training_one_step():
    def program(t):
        net = net_of(t)
        optimizer = t.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        for _ in range(3):
            optimizer.zero_grad()
            loss = (net(t.linspace(-1, 1, 15).reshape(5, 3)) ** 2).mean()
            loss.backward()
            optimizer.step()
        return loss, net.state_dict()

    ours, other = program(torch), program(theirs)
    np.testing.assert_allclose(ours[0].item(), other[0].item(), rtol=1e-5)
    for key, value in other[1].items():
        np.testing.assert_allclose(ours[1][key].numpy(), value.numpy(), rtol=1e-4, atol=1e-6)


def test_state_dict_writes_through():
    def program(t):
        net = net_of(t)
        state = net.state_dict()
        kind = isinstance(state, OrderedDict), state["scale"].requires_grad
        with t.no_grad():
            state["scale"].copy_(t.full((4,), 7.0))
            state["table"].zero_()
        net.scale.data.mul_(2)
        net.first.bias.data[0] = 9.0
        kept = net.state_dict(keep_vars=True)["scale"] is net.scale
        return kind, kept, net.scale, net.table, net.first.bias, state["scale"]

    agree(program)


def test_loading():
    def program(t):
        net, other = net_of(t), net_of(t, bias=False)
        state = net.state_dict()
        found = [str(net.load_state_dict(state))]
        found.append(error_of(lambda: other.load_state_dict(state)))
        found.append(error_of(lambda: net.load_state_dict(other.state_dict())))
        found.append(str(net.load_state_dict(other.state_dict(), strict=False)))
        keys = other.load_state_dict(state, strict=False)
        found += [keys.missing_keys, keys.unexpected_keys]
        state["scale"] = t.zeros(3)
        found.append(error_of(lambda: net.load_state_dict(state)))
        return found

    agree(program)


def test_errors():
    def program(t):
        nn, net = t.nn, net_of(t)

        class Early(nn.Module):
            def __init__(self, what):
                if what == "module":
                    self.part = nn.Linear(1, 1)
                elif what == "parameter":
                    self.part = nn.Parameter(t.zeros(1))
                elif what == "buffer":
                    self.register_buffer("part", t.zeros(1))

        found = [error_of(lambda what=what: Early(what)) for what in ("module", "parameter", "buffer")]
        found += [
            error_of(lambda: setattr(net, "scale", t.zeros(4))),
            error_of(lambda: setattr(net, "first", 3)),
            error_of(lambda: setattr(net, "table", "text")),
            error_of(lambda: net.nothing),
            error_of(lambda: net.register_parameter("scale", nn.Parameter(t.zeros(1)))),
            error_of(lambda: net.register_parameter("a.b", nn.Parameter(t.zeros(1)))),
            error_of(lambda: net.register_parameter("", nn.Parameter(t.zeros(1)))),
            error_of(lambda: net.register_buffer("first", t.zeros(1))),
            error_of(lambda: net.add_module("scale", nn.ReLU())),
            error_of(lambda: net.add_module("x", 3)),
            error_of(lambda: nn.Module()(1))[0],
            error_of(lambda: net.get_parameter("first.nothing"))[0],
            error_of(lambda: net.get_submodule("first.nothing"))[0],
        ]
        return found

    agree(program)


def test_attributes_change_kind():
    def program(t):
        nn, net = t.nn, net_of(t)
        net.scale = None
        net.table = None
        net.extra = nn.Parameter(t.zeros(1), requires_grad=False)
        net.first.bias = None
        net.count = nn.Buffer(t.zeros(2), persistent=False)
        del net.norm
        net.heads["c"] = nn.Linear(1, 1)
        net.layers.append(nn.Linear(1, 1))
        net.layers.insert(0, nn.Tanh())
        net.layers[1] = nn.Sigmoid()
        shown = (list(net._parameters), list(net._buffers), list(net.state_dict()), repr(net))
        return (*shown, net.extra.requires_grad, [n for n, p in net.named_parameters() if p.requires_grad])

    agree(program)


def test_modes_and_functions_on_all():
    def program(t):
        nn = t.nn

        class Frozen(nn.Module):
            def __init__(self):
                super().__init__()
                self.bn = nn.BatchNorm1d(2)

            def train(self, mode=True):
                super().train(mode)
                self.bn.eval()
                return self

        net = nn.Sequential(Frozen(), nn.Dropout())
        seen = []
        net.train().apply(lambda m: seen.append(type(m).__name__))
        modes = [net.training, net[0].training, net[0].bn.training, net.eval()[1].training]
        net.requires_grad_(False)
        return seen, modes, [p.requires_grad for p in net.parameters()], net.train() is net

    agree(program)


def test_dtypes():
    def program(t):
        net = net_of(t)
        weight = net.first.weight
        found = []
        for change in (
            lambda: net.double(),
            lambda: net.half(),
            lambda: net.float(),
            lambda: net.to(t.float64),
            lambda: net.to("cpu", t.float32),
            lambda: net.to(t.zeros(1, dtype=t.float64)),
            lambda: net.type(t.float32),
            lambda: net.bfloat16(),
            lambda: net.cpu(),
            lambda: net.to(device="cpu", dtype=t.float32, non_blocking=True),
        ):
            same = change() is net
            kinds = [str(x.dtype) for x in (net.first.weight, net.table, net.norm.num_batches_tracked)]
            found.append((same, kinds, net.first.weight is weight))
        return found

    agree(program)


def test_copies_and_pickles():
    for t in LIBRARIES:
        net = t.nn.Sequential(t.nn.Linear(2, 2), t.nn.BatchNorm1d(2))
        net.shared = net[0]
        twin = copy.deepcopy(net)
        assert twin.shared is twin[0] and twin[0].weight is not net[0].weight
        with t.no_grad():
            twin[0].weight.zero_()
        assert net[0].weight.abs().sum() > 0
        again = pickle.loads(pickle.dumps(t.nn.Linear(2, 2)))
        assert isinstance(again, t.nn.Linear) and isinstance(again.weight, t.nn.Parameter)
        assert isinstance(twin[0].weight, t.nn.Parameter) and twin[0].weight.is_leaf


def test_tied_weights():
    def program(t):
        nn = t.nn

        class Tied(nn.Module):
            def __init__(self):
                super().__init__()
                self.embedding = nn.Embedding(5, 3)
                self.head = nn.Linear(3, 5, bias=False)
                self.head.weight = self.embedding.weight

        net = Tied()
        with t.no_grad():
            net.embedding.weight.fill_(0.5)
        net.head(net.embedding(t.tensor([1, 2]))).sum().backward()
        twin = copy.deepcopy(net)
        return (
            len(list(net.parameters())),
            list(net.state_dict()),
            net.head.weight.grad,
            net.head.weight is net.embedding.weight,
            twin.head.weight is twin.embedding.weight,
        )

    agree(program)


def test_overrides_are_called():
    def program(t):
        nn, seen = t.nn, []

        class Conv(nn.Conv1d):
            def _conv_forward(self, x, weight, bias):
                seen.append("conv")
                return super()._conv_forward(x, weight * 2, bias)

            def _apply(self, fn, recurse=True):
                seen.append("apply")
                return super()._apply(fn, recurse)

            def get_extra_state(self):
                return {"n": 3}

            def set_extra_state(self, state):
                seen.append(state["n"])

            def extra_repr(self):
                return "mine, " + super().extra_repr()

            def reset_parameters(self):
                nn.init.constant_(self.weight, 0.5)
                nn.init.zeros_(self.bias)

        layer = Conv(1, 2, 2)
        y = layer.double()(t.ones(1, 1, 3, dtype=t.float64))
        layer.load_state_dict(layer.state_dict())
        return seen, y, repr(layer), list(layer.state_dict())

    agree(program)


def test_mixins():
    def program(t):
        nn = t.nn

        class LoRA:
            def __init__(self, r):
                self.r = r

        class Linear(nn.Linear, LoRA):
            def __init__(self, n, m, r=0, **kwargs):
                nn.Linear.__init__(self, n, m, **kwargs)
                LoRA.__init__(self, r)
                self.lora_a = nn.Parameter(self.weight.new_zeros((r, n)))
                self.weight.requires_grad = False

        layer = Linear(3, 2, r=1, bias=False)
        return layer.r, [n for n, _ in layer.named_parameters()], repr(layer), layer.lora_a.shape[0]

    agree(program)


def test_hooks():
    def program(t):
        nn, seen = t.nn, []
        net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        with t.no_grad():
            net[0].weight.fill_(1.0)
            net[0].bias.zero_()
        handles = [
            net[0].register_forward_hook(lambda m, i, o: seen.append(("forward", i[0], o))),
            net.register_forward_pre_hook(lambda m, i: (i[0] * 2,)),
            net[1].register_forward_hook(lambda m, i, o: o + 1),
            net[0].register_full_backward_hook(lambda m, i, o: seen.append(("backward", o[0]))),
            net.register_state_dict_pre_hook(lambda m, prefix, keep: seen.append(("state", prefix))),
        ]
        net._register_state_dict_hook(lambda m, state, prefix, meta: state.__delitem__("0.bias"))
        x = t.tensor([[1.0, 2.0]], requires_grad=True)
        y = net(x)
        y.sum().backward()
        names = list(net.state_dict())
        for handle in handles:
            handle.remove()
        return seen, y, x.grad, names, net(x)

    agree(program)


def test_containers():
    def program(t):
        nn = t.nn
        net = nn.Sequential(OrderedDict([("a", nn.Linear(2, 2)), ("b", nn.ReLU())]))
        longer = net + nn.Sequential(nn.Tanh())
        named = net[1:]
        net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        net.append(nn.Sigmoid()).insert(0, nn.Identity()).extend([nn.GELU()])
        del net[1]
        layers = nn.ModuleList(nn.ReLU() for _ in range(2)) + [nn.Tanh()]
        values = nn.ParameterList([t.zeros(2), nn.Parameter(t.ones(1))])
        values.append(t.ones(3))
        table = nn.ParameterDict({"x": t.zeros(1)})
        table["y"] = nn.Parameter(t.ones(2))
        table.update({"z": t.ones(1)})
        parts = nn.ModuleDict([["act", nn.ReLU()]])
        parts.update({"b": nn.Tanh()})
        return (
            [repr(x) for x in (net, longer, layers, parts, net[1:], named, net * 2)],
            [n for n, _ in values.named_parameters()],
            [n for n, _ in table.named_parameters()],
            [list(parts), "act" in parts, list(parts.keys()), parts.pop("b") is not None, len(parts)],
            [len(net), len(longer), len(layers), len(values), len(table)],
            [[n for n, _ in nn.Sequential(values, table).named_parameters()]],
        )

    agree(program)


def test_lazy_layers():
    def program(t):
        nn = t.nn
        net = nn.Sequential(nn.LazyLinear(3), nn.LazyBatchNorm1d())
        before = [repr(net), repr(net[0].weight), isinstance(net[0].weight, nn.UninitializedParameter)]
        weight = net[0].weight
        failed = error_of(lambda: net[0].weight.shape)
        names = [n for n, _ in net.named_parameters()], net[0].has_uninitialized_params()
        net(t.zeros(4, 2))
        after = [repr(net), type(net[0]).__name__, net[0].weight is weight, net[0].in_features]
        loaded = nn.LazyLinear(3)
        loaded.load_state_dict(net[0].state_dict())
        return before, failed, names, after, loaded.weight.shape[1], list(net.state_dict())

    agree(program)


def test_parameters():
    def program(t):
        nn = t.nn
        a = nn.Parameter(t.ones(2))
        b = nn.Parameter(t.arange(2), requires_grad=False)
        a.data = t.zeros(3)
        c = nn.Parameter(a)
        return [
            [a.shape[0], a.requires_grad, a.is_leaf, b.requires_grad, repr(a), isinstance(a * 1, nn.Parameter)],
            error_of(lambda: nn.Parameter(t.arange(2)))[0],
            [isinstance(a, t.Tensor), isinstance(nn.Buffer(t.ones(1)), t.Tensor), c is a],
        ]

    agree(program)


KINDS = "ReLU ReLU6 SiLU SELU Mish Hardswish Hardsigmoid ELU CELU LeakyReLU Hardtanh"


@pytest.mark.parametrize("kind", KINDS.split())
def test_layers_in_place(kind):
    def program(t):
        layer = getattr(t.nn, kind)(inplace=True)
        x = t.linspace(-2, 2, 5, requires_grad=True)
        h = x * 2
        y = layer(h)
        (y * t.arange(5) + h).sum().backward()
        refused = error_of(lambda: layer(x))[0]
        return h, x.grad, y is h, refused, repr(layer)

    agree(program)


def test_dropout_in_place_and_wrapped_models():
    def program(t):
        h = t.ones(4) * 2
        y = t.nn.Dropout(1.0, inplace=True)(h)
        same_in_eval = t.nn.Dropout(0.5, inplace=True).eval()(h) is h
        state = net_of(t).state_dict(prefix="module.")
        t.nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
        return h, y is h, same_in_eval, list(state)

    agree(program)


def test_compiled_in_place():
    def program(t):
        net = net_of(t).eval()
        x = t.linspace(-1, 1, 15).reshape(5, 3)
        before = net(x)
        if t is torch:
            net.compile()
        return before, net(x), error_of(lambda: net.to(t.int64))

    agree(program)
