"""The registry of kernels: several for one op are asked in turn."""

from wengert.core.dtypes import float32
from wengert.kernels.launch import H200, Asked, CudaKernel, LaunchList, _in_turn
from wengert.ops.core import placeholder


def test_kernels_of_one_op_are_asked_in_turn():
    asked = []

    def kernel(name, answer):
        def work(node, named, device, results):
            asked.append(name)
            return answer

        return CudaKernel(work)

    work = LaunchList(())
    both = _in_turn([kernel("first", None), kernel("second", work), kernel("third", LaunchList(()))])
    assert both.work(placeholder((), float32), str, H200, Asked()) is work
    assert asked == ["first", "second"]
