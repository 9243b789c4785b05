"""`torch.sparse` through Wengert, compared with PyTorch."""

import numpy as np
import pytest

import wengert.torch as torch

theirs = pytest.importorskip("torch")


def _matrix(t):
    indices = t.tensor([[0, 1, 1, 2, 0], [1, 0, 2, 2, 1]])
    values = t.tensor([1.0, 2.0, 3.0, 4.0, 0.5], dtype=t.float64)
    return indices, values


@pytest.mark.parametrize("name", ["mm", "matmul", "spmm", "@", "addmm"])
def test_products_and_their_gradients(name):
    found = []
    for t in (torch, theirs):
        indices, values = _matrix(t)
        values.requires_grad_(True)
        dense = t.tensor(np.arange(12.0).reshape(3, 4), requires_grad=True)
        a = t.sparse_coo_tensor(indices, values, (3, 3))
        if name == "@":
            y = a @ dense
        elif name == "addmm":
            y = t.sparse.addmm(t.ones(3, 4, dtype=t.float64), a, dense)
        else:
            y = getattr(t, name)(a, dense)
        (y * y).sum().backward()
        found.append([y.detach().numpy(), values.grad.numpy(), dense.grad.numpy()])
    for ours, expected in zip(*found):
        np.testing.assert_allclose(ours, expected)


def test_forms():
    indices, values = _matrix(torch)
    a = torch.sparse_coo_tensor(indices, values, (3, 3))
    dense = a.to_dense()
    assert dense[0, 1].item() == 1.5 and a.is_sparse and not dense.is_sparse
    whole = a.coalesce()
    assert whole.indices().tolist() == [[0, 1, 1, 2], [1, 0, 2, 2]] and whole.values().tolist() == [1.5, 2.0, 3.0, 4.0]
    with pytest.raises(RuntimeError, match="coalesce"):
        a.values()
    rows = whole.to_sparse_csr()
    assert rows.crow_indices().tolist() == [0, 1, 3, 4] and rows.col_indices().tolist() == [1, 0, 2, 2]
    again = torch.sparse_csr_tensor(rows.crow_indices(), rows.col_indices(), rows.values(), (3, 3))
    assert (again.to_dense() == dense).all() and (a.t().to_dense() == dense.T).all()
    assert (dense.to_sparse().to_dense() == dense).all()
    assert torch.sparse.sum(a).item() == 10.5 and (a * 2).to_dense()[2, 2].item() == 8.0
    assert (torch.sparse.softmax(whole, 1).to_dense().sum(1) - 1).abs().max() < 1e-12
