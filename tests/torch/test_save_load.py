"""`torch.save` and `torch.load`: files that PyTorch reads, and PyTorch's."""

import collections

import numpy as np
import pytest

import wengert.torch as torch
import wengert.torch.nn as nn

theirs = pytest.importorskip("torch")


def test_what_is_saved_is_read_by_pytorch(tmp_path):
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    model(torch.ones(4, 2)).sum().backward()
    optimizer.step()
    half = torch.tensor([1.5, -2.0], dtype=torch.bfloat16)
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "rest": [1, "two", (3.0, None), torch.Size([2, 3]), torch.float16, torch.device("cpu"), half],
    }
    torch.save(state, tmp_path / "state.pt")
    read = theirs.load(tmp_path / "state.pt", weights_only=True)
    assert read["rest"][:3] == [1, "two", (3.0, None)] and read["rest"][4] is theirs.float16
    assert read["rest"][3] == theirs.Size([2, 3]) and read["rest"][5] == theirs.device("cpu")
    assert read["rest"][6].dtype is theirs.bfloat16 and read["rest"][6].tolist() == [1.5, -2.0]
    other = theirs.nn.Sequential(theirs.nn.Linear(2, 3), theirs.nn.BatchNorm1d(3))
    other.load_state_dict(read["model"])
    np.testing.assert_array_equal(other[0].weight.detach().numpy(), model[0].weight.detach().numpy())
    theirs.optim.Adam(other.parameters()).load_state_dict(read["optimizer"])
    again = torch.load(tmp_path / "state.pt")
    assert again["rest"][4] is torch.float16 and type(again["rest"][3]) is torch.Size


def test_what_pytorch_saved_is_read(tmp_path):
    model = theirs.nn.Sequential(collections.OrderedDict(one=theirs.nn.Linear(2, 3)))
    theirs.save(model.state_dict(), tmp_path / "state.pt")
    ours = nn.Sequential(collections.OrderedDict(one=nn.Linear(2, 3)))
    ours.load_state_dict(torch.load(tmp_path / "state.pt", map_location="cpu", weights_only=True))
    np.testing.assert_array_equal(ours.one.weight.detach().numpy(), model.one.weight.detach().numpy())


def test_whole_modules_only_where_that_is_asked_for(tmp_path):
    model = theirs.nn.Sequential(theirs.nn.Linear(2, 3), theirs.nn.ReLU())
    theirs.save(model, tmp_path / "model.pt")
    with pytest.raises(Exception, match=r"torch\.nn\.modules\.container\.Sequential"):
        torch.load(tmp_path / "model.pt")
    ours = torch.load(tmp_path / "model.pt", weights_only=False)
    x = np.ones((2, 2), np.float32)
    expected = model(theirs.tensor(x)).detach().numpy()
    np.testing.assert_allclose(ours(torch.tensor(x)).detach().numpy(), expected, rtol=1e-6)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.activation = nn.TransformerEncoderLayer(4, 2, 8), nn.functional.gelu


def test_a_module_that_holds_functions_is_read_where_they_are_safe(tmp_path):
    torch.save(Block(), tmp_path / "model.pt")
    with pytest.raises(Exception, match="Block"):
        torch.load(tmp_path / "model.pt")
    kinds = [Block, nn.functional.relu, nn.functional.gelu, nn.TransformerEncoderLayer, nn.MultiheadAttention]
    with torch.serialization.safe_globals(
        [*kinds, nn.Linear, nn.LayerNorm, nn.Dropout, type(Block().layer.self_attn.out_proj)]
    ):
        read = torch.load(tmp_path / "model.pt")
    x = torch.ones(3, 1, 4)
    assert read.activation is nn.functional.gelu and read.eval().layer(x).shape == (3, 1, 4)
