"""`torch.nn.common_types`: names of kinds of arguments, for annotations."""

from typing import Any

from wengert.torch.tensor import Tensor

_scalar_or_tuple_any_t = _scalar_or_tuple_1_t = _scalar_or_tuple_2_t = _scalar_or_tuple_3_t = Any
_scalar_or_tuple_4_t = _scalar_or_tuple_5_t = _scalar_or_tuple_6_t = Any
_size_any_t = _size_1_t = _size_2_t = _size_3_t = _size_4_t = _size_5_t = _size_6_t = Any
_ratio_any_t = _ratio_2_t = _ratio_3_t = Any
_tensor_list_t = Tensor | list[Tensor]
_maybe_indices_t = Any
