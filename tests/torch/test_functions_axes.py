"""Reductions, order, indices and sets of `wengert.torch`, beside PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest

from tests.torch.compare import same, same_error, same_gradient

X = [[3.0, 1.0, 2.0], [4.0, 6.0, 5.0]]
NAN = float("nan")

REDUCTIONS = {
    "sums of integers": lambda t: (
        t.tensor([1, 2], dtype=t.uint8).sum(),
        t.tensor([True, True]).sum(),
        t.ones(2).sum(),
    ),
    "by place": lambda t: (
        t.tensor(X).sum(1, True),
        t.tensor(X).mean(0),
        t.tensor(X).sum((0, 1)),
        t.sum(t.tensor(X), -1),
    ),
    "numpy's names": lambda t: t.tensor(X).sum(axis=1, keepdims=True),
    "in a dtype": lambda t: (
        t.tensor(X).sum(dtype=t.float64),
        t.tensor([1, 2]).mean(dtype=t.float32),
        t.prod(t.tensor([2, 3])),
    ),
    "0-d with an axis": lambda t: (
        t.tensor(2.0).sum(0),
        t.tensor(2.0).max(0),
        t.tensor(2.0).cumsum(0),
        t.tensor(2.0).sort(),
    ),
    "max": lambda t: (t.tensor(X).max(), *t.tensor(X).max(1), *t.max(t.tensor(X), dim=0, keepdim=True)),
    "max with NaN": lambda t: (t.tensor([1.0, NAN]).max(), *t.tensor([1.0, NAN, 2.0]).max(0)),
    "max of two": lambda t: (t.max(t.tensor([1, 5]), t.tensor([3, 2])), t.min(t.tensor([1.0]), other=t.tensor([0.0]))),
    "named pairs": lambda t: (
        t.tensor(X).max(1).indices,
        t.tensor(X).sort(1, descending=True).values,
        t.tensor(X).min(0)[0],
    ),
    "amax": lambda t: (
        t.amax(t.tensor(X)),
        t.amin(t.tensor(X), dim=(0, 1), keepdim=True),
        *t.aminmax(t.tensor(X), dim=1),
    ),
    "argmax": lambda t: (t.tensor(X).argmax(), t.tensor(X).argmax(1), t.tensor(X).argmin(dim=0, keepdim=True)),
    "truth": lambda t: (
        t.all(t.tensor([1, 0])),
        t.any(t.tensor([0, 2], dtype=t.uint8)),
        t.tensor([[True, False]]).all(1),
    ),
    "spread": lambda t: (
        t.tensor(X).std(),
        t.tensor(X).var(1),
        t.tensor(X).std(1, False),
        t.tensor(X).var(unbiased=False),
    ),
    "spread with a correction": lambda t: (
        t.var(t.tensor(X), dim=0, correction=0),
        t.std(t.tensor(X), 1, keepdim=True),
    ),
    "spread and mean": lambda t: (*t.std_mean(t.tensor(X), 1), *t.var_mean(t.tensor(X), dim=0, keepdim=True)),
    "median": lambda t: (
        t.median(t.tensor([4.0, 1.0, 2.0, 3.0])),
        *t.tensor(X).median(1),
        t.tensor([1.0, NAN]).median(),
    ),
    "nanmedian": lambda t: (t.nanmedian(t.tensor([4.0, NAN, 2.0, 3.0])), *t.nanmedian(t.tensor([[NAN, 1.0]]), 1)),
    "mode": lambda t: t.mode(t.tensor([[1, 2, 2], [3, 3, 1]]), 1),
    "quantile": lambda t: (t.quantile(t.tensor(X), 0.4, dim=1), t.quantile(t.tensor(X), t.tensor([0.1, 0.9]))),
    "quantile between": lambda t: [
        t.quantile(t.tensor([1.0, 2.0, 4.0]), 0.3, interpolation=i) for i in ("lower", "higher", "midpoint", "nearest")
    ],
    "nanquantile": lambda t: t.nanquantile(t.tensor([1.0, NAN, 3.0]), 0.5),
    "norm": lambda t: (
        t.norm(t.tensor(X)),
        t.tensor(X).norm(1),
        t.tensor(X).norm(p=2, dim=1),
        t.norm(t.tensor(X), float("inf")),
    ),
    "logsumexp": lambda t: (t.logsumexp(t.tensor(X), 1), t.tensor(X).logsumexp(dim=(0, 1))),
    "dist": lambda t: t.dist(t.tensor(X), t.zeros(3), 1),
    "counts": lambda t: (
        t.count_nonzero(t.tensor([[0, 1], [2, 3]]), dim=1),
        t.nansum(t.tensor([1.0, NAN])),
        t.nanmean(t.tensor([1.0, NAN])),
    ),
    "running": lambda t: (
        t.cumsum(t.tensor([1, 2, 3], dtype=t.int32), 0),
        *t.cummax(t.tensor([1.0, 3.0, 2.0]), 0),
        t.cumprod(t.tensor(X), dim=1),
    ),
    "running in place": lambda t: t.ones(3).cumsum_(0),
    "renorm": lambda t: t.renorm(t.tensor(X), 2, 0, 4.0),
    "cov": lambda t: (t.cov(t.tensor(X)), t.corrcoef(t.tensor(X)), t.cov(t.tensor(X), fweights=t.tensor([1, 2, 1]))),
}

ORDER = {
    "sort": lambda t: (*t.sort(t.tensor([3, 1, 2])), *t.tensor(X).sort(dim=0, descending=True)),
    "sort is stable": lambda t: t.sort(t.tensor([2, 1, 2, 1]), stable=True),
    "argsort": lambda t: t.argsort(t.tensor(X), 1, True),
    "topk": lambda t: (*t.topk(t.tensor(X), 2), *t.tensor(X).topk(1, dim=0, largest=False)),
    "kthvalue": lambda t: t.kthvalue(t.tensor(X), 2, dim=1),
    "searchsorted": lambda t: (
        t.searchsorted(t.tensor([1.0, 3.0, 5.0]), t.tensor([3.0, 6.0])),
        t.searchsorted(t.tensor([1, 3]), 2),
    ),
    "bucketize": lambda t: t.bucketize(t.tensor([1, 3]), t.tensor([1, 2, 3]), right=True, out_int32=True),
    "unique": lambda t: (
        t.unique(t.tensor([3, 1, 3])),
        *t.unique(t.tensor([3, 1, 3]), return_inverse=True, return_counts=True),
    ),
    "unique along an axis": lambda t: t.unique(t.tensor([[1, 2], [1, 2], [0, 1]]), dim=0),
    "unique_consecutive": lambda t: t.unique_consecutive(
        t.tensor([1, 1, 2, 1]), return_inverse=True, return_counts=True
    ),
    "bincount": lambda t: (
        t.bincount(t.tensor([0, 2, 2])),
        t.bincount(t.tensor([1, 1]), weights=t.tensor([0.5, 1.0]), minlength=4),
    ),
    "histc": lambda t: (
        t.histc(t.tensor([1.0, 2.0, 1.0]), bins=4, min=0, max=3),
        *t.histogram(t.tensor([1.0, 2.0, 4.0]), 3),
    ),
    "combinations": lambda t: (
        t.combinations(t.tensor([1, 2, 3])),
        t.cartesian_prod(t.tensor([1, 2]), t.tensor([3, 4])),
    ),
}

INDICES = {
    "gather": lambda t: t.gather(t.tensor(X), 1, t.tensor([[0, 2], [1, 1]])),
    "scatter": lambda t: (
        t.zeros(2, 3).scatter_(1, t.tensor([[0], [2]]), 1.0),
        t.zeros(3).scatter(0, t.tensor([1]), t.tensor([5.0])),
    ),
    "scatter value and reduce": lambda t: t.ones(3).scatter_(0, t.tensor([1, 1]), 2.0, reduce="multiply"),
    "scatter_add": lambda t: t.zeros(3).scatter_add_(0, t.tensor([0, 0, 2]), t.tensor([1.0, 2.0, 3.0])),
    "scatter_reduce": lambda t: t.ones(3).scatter_reduce(
        0, t.tensor([0, 0, 2]), t.tensor([1.0, 2.0, 3.0]), "mean", include_self=False
    ),
    "index_select": lambda t: (
        t.index_select(t.tensor(X), 1, t.tensor([2, 0])),
        t.tensor(X).index_select(0, t.tensor(1)),
    ),
    "index_add": lambda t: t.zeros(3).index_add_(0, t.tensor([0, 0]), t.tensor([1.0, 2.0]), alpha=2),
    "index_copy and fill": lambda t: (
        t.zeros(3).index_copy_(0, t.tensor([1]), t.tensor([4.0])),
        t.ones(2, 2).index_fill_(1, t.tensor([0]), 7),
    ),
    "index_put": lambda t: t.zeros(3).index_put_((t.tensor([0, 0]),), t.tensor([1.0, 2.0]), accumulate=True),
    "take and put": lambda t: (
        t.take(t.tensor(X), t.tensor([0, 5])),
        t.zeros(2, 2).put_(t.tensor([1, 3]), t.tensor([5.0, 6.0])),
    ),
    "take_along_dim": lambda t: t.take_along_dim(t.tensor(X), t.tensor(X).argsort(1), dim=1),
    "masks": lambda t: (t.tensor(X).masked_fill(t.tensor(X) > 2, 0), t.masked_select(t.tensor(X), t.tensor(X) > 2)),
    "masked_scatter": lambda t: t.zeros(3).masked_scatter_(t.tensor([True, False, True]), t.tensor([1.0, 2.0, 3.0])),
    "nonzero": lambda t: (
        t.nonzero(t.tensor([[0, 1], [2, 0]])),
        t.tensor([0, 1, 1]).nonzero(as_tuple=True),
        t.argwhere(t.tensor([0, 3])),
    ),
    "nonzero of 0-d": lambda t: (t.nonzero(t.tensor(1)), t.nonzero(t.tensor(0))),
    "triangles": lambda t: (t.tril(t.ones(3, 3), diagonal=-1), t.ones(2, 2).triu_(), t.tensor(X).triu(1)),
    "diagonals": lambda t: (
        t.diag(t.tensor([1, 2])),
        t.diag(t.ones(2, 3), 1),
        t.diag_embed(t.tensor(X), 1),
        t.diagflat(t.tensor([1.0, 2.0])),
    ),
    "fill_diagonal": lambda t: (t.zeros(3, 3).fill_diagonal_(5), t.zeros(5, 2).fill_diagonal_(5, wrap=True)),
    "parts replaced": lambda t: (
        t.select_scatter(t.zeros(2, 2), t.ones(2), 0, 1),
        t.diagonal_scatter(t.zeros(2, 2), t.ones(2)),
    ),
    "unravel_index": lambda t: t.unravel_index(t.tensor([5, 7]), (3, 4)),
    "equal": lambda t: (
        t.equal(t.ones(2), t.ones(2)),
        t.allclose(t.ones(2), t.ones(2) + 1e-9),
        t.equal(t.ones(2), t.ones(3)),
    ),
    "what a tensor is": lambda t: (
        t.ones(2, 3).numel(),
        t.is_floating_point(t.ones(1)),
        t.ones(1).is_cuda,
        t.ones(2).itemsize,
        t.ones(1).get_device(),
    ),
}

REFUSED = {
    "an axis that is not there": lambda t: t.ones(2, 2).sum(2),
    "an axis twice": lambda t: t.ones(2, 2).sum((0, 0)),
    "an axis that is no integer": lambda t: t.ones(2, 2).max(dim=0.5),
    "the largest of nothing": lambda t: t.ones(0).max(),
    "the largest of nothing along an axis": lambda t: t.ones(2, 0).max(1),
    "spread of integers": lambda t: t.tensor([1, 2]).std(),
    "quantile of integers": lambda t: t.quantile(t.tensor([1, 2]), 0.5),
    "a fraction beyond 1": lambda t: t.quantile(t.ones(2), 1.5),
    "too large a k": lambda t: t.topk(t.ones(2), 3),
    "an index of floats": lambda t: t.gather(t.ones(2), 0, t.ones(1)),
    "an index of another rank": lambda t: t.gather(t.ones(2, 2), 0, t.tensor([0])),
    "an index out of range": lambda t: t.index_select(t.ones(2), 0, t.tensor([2])).sum().item(),
    "a negative index": lambda t: t.gather(t.ones(2), 0, t.tensor([-1])),
    "a negative index of slices": lambda t: t.index_select(t.ones(2), 0, t.tensor([-1])),
    "a matrix as index": lambda t: t.index_select(t.ones(2), 0, t.tensor([[0]])),
    "a mask of integers": lambda t: t.ones(2).masked_fill(t.tensor([1, 0]), 0.0),
    "diagonal of a cube": lambda t: t.diag(t.ones(2, 2, 2)),
    "triangle of a vector": lambda t: t.tril(t.ones(2)),
    "bincount of floats": lambda t: t.bincount(t.ones(2)),
    "a source of another dtype": lambda t: t.zeros(2).scatter_add(0, t.tensor([0]), t.tensor([1])),
    "multinomial of too many": lambda t: t.multinomial(t.ones(2), 3),
    "multinomial of integers": lambda t: t.multinomial(t.tensor([1, 2]), 1),
    "bernoulli of no probability": lambda t: t.bernoulli(t.tensor([1.5])),
}

GRADIENTS = {
    "max along an axis goes to one of those that tie": lambda t: lambda x: (x * 0).max(1).values,
    "amax shares among those that tie": lambda t: lambda x: t.amax(x * 0, 1),
    "median": lambda t: lambda x: x.median(1).values,
    "std": lambda t: lambda x: x.std(0),
    "clamp at its bounds": lambda t: lambda x: t.clamp(x, 1.0, 5.0),
    "fmod": lambda t: lambda x: t.fmod(x * 1.3, 1.1),
    "scatter_reduce": lambda t: (
        lambda x: t.ones(2, 3, dtype=t.float64).scatter_reduce(1, t.zeros(2, 3, dtype=t.int64), x, "amax")
    ),
    "quantile": lambda t: lambda x: t.quantile(x, 0.3, dim=1),
    "norm at zero": lambda t: lambda x: (x * 0).norm(),
    "logsumexp": lambda t: lambda x: x.logsumexp(1),
    "cumprod": lambda t: lambda x: x.cumprod(1),
    "gather": lambda t: lambda x: x.gather(1, t.tensor([[0, 0], [2, 1]])),
    "in place": lambda t: lambda x: (x * 1).mul_(x).clamp_(min=4.0),
}

CASES = REDUCTIONS | ORDER | INDICES


@pytest.mark.parametrize("name", CASES)
def test_the_same_as_pytorch(name):
    same(CASES[name])


@pytest.mark.parametrize("name", REFUSED)
def test_refused_as_pytorch_refuses(name):
    same_error(REFUSED[name])


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_are_pytorchs(name):
    same_gradient(GRADIENTS[name], np.array(X))
