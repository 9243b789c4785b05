"""`torch.nn.utils.spectral_norm`: a weight over its largest singular value."""

from wengert.nn.utils import remove_spectral_norm, spectral_norm

__all__ = ["remove_spectral_norm", "spectral_norm"]
