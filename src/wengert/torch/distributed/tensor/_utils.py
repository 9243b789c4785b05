"""What libraries import of PyTorch's sharding arithmetic."""

from wengert.torch.distributed.tensor import distribute_tensor

compute_local_shape_and_global_offset = distribute_tensor
