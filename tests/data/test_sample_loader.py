"""SampleLoader beside PyTorch's DataLoader: the same batches, of the same form, in the same order."""

from __future__ import annotations

from collections import OrderedDict, UserDict, namedtuple

import numpy as np
import pytest

import wengert as wg
from wengert.core.errors import ArgumentError, DTypeError
from wengert.data import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    SampleLoader,
    StackDataset,
    Subset,
    TensorDataset,
    default_collate,
    default_convert,
    get_worker_info,
    random_split,
)

Point = namedtuple("Point", ["x", "y"])
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")  # PyTorch's own


class Named(Dataset):
    def __init__(self, size=7):
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        if index >= self.size:
            raise IndexError(index)
        x = np.full(2, index, np.float32)
        return {"x": x, "p": Point(index, float(index)), "t": (index, [x, f"n{index}"]), "b": b"%d" % index}


class Stream(IterableDataset):
    """A stream that gives each worker its part: parts of different lengths."""

    def __init__(self, size=11, splits=True):
        self.size, self.splits = size, splits

    def __iter__(self):
        info = get_worker_info()
        if info is None or not self.splits:
            return iter(range(self.size))
        return iter(range(info.id, self.size * (info.id == 0) + 4, info.num_workers))


class TensorLoader(SampleLoader):
    convert = staticmethod(wg.tensor)


def plain(value):
    """A batch with arrays and tensors as what can be compared."""
    if hasattr(value, "numpy"):
        value = value.numpy()
    if isinstance(value, np.ndarray):
        return "array", str(value.dtype), value.shape, value.tolist()
    if isinstance(value, (dict, UserDict)):
        return type(value).__name__, [(key, plain(item)) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [plain(item) for item in value]
    return type(value).__name__, value


SAMPLES = {
    "floats": [1.5, 2.5],
    "ints": [1, 2],
    "bools": [True, False],
    "numpy scalars": [np.float32(1), np.float32(2)],
    "int8": [np.int8(1), np.int8(2)],
    "arrays": [np.eye(2, dtype=np.float16), np.ones((2, 2), np.float16)],
    "text": ["a", "bc"],
    "bytes": [b"a", b"bc"],
    "tuples": [(1, "a"), (2, "b")],
    "lists": [[1, 2.0], [3, 4.0]],
    "named": [Point(1, np.ones(2)), Point(2, np.zeros(2))],
    "dicts": [{"a": 1, "b": {"c": 2.0}}, {"a": 3, "b": {"c": 4.0}}],
    "ordered": [OrderedDict(a=1), OrderedDict(a=2)],
    "a class of mappings": [UserDict(a=1), UserDict(a=2)],
    "int then float": [1, 2.5],
    "nested": [[(1, np.zeros(1)), {"k": "v"}], [(2, np.ones(1)), {"k": "w"}]],
}


@pytest.mark.parametrize("kind", SAMPLES)
def test_collating_is_pytorchs(kind):
    torch = pytest.importorskip("torch")
    from torch.utils.data import default_collate as expected

    found = default_collate(SAMPLES[kind], convert=wg.tensor)
    assert plain(found) == plain(expected(SAMPLES[kind]))
    from torch.utils.data import default_convert as expected_convert

    found = default_convert(SAMPLES[kind], convert=wg.tensor)
    assert plain(found) == plain(expected_convert(SAMPLES[kind]))
    assert torch is not None


def test_tensors_are_stacked_and_keep_what_they_are():
    batch = default_collate([wg.ones(2, dtype=wg.bfloat16), wg.zeros(2, dtype=wg.bfloat16)])
    assert isinstance(batch, wg.Tensor) and batch.dtype is wg.bfloat16 and batch.shape == (2, 2)
    w = wg.tensor([1.0, 2.0], requires_grad=True)
    (default_collate([w, w * 2]).sum()).backward()
    assert w.grad.tolist() == [3, 3]


@pytest.mark.parametrize(
    ("batch", "error", "message"),
    [
        ([np.zeros(2), np.zeros(3)], RuntimeError, r"equal size, but got \[2\] at entry 0 and \[3\] at entry 1"),
        ([[1], [1, 2]], RuntimeError, "each element in list of batch should be of equal size"),
        ([object(), object()], TypeError, "found <class 'object'>"),
        ([np.array(["a"])], TypeError, "found <U1"),
        ([None], TypeError, "NoneType"),
    ],
)
def test_what_does_not_collate_is_refused(batch, error, message):
    with pytest.raises(error, match=message):
        default_collate(batch)


# --- the order ------------------------------------------------------------------------------------------------------

CASES = {
    "map": (Named, {"batch_size": 3}),
    "drop_last": (Named, {"batch_size": 3, "drop_last": True}),
    "sampler": (Named, {"batch_size": 2, "sampler": [6, 1, 1, 0]}),
    "batch_sampler": (Named, {"batch_sampler": [[0, 5], [2], [1, 3, 4]]}),
    "one by one": (Named, {"batch_size": None}),
    "stream": (Stream, {"batch_size": 2}),
    "stream, dropped": (Stream, {"batch_size": 2, "drop_last": True}),
    "stream, one by one": (Stream, {"batch_size": None}),
}


def torch_twin(dataset):
    """The data set as PyTorch's classes want it."""
    import torch.utils.data as data

    if isinstance(dataset, IterableDataset):

        class Twin(data.IterableDataset):
            def __iter__(self):
                return dataset.in_torch(data.get_worker_info())

        return Twin()
    return dataset


def in_torch(self, info):
    if info is None:
        return iter(range(self.size))
    return iter(range(info.id, self.size * (info.id == 0) + 4, info.num_workers))


Stream.in_torch = in_torch


@pytest.mark.parametrize("workers", [0, 3])
@pytest.mark.parametrize("case", CASES)
def test_batches_are_pytorchs_and_in_its_order(case, workers):
    pytest.importorskip("torch")
    from torch.utils.data import DataLoader

    make, options = CASES[case]
    expected = [plain(batch) for batch in DataLoader(torch_twin(make()), num_workers=workers, **options)]
    for method in [None] if not workers else ["thread", "fork"]:
        loader = TensorLoader(make(), num_workers=workers, multiprocessing_context=method, **options)
        assert [plain(batch) for batch in loader] == expected
        if not isinstance(loader.dataset, IterableDataset):
            assert len(loader) == len(expected)


def test_batches_are_arrays_without_a_conversion_and_tensors_with_one():
    for workers in (0, 1):
        batch = next(iter(SampleLoader(Named(), 2, num_workers=workers)))
        assert isinstance(batch["x"], np.ndarray) and isinstance(batch["p"], Point)
        batch = next(iter(TensorLoader(Named(), 2, num_workers=workers)))
        assert isinstance(batch["x"], wg.Tensor) and isinstance(batch["t"][1][0], wg.Tensor)


def test_a_collate_fn_makes_the_batch():
    for workers in (0, 1):
        loader = TensorLoader(Named(4), 2, collate_fn=lambda rows: [row["b"] for row in rows], num_workers=workers)
        assert list(loader) == [[b"0", b"1"], [b"2", b"3"]]


def test_shuffling_follows_the_generator():
    def order(seed):
        return [i for batch in SampleLoader(range(20), 3, True, generator=wg.random.Generator(seed)) for i in batch]

    assert sorted(order(1)) == list(range(20)) and order(1) == order(1) and order(1) != order(2)
    loader = SampleLoader(range(20), 20, shuffle=True)
    assert next(iter(loader)).tolist() != next(iter(loader)).tolist()


def test_rows_of_tensors_are_looked_up_at_once():
    class Counted(TensorDataset):
        looks = 0

        def rows(self, indices):
            Counted.looks += 1
            return super().rows(indices)

    data = Counted(wg.arange(10), np.arange(10) * 2.0)
    batches = list(TensorLoader(Subset(data, [9, 8, 7]), 2))
    assert Counted.looks == 2 and [part.tolist() for part in batches[0]] == [[9, 8], [18, 16]]
    assert all(isinstance(part, wg.Tensor) for part in batches[0])

    class Own(TensorDataset):
        def __getitem__(self, index):
            return "own"

    assert list(TensorLoader(Own(wg.arange(2)), 2)) == [["own", "own"]]
    w = wg.tensor([1.0, 2.0], requires_grad=True)
    ((x,),) = TensorLoader(TensorDataset(w), 2)
    x.sum().backward()
    assert w.grad.tolist() == [1, 1]


# --- data sets ------------------------------------------------------------------------------------------------------


def test_sets_are_put_together():
    both = Named(2) + Named(3)
    assert isinstance(both, ConcatDataset) and len(both) == 5 and both[3]["b"] == b"1" and both[-1]["b"] == b"2"
    with pytest.raises(ValueError, match="absolute value of index"):
        both[-6]
    with pytest.raises(IndexError):
        both[5]
    assert isinstance(Stream() + Stream(), ChainDataset) and len(list(Stream(3) + Stream(2))) == 5
    assert StackDataset("ab", [1, 2])[1] == ("b", 2)
    assert StackDataset(StackDataset(a="ab"), [1, 2]).__getitems__([1, 0]) == [({"a": "b"}, 2), ({"a": "a"}, 1)]
    with pytest.raises(ValueError, match="Size mismatch between datasets"):
        StackDataset("ab", "a")
    with pytest.raises(AssertionError, match="Size mismatch between tensors"):
        TensorDataset(wg.ones(2), wg.ones(3))
    with pytest.raises(AssertionError, match="ConcatDataset does not support IterableDataset"):
        ConcatDataset([Stream()])


def test_random_splits_are_disjoint_and_complete():
    for lengths, sizes in (([3, 7], [3, 7]), ([0.5, 0.25, 0.25], [6, 3, 2]), ([1 / 3, 1 / 3, 1 / 3], [4, 4, 3])):
        count = sum(sizes)
        parts = random_split(list(range(count)), lengths, np.random.default_rng(0))
        assert [len(part) for part in parts] == sizes
        assert sorted(item for part in parts for item in part) == list(range(count))
    with pytest.raises(ValueError, match="Sum of input lengths does not equal"):
        random_split(range(3), [1, 1])
    with pytest.warns(UserWarning, match="Length of split at index 1 is 0"):
        random_split(range(1), [0.9, 0.1])


def test_a_data_set_may_use_any_names():
    class Own(Dataset):
        batch = groups = by_row = None

        def __len__(self):
            return 2

        def __getitem__(self, index):
            return index

    assert [batch.tolist() for batch in SampleLoader(Own(), 2)] == [[0, 1]]
    assert bool(Stream())  # without a length


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_workers": -1}, "num_workers option should be non-negative"),
        ({"timeout": -1}, "timeout option should be non-negative"),
        ({"prefetch_factor": 2}, "prefetch_factor option could only be specified"),
        ({"persistent_workers": True}, "persistent_workers option needs num_workers > 0"),
        ({"multiprocessing_context": "fork"}, "multiprocessing_context can only be used with"),
        ({"sampler": [0], "shuffle": True}, "sampler option is mutually exclusive with shuffle"),
        ({"batch_sampler": [[0]], "batch_size": 2}, "batch_sampler option is mutually exclusive"),
        ({"batch_size": None, "drop_last": True}, "batch_size=None option disables auto-batching"),
        ({"batch_size": 0}, "batch_size should be a positive integer"),
        ({"dataset": Stream(), "shuffle": True}, "expected unspecified shuffle option"),
        ({"dataset": Stream(), "sampler": [0]}, "expected unspecified sampler option"),
    ],
)
def test_options_that_make_no_sense_are_refused_as_by_pytorch(options, message):
    with pytest.raises(ArgumentError, match=message):
        SampleLoader(**{"dataset": range(3), **options})


def test_other_mistakes():
    with pytest.raises(ArgumentError, match="should specify a valid start method in"):
        iter(SampleLoader(range(3), num_workers=1, multiprocessing_context="magic"))
    with pytest.raises(DTypeError, match="has no __getitem__ to fetch examples by index"):
        SampleLoader(iter([1]))
    with pytest.raises(ValueError, match="batch_size attribute should not be set after SampleLoader is initialized"):
        SampleLoader(range(3)).batch_size = 2
    with pytest.raises(TypeError):
        len(SampleLoader(Stream()))


def test_a_stream_longer_than_it_says_is_told():
    class Short(Stream):
        def __len__(self):
            return 4

    loader = SampleLoader(Short(6), 2)
    assert len(loader) == 2
    with pytest.warns(UserWarning, match="was reported to be 2"):
        assert len(list(loader)) == 3
