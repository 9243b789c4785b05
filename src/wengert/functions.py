"""The public functions, each a function of `ops` lifted to Tensors: a line a function, a section a family.

The last section makes some of them methods. Names and argument names are the Array API standard's where it has them.
"""

from __future__ import annotations

from wengert.lift import lift, lift_binary, lift_unary
from wengert.ops import elementwise as _e
from wengert.ops import linalg as _linalg
from wengert.ops import movement as _movement
from wengert.ops import reduce as _reduce
from wengert.ops.core import stop_gradient as _stop_gradient
from wengert.tensor import Tensor

# --- elementwise ----------------------------------------------------------------------------------------------------

abs = lift_unary(_e.absolute)
acos = lift_unary(_e.acos)
acosh = lift_unary(_e.acosh)
add = lift_binary(_e.add)
asin = lift_unary(_e.asin)
asinh = lift_unary(_e.asinh)
atan = lift_unary(_e.atan)
atan2 = lift_binary(_e.atan2)
atanh = lift_unary(_e.atanh)
bitwise_and = lift_binary(_e.bitwise_and)
bitwise_invert = lift_unary(_e.bitwise_invert)
bitwise_left_shift = lift_binary(_e.bitwise_left_shift)
bitwise_or = lift_binary(_e.bitwise_or)
bitwise_right_shift = lift_binary(_e.bitwise_right_shift)
bitwise_xor = lift_binary(_e.bitwise_xor)
ceil = lift_unary(_e.ceil)
clip = lift(_e.clip)
conj = lift_unary(_e.conj)
copysign = lift_binary(_e.copysign)
cos = lift_unary(_e.cos)
cosh = lift_unary(_e.cosh)
divide = lift_binary(_e.divide)
equal = lift_binary(_e.equal)
exp = lift_unary(_e.exp)
expm1 = lift_unary(_e.expm1)
floor = lift_unary(_e.floor)
floor_divide = lift_binary(_e.floor_divide)
greater = lift_binary(_e.greater)
greater_equal = lift_binary(_e.greater_equal)
hypot = lift_binary(_e.hypot)
imag = lift_unary(_e.imag)
isfinite = lift_unary(_e.isfinite)
isinf = lift_unary(_e.isinf)
isnan = lift_unary(_e.isnan)
less = lift_binary(_e.less)
less_equal = lift_binary(_e.less_equal)
log = lift_unary(_e.log)
log10 = lift_unary(_e.log10)
log1p = lift_unary(_e.log1p)
log2 = lift_unary(_e.log2)
logaddexp = lift_binary(_e.logaddexp)
logical_and = lift_binary(_e.logical_and)
logical_not = lift_unary(_e.logical_not)
logical_or = lift_binary(_e.logical_or)
logical_xor = lift_binary(_e.logical_xor)
maximum = lift_binary(_e.maximum)
minimum = lift_binary(_e.minimum)
multiply = lift_binary(_e.multiply)
negative = lift_unary(_e.negative)
nextafter = lift_binary(_e.nextafter)
not_equal = lift_binary(_e.not_equal)
positive = lift_unary(_e.positive)
pow = lift(_e.pow)
real = lift_unary(_e.real)
reciprocal = lift_unary(_e.reciprocal)
remainder = lift_binary(_e.remainder)
round = lift_unary(_e.round)
sigmoid = lift_unary(_e.sigmoid)
sign = lift_unary(_e.sign)
signbit = lift_unary(_e.signbit)
sin = lift_unary(_e.sin)
sinh = lift_unary(_e.sinh)
sqrt = lift_unary(_e.sqrt)
square = lift_unary(_e.square)
stop_gradient = lift(_stop_gradient)
subtract = lift_binary(_e.subtract)
tan = lift_unary(_e.tan)
tanh = lift_unary(_e.tanh)
trunc = lift_unary(_e.trunc)
where = lift(_e.where)

# --- reductions -----------------------------------------------------------------------------------------------------

all = lift(_reduce.all)
any = lift(_reduce.any)
argmax = lift(_reduce.argmax)
argmin = lift(_reduce.argmin)
count_nonzero = lift(_reduce.count_nonzero)
logsumexp = lift(_reduce.logsumexp)
max = lift(_reduce.max)
mean = lift(_reduce.mean)
min = lift(_reduce.min)
norm = lift(_reduce.norm)
prod = lift(_reduce.prod)
std = lift(_reduce.std)
sum = lift(_reduce.sum)
var = lift(_reduce.var)

# --- movement -------------------------------------------------------------------------------------------------------

broadcast_to = lift(_movement.broadcast_to)
concat = lift(_movement.concat)
expand_dims = lift(_movement.expand_dims)
flatten = lift(_movement.flatten)
flip = lift(_movement.flip)
matrix_transpose = lift(_movement.matrix_transpose)
moveaxis = lift(_movement.moveaxis)
permute_dims = lift(_movement.permute_dims)
reshape = lift(_movement.reshape)
squeeze = lift(_movement.squeeze)
stack = lift(_movement.stack)
swapaxes = lift(_movement.swapaxes)
unstack = lift(_movement.unstack)

# --- matrix products ------------------------------------------------------------------------------------------------

matmul = lift(_linalg.matmul)

# --- creation and dtypes --------------------------------------------------------------------------------------------

# --- activations and special functions ------------------------------------------------------------------------------

# --- indexing, sorting, sets, running sums --------------------------------------------------------------------------

# --- convolution, pooling, padding ----------------------------------------------------------------------------------

# --- normalisation, attention, losses -------------------------------------------------------------------------------

# --- methods --------------------------------------------------------------------------------------------------------

METHODS = (
    "abs all any argmax argmin ceil clip cos exp expand_dims flatten flip floor isfinite isinf isnan log log1p log2 log10 "
    "logsumexp matmul max maximum mean min minimum moveaxis norm permute_dims pow prod reciprocal reshape round sigmoid "
    "sign sin sqrt square squeeze std sum swapaxes tan tanh trunc unstack var"
).split()

for _name in METHODS:
    setattr(Tensor, _name, globals()[_name])

_OTHERS = {"annotations", "lift", "lift_binary", "lift_unary", "Tensor", "METHODS"}
__all__ = sorted(_name for _name in globals() if not _name.startswith("_") and _name not in _OTHERS)
