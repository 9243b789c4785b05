"""`torch.nn.utils.init`: modules whose initial values do not matter."""

from wengert.nn.utils import skip_init

__all__ = ["skip_init"]
