"""Tensor and sequence parallel training by real ranks is that of one process."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from tests.distributed.parallel_programs import training
from tests.distributed.ranks import needs_mpi, on_ranks

pytestmark = needs_mpi


PROGRAM = "tests.distributed.parallel_programs:train_gpt"
ALLOWED = {"float32": 1e-6, "float64": 1e-12}


@functools.cache
def alone(dtype):
    return training(dtype, None)


@pytest.mark.parametrize(
    ("sizes", "zero"),
    [({"tensor": 2}, False), ({"sequence": 2}, False), ({"data": 2, "tensor": 2}, True)],
    ids=["tensor", "sequence", "data x tensor, ZeRO"],
)
def test_training_is_that_of_one_process(sizes, zero):
    for results in on_ranks(int(np.prod(list(sizes.values()))), PROGRAM, sizes, zero):
        for dtype, found in results.items():
            expected, allowed = alone(dtype), ALLOWED[dtype]
            np.testing.assert_allclose(found["losses"], expected["losses"], rtol=allowed)
            for name, array in expected["parameters"].items():
                np.testing.assert_allclose(found["parameters"][name], array, rtol=0, atol=allowed, err_msg=name)
            assert all(parameter == each for parameter, state in found["placements"] for each in state)
            kinds = {op for op, axis in found["collectives"] if axis == "tensor"}
            assert kinds <= {"all_reduce", "all_reduce_many", "all_reduce_max"}
