"""`wg.fft`: the Fourier transforms of the Array API standard, and those along two axes.

Real values of float32 or less give complex64, float64 gives complex128. All have derivatives, in every mode.
"""

from __future__ import annotations

from wengert.api.lift import lift
from wengert.core.pickled_names import name_by_place
from wengert.ops import fft as _fft

fft = lift(_fft.fft)
fft2 = lift(_fft.fft2)
fftfreq = lift(_fft.fftfreq)
fftn = lift(_fft.fftn)
fftshift = lift(_fft.fftshift)
hfft = lift(_fft.hfft)
ifft = lift(_fft.ifft)
ifft2 = lift(_fft.ifft2)
ifftn = lift(_fft.ifftn)
ifftshift = lift(_fft.ifftshift)
ihfft = lift(_fft.ihfft)
irfft = lift(_fft.irfft)
irfft2 = lift(_fft.irfft2)
irfftn = lift(_fft.irfftn)
rfft = lift(_fft.rfft)
rfft2 = lift(_fft.rfft2)
rfftfreq = lift(_fft.rfftfreq)
rfftn = lift(_fft.rfftn)

name_by_place(globals())
_OTHERS = ("annotations", "lift", "name_by_place")
__all__ = sorted(_name for _name in globals() if not _name.startswith("_") and _name not in _OTHERS)
