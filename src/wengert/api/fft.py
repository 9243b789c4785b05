"""`wg.fft`: the Fourier transforms of the Array API standard.

Real values of float32 or less give complex64, float64 gives complex128. They run forward; a derivative through complex
values is not there yet, and asking for one raises.
"""

from __future__ import annotations

from wengert.api.lift import lift
from wengert.ops import fft as _fft

fft = lift(_fft.fft)
fftfreq = lift(_fft.fftfreq)
fftn = lift(_fft.fftn)
fftshift = lift(_fft.fftshift)
hfft = lift(_fft.hfft)
ifft = lift(_fft.ifft)
ifftn = lift(_fft.ifftn)
ifftshift = lift(_fft.ifftshift)
ihfft = lift(_fft.ihfft)
irfft = lift(_fft.irfft)
irfftn = lift(_fft.irfftn)
rfft = lift(_fft.rfft)
rfftfreq = lift(_fft.rfftfreq)
rfftn = lift(_fft.rfftn)

__all__ = sorted(_name for _name in globals() if not _name.startswith("_") and _name not in ("annotations", "lift"))
