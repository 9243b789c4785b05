"""`torch.nn.modules.conv`: where PyTorch has these layers too."""

from wengert.torch.nn.modules import layers_here

globals().update(layers_here())
