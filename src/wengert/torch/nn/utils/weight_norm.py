"""`torch.nn.utils.weight_norm`: a weight as its length and its direction."""

from wengert.nn.utils import remove_weight_norm, weight_norm

__all__ = ["remove_weight_norm", "weight_norm"]
