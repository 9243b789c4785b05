"""`wg.windows`: window functions, symmetric unless told otherwise; those of PyTorch's `signal.windows`.

`sym=False` gives the periodic window that spectra take. `wg.hann_window` and its kin are periodic by default.
"""

from __future__ import annotations

from wengert.api.lift import lift_creation
from wengert.core.pickled_names import name_by_place
from wengert.ops import windows as _windows

bartlett = lift_creation(_windows.bartlett)
blackman = lift_creation(_windows.blackman)
cosine = lift_creation(_windows.cosine)
exponential = lift_creation(_windows.exponential)
gaussian = lift_creation(_windows.gaussian)
general_cosine = lift_creation(_windows.general_cosine)
general_hamming = lift_creation(_windows.general_hamming)
hamming = lift_creation(_windows.hamming)
hann = lift_creation(_windows.hann)
kaiser = lift_creation(_windows.kaiser)
nuttall = lift_creation(_windows.nuttall)

name_by_place(globals())
_OTHERS = ("annotations", "lift_creation", "name_by_place")
__all__ = sorted(_name for _name in globals() if not _name.startswith("_") and _name not in _OTHERS)
