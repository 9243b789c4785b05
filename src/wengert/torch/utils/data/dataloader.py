"""`torch.utils.data.dataloader`: where PyTorch has these names too."""

from wengert.torch.utils.data import *  # noqa: F403
