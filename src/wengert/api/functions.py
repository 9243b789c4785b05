"""The public functions, each a function of `ops` lifted to Tensors: one line per function, one section per family. The
last section makes some of them methods. Names and argument names are the Array API standard's where it has them.
"""

from __future__ import annotations

from wengert.api import data_dependent as _datadependent
from wengert.api import drawn as _drawn
from wengert.api import losses as _losses
from wengert.api import spelling_hints as _habits
from wengert.api import stateful as _stateful
from wengert.api import tables as _tables
from wengert.api.lift import lift, lift_binary, lift_unary
from wengert.api.lift import lift_creation as _lift_creation
from wengert.core.pickled_names import name_by_place
from wengert.ops import activation as _activation
from wengert.ops import adaptive_pool as _adaptive_pool
from wengert.ops import attention as _attention
from wengert.ops import comparison as _comparison
from wengert.ops import complex as _complex
from wengert.ops import contract as _contract
from wengert.ops import conv as _conv
from wengert.ops import creation as _creation
from wengert.ops import cross_entropy as _cross_entropy
from wengert.ops import diagonals as _diagonals
from wengert.ops import elementwise as _e
from wengert.ops import exponential as _exponential
from wengert.ops import formulas as _formulas
from wengert.ops import gather as _gather
from wengert.ops import grid as _grid
from wengert.ops import histograms as _histograms
from wengert.ops import interpolate as _interpolate
from wengert.ops import linalg as _linalg
from wengert.ops import loss as _loss
from wengert.ops import movement as _movement
from wengert.ops import multilabel_loss as _multilabel_loss
from wengert.ops import normalize as _normalize
from wengert.ops import number_parts as _number_parts
from wengert.ops import pad as _pad
from wengert.ops import pool as _pool
from wengert.ops import rearrange as _rearrange
from wengert.ops import reduce as _reduce
from wengert.ops import resize as _resize
from wengert.ops import running as _running
from wengert.ops import scatter_reduce as _scatter_reduce
from wengert.ops import sorting as _sorting
from wengert.ops import special as _special
from wengert.ops import spectral as _spectral
from wengert.ops import statistics as _statistics
from wengert.ops import trigonometry as _trigonometry
from wengert.ops import unpool as _unpool
from wengert.ops import updates as _updates
from wengert.ops import windows as _windows
from wengert.ops.core import stop_gradient as _stop_gradient
from wengert.tensor import Tensor

# --- elementwise ----------------------------------------------------------------------------------------------------

abs = lift_unary(_e.absolute)
acos = lift_unary(_trigonometry.acos)
acosh = lift_unary(_trigonometry.acosh)
add = lift_binary(_e.add)
addcdiv = lift(_formulas.addcdiv)
addcmul = lift(_formulas.addcmul)
angle = lift(_complex.angle)
asin = lift_unary(_trigonometry.asin)
asinh = lift_unary(_trigonometry.asinh)
atan = lift_unary(_trigonometry.atan)
atan2 = lift_binary(_trigonometry.atan2)
atanh = lift_unary(_trigonometry.atanh)
bitwise_and = lift_binary(_comparison.bitwise_and)
bitwise_invert = lift_unary(_comparison.bitwise_invert)
bitwise_left_shift = lift_binary(_comparison.bitwise_left_shift)
bitwise_or = lift_binary(_comparison.bitwise_or)
bitwise_right_shift = lift_binary(_comparison.bitwise_right_shift)
bitwise_xor = lift_binary(_comparison.bitwise_xor)
ceil = lift_unary(_e.ceil)
clip = lift(_comparison.clip)
conj = lift_unary(_e.conj)
copysign = lift_binary(_e.copysign)
cos = lift_unary(_trigonometry.cos)
cosh = lift_unary(_trigonometry.cosh)
deg2rad = lift(_formulas.deg2rad)
divide = lift_binary(_e.divide)
equal = lift_binary(_comparison.equal)
exp = lift_unary(_exponential.exp)
exp2 = lift(_formulas.exp2, precision="full")
expm1 = lift_unary(_exponential.expm1)
floor = lift_unary(_e.floor)
floor_divide = lift_binary(_e.floor_divide)
fmax = lift(_formulas.fmax)
fmin = lift(_formulas.fmin)
fmod = lift(_formulas.fmod)
frexp = lift(_number_parts.frexp)
gcd = lift_binary(_number_parts.gcd)
greater = lift_binary(_comparison.greater)
greater_equal = lift_binary(_comparison.greater_equal)
heaviside = lift(_formulas.heaviside)
hypot = lift_binary(_trigonometry.hypot)
imag = lift_unary(_e.imag)
isclose = lift(_formulas.isclose)
isfinite = lift_unary(_comparison.isfinite)
isinf = lift_unary(_comparison.isinf)
isnan = lift_unary(_comparison.isnan)
lcm = lift(_number_parts.lcm)
ldexp = lift(_number_parts.ldexp)
less = lift_binary(_comparison.less)
less_equal = lift_binary(_comparison.less_equal)
log = lift_unary(_exponential.log)
log10 = lift_unary(_exponential.log10)
log1p = lift_unary(_exponential.log1p)
log2 = lift_unary(_exponential.log2)
logaddexp = lift_binary(_exponential.logaddexp)
logaddexp2 = lift_binary(_exponential.logaddexp2)
logical_and = lift_binary(_comparison.logical_and)
logical_not = lift_unary(_comparison.logical_not)
logical_or = lift_binary(_comparison.logical_or)
logical_xor = lift_binary(_comparison.logical_xor)
logit = lift(_formulas.logit, precision="full")
maximum = lift_binary(_comparison.maximum)
minimum = lift_binary(_comparison.minimum)
multiply = lift_binary(_e.multiply)
nan_to_num = lift(_formulas.nan_to_num)
negative = lift_unary(_e.negative)
nextafter = lift_binary(_e.nextafter)
not_equal = lift_binary(_comparison.not_equal)
positive = lift_unary(_e.positive)
pow = lift(_e.pow)
rad2deg = lift(_formulas.rad2deg)
real = lift_unary(_e.real)
reciprocal = lift_unary(_e.reciprocal)
remainder = lift_binary(_e.remainder)
round = lift(_formulas.round)
rsqrt = lift(_formulas.rsqrt, precision="full")
sigmoid = lift_unary(_exponential.sigmoid)
sign = lift_unary(_e.sign)
signbit = lift_unary(_comparison.signbit)
sin = lift_unary(_trigonometry.sin)
sinc = lift(_formulas.sinc, precision="full")
sinh = lift_unary(_trigonometry.sinh)
sqrt = lift_unary(_exponential.sqrt)
square = lift_unary(_e.square)
stop_gradient = lift(_stop_gradient)
subtract = lift_binary(_e.subtract)
tan = lift_unary(_trigonometry.tan)
tanh = lift_unary(_trigonometry.tanh)
trunc = lift_unary(_e.trunc)
where = lift(_comparison.where)
xlogy = lift(_formulas.xlogy, precision="full")

# --- reductions -----------------------------------------------------------------------------------------------------

all = lift(_reduce.all)
allclose = lift(_statistics.allclose)
any = lift(_reduce.any)
argmax = lift(_reduce.argmax)
argmin = lift(_reduce.argmin)
corrcoef = lift(_statistics.corrcoef, precision="full")
count_nonzero = lift(_reduce.count_nonzero)
cov = lift(_statistics.cov, precision="full")
cumulative_trapezoid = lift(_statistics.cumulative_trapezoid, precision="full")
logsumexp = lift(_reduce.logsumexp, precision="full")
max = lift(_reduce.max)
mean = lift(_reduce.mean)
min = lift(_reduce.min)
nanmean = lift(_statistics.nanmean, precision="same")
nansum = lift(_statistics.nansum, precision="full")
norm = lift(_reduce.norm, precision="full")
prod = lift(_reduce.prod, precision="full")
std = lift(_reduce.std)
sum = lift(_reduce.sum, precision="full")
trapezoid = lift(_statistics.trapezoid, precision="full")
var = lift(_reduce.var)
var_mean = lift(_statistics.var_mean)

# --- movement -------------------------------------------------------------------------------------------------------

atleast_1d = lift(_updates.atleast_1d)
atleast_2d = lift(_updates.atleast_2d)
atleast_3d = lift(_updates.atleast_3d)
broadcast_to = lift(_movement.broadcast_to)
column_stack = lift(_updates.column_stack)
concat = lift(_movement.concat)
dstack = lift(_rearrange.dstack)
expand_dims = lift(_movement.expand_dims)
flatten = lift(_movement.flatten)
flip = lift(_movement.flip)
hsplit = lift(_rearrange.hsplit)
hstack = lift(_rearrange.hstack)
matrix_transpose = lift(_movement.matrix_transpose)
moveaxis = lift(_movement.moveaxis)
permute_dims = lift(_movement.permute_dims)
reshape = lift(_movement.reshape)
squeeze = lift(_movement.squeeze)
stack = lift(_movement.stack)
swapaxes = lift(_movement.swapaxes)
tensor_split = lift(_rearrange.tensor_split)
unstack = lift(_movement.unstack)
vsplit = lift(_rearrange.vsplit)
vstack = lift(_rearrange.vstack)

# --- matrix products ------------------------------------------------------------------------------------------------

addmm = lift(_statistics.addmm, precision="low")
baddbmm = lift(_statistics.baddbmm, precision="low")
bilinear = lift(_statistics.bilinear, precision="same")
cdist = lift(_statistics.cdist, precision="full")
cross = lift(_contract.cross)
diagonal = lift(_contract.diagonal)
einsum = lift(_contract.einsum, precision="low")
inner = lift(_statistics.inner, precision="low")
kron = lift(_contract.kron)
linear = lift(_linalg.linear, precision="low")
matmul = lift(_linalg.matmul)
outer = lift(_contract.outer)
pdist = lift(_statistics.pdist, precision="full")
tensordot = lift(_contract.tensordot, precision="same")
trace = lift(_contract.trace)
vecdot = lift(_contract.vecdot, precision="low")

# --- creation and dtypes --------------------------------------------------------------------------------------------

arange = _lift_creation(_creation.arange)
block_diag = lift(_diagonals.block_diag)
broadcast_arrays = lift(_creation.broadcast_arrays)
diag = lift(_diagonals.diag)
diag_embed = lift(_diagonals.diag_embed)
diagflat = lift(_diagonals.diagflat)
empty = _lift_creation(_creation.empty)
empty_like = _lift_creation(_creation.empty_like)
eye = _lift_creation(_creation.eye)
full = _lift_creation(_creation.full)
full_like = _lift_creation(_creation.full_like)
lerp = lift(_creation.lerp)
linspace = _lift_creation(_creation.linspace)
logspace = _lift_creation(_creation.logspace)
meshgrid = lift(_creation.meshgrid)
ones = _lift_creation(_creation.ones)
ones_like = _lift_creation(_creation.ones_like)
tri = _lift_creation(_creation.tri)
tril = lift(_creation.tril)
tril_indices = lift(_diagonals.tril_indices)
triu = lift(_creation.triu)
triu_indices = lift(_diagonals.triu_indices)
zeros = _lift_creation(_creation.zeros)
zeros_like = _lift_creation(_creation.zeros_like)

# --- activations and special functions ------------------------------------------------------------------------------

celu = lift(_activation.celu, precision="same")
digamma = lift_unary(_special.digamma)
elu = lift(_activation.elu, precision="same")
erf = lift_unary(_special.erf)
erfc = lift_unary(_special.erfc)
erfinv = lift_unary(_special.erfinv)
gelu = lift(_activation.gelu)
glu = lift(_activation.glu)
gumbel_softmax = _drawn.gumbel_softmax
hardshrink = lift(_activation.hardshrink, precision="same")
hardsigmoid = lift(_activation.hardsigmoid)
hardswish = lift(_activation.hardswish)
hardtanh = lift(_activation.hardtanh)
leaky_relu = lift(_activation.leaky_relu)
lgamma = lift_unary(_special.lgamma)
log_softmax = lift(_activation.log_softmax, precision="full")
logsigmoid = lift(_activation.logsigmoid)
mish = lift(_activation.mish)
polygamma = lift(_special.polygamma)
prelu = lift(_activation.prelu, precision="low")
relu = lift(_activation.relu)
relu6 = lift(_activation.relu6)
rrelu = _drawn.rrelu
selu = lift(_activation.selu, precision="same")
silu = lift(_activation.silu)
softmax = lift(_activation.softmax, precision="full")
softmin = lift(_activation.softmin, precision="full")
softplus = lift(_activation.softplus, precision="full")
softshrink = lift(_activation.softshrink, precision="same")
softsign = lift(_activation.softsign)
tanhshrink = lift(_activation.tanhshrink)
threshold = lift(_activation.threshold, precision="same")

# --- indexing, sorting, sets, running sums --------------------------------------------------------------------------

argsort = lift(_sorting.argsort)
argwhere = _datadependent.argwhere
bincount = _datadependent.bincount
cartesian_prod = lift(_updates.cartesian_prod)
chunk = lift(_rearrange.chunk)
combinations = lift(_updates.combinations)
cummax = lift(_running.cummax)
cummin = lift(_running.cummin)
cumprod = lift(_running.cumprod, precision="full")
cumsum = lift(_running.cumsum, precision="full")
cumulative_prod = lift(_running.cumulative_prod, precision="full")
cumulative_sum = lift(_running.cumulative_sum, precision="full")
diagonal_scatter = lift(_updates.diagonal_scatter)
diff = lift(_running.diff)
gather = lift(_gather.gather)
gradient = lift(_updates.gradient)
histc = lift(_histograms.histc)
histogram = lift(_histograms.histogram, precision="full")
histogramdd = lift(_histograms.histogramdd, precision="full")
index_add = lift(_gather.index_add)
index_put = _datadependent.index_put
index_reduce = lift(_scatter_reduce.index_reduce)
index_select = lift(_gather.index_select)
isin = lift(_statistics.isin)
kthvalue = lift(_sorting.kthvalue)
logcumsumexp = lift(_running.logcumsumexp)
masked_fill = lift(_gather.masked_fill)
masked_scatter = lift(_scatter_reduce.masked_scatter)
masked_select = _datadependent.masked_select
median = lift(_sorting.median)
mode = lift(_histograms.mode)
nonzero = _datadependent.nonzero
one_hot = lift(_gather.one_hot)
put = lift(_updates.put)
put_along_axis = lift(_gather.put_along_axis)
quantile = lift(_sorting.quantile)
repeat = _datadependent.repeat
roll = lift(_rearrange.roll)
rot90 = lift(_rearrange.rot90)
scatter = lift(_gather.scatter)
scatter_add = lift(_gather.scatter_add)
scatter_reduce = lift(_scatter_reduce.scatter_reduce)
searchsorted = lift(_sorting.searchsorted)
select_scatter = lift(_updates.select_scatter)
slice_scatter = lift(_updates.slice_scatter)
sliding_window = lift(_pool.sliding_window)
sort = lift(_sorting.sort)
split = lift(_rearrange.split)
take = lift(_gather.take)
take_along_axis = lift(_gather.take_along_axis)
tile = lift(_rearrange.tile)
topk = lift(_sorting.topk)
unique = _datadependent.unique
unique_all = _datadependent.unique_all
unique_consecutive = _datadependent.unique_consecutive
unique_counts = _datadependent.unique_counts
unique_inverse = _datadependent.unique_inverse
unique_values = _datadependent.unique_values

# --- convolution, pooling, padding ----------------------------------------------------------------------------------

affine_grid = lift(_grid.affine_grid, precision="same")
adaptive_avg_pool1d = lift(_adaptive_pool.adaptive_avg_pool1d, precision="same")
adaptive_avg_pool2d = lift(_adaptive_pool.adaptive_avg_pool2d, precision="same")
adaptive_avg_pool3d = lift(_adaptive_pool.adaptive_avg_pool3d, precision="same")
adaptive_max_pool1d = lift(_adaptive_pool.adaptive_max_pool1d)
adaptive_max_pool2d = lift(_adaptive_pool.adaptive_max_pool2d)
adaptive_max_pool3d = lift(_adaptive_pool.adaptive_max_pool3d)
avg_pool1d = lift(_pool.avg_pool1d)
avg_pool2d = lift(_pool.avg_pool2d)
avg_pool3d = lift(_pool.avg_pool3d)
channel_shuffle = lift(_resize.channel_shuffle)
conv1d = lift(_conv.conv1d, precision="low")
conv2d = lift(_conv.conv2d, precision="low")
conv3d = lift(_conv.conv3d, precision="low")
conv_transpose1d = lift(_conv.conv_transpose1d, precision="low")
conv_transpose2d = lift(_conv.conv_transpose2d, precision="low")
conv_transpose3d = lift(_conv.conv_transpose3d, precision="low")
fold = lift(_pool.fold)
fractional_max_pool2d = _drawn.fractional_max_pool2d
fractional_max_pool3d = _drawn.fractional_max_pool3d
grid_sample = lift(_grid.grid_sample, precision="same")
interpolate = lift(_interpolate.interpolate, precision="full")
lp_pool1d = lift(_unpool.lp_pool1d, precision="full")
lp_pool2d = lift(_unpool.lp_pool2d, precision="full")
lp_pool3d = lift(_unpool.lp_pool3d, precision="full")
max_pool1d = lift(_pool.max_pool1d)
max_pool2d = lift(_pool.max_pool2d)
max_pool3d = lift(_pool.max_pool3d)
max_unpool1d = lift(_unpool.max_unpool1d)
max_unpool2d = lift(_unpool.max_unpool2d)
max_unpool3d = lift(_unpool.max_unpool3d)
pad = lift(_pad.pad)
pixel_shuffle = lift(_resize.pixel_shuffle)
pixel_unshuffle = lift(_resize.pixel_unshuffle)
unfold = lift(_pool.unfold)

# --- spectra --------------------------------------------------------------------------------------------------------

bartlett_window = _lift_creation(_windows.bartlett_window)
blackman_window = _lift_creation(_windows.blackman_window)
hamming_window = _lift_creation(_windows.hamming_window)
hann_window = _lift_creation(_windows.hann_window)
istft = lift(_spectral.istft, precision="full")
kaiser_window = _lift_creation(_windows.kaiser_window)
stft = lift(_spectral.stft, precision="full")

# --- normalisation, dropout, attention, losses ----------------------------------------------------------------------

alpha_dropout = _stateful.alpha_dropout
batch_norm = _stateful.batch_norm
binary_cross_entropy = lift(_loss.binary_cross_entropy, precision="full")
binary_cross_entropy_with_logits = lift(_loss.binary_cross_entropy_with_logits, precision="full")
cosine_embedding_loss = lift(_loss.cosine_embedding_loss, precision="full")
cosine_similarity = lift(_normalize.cosine_similarity, precision="full")
cross_entropy = lift(_cross_entropy.cross_entropy, precision="full")
dropout = _stateful.dropout
dropout1d = _stateful.dropout1d
dropout2d = _stateful.dropout2d
dropout3d = _stateful.dropout3d
embedding = _tables.embedding
embedding_bag = _tables.embedding_bag
feature_alpha_dropout = _drawn.feature_alpha_dropout
gaussian_nll_loss = lift(_loss.gaussian_nll_loss, precision="full")
group_norm = lift(_normalize.group_norm, precision="full")
hinge_embedding_loss = lift(_loss.hinge_embedding_loss, precision="full")
huber_loss = lift(_loss.huber_loss, precision="full")
instance_norm = _stateful.instance_norm
kl_div = lift(_loss.kl_div, precision="full")
l1_loss = lift(_loss.l1_loss, precision="full")
layer_norm = lift(_normalize.layer_norm, precision="full")
local_response_norm = lift(_normalize.local_response_norm, precision="full")
margin_ranking_loss = lift(_loss.margin_ranking_loss, precision="full")
mse_loss = lift(_loss.mse_loss, precision="full")
multi_margin_loss = lift(_multilabel_loss.multi_margin_loss, precision="full")
multilabel_margin_loss = lift(_multilabel_loss.multilabel_margin_loss, precision="full")
multilabel_soft_margin_loss = lift(_multilabel_loss.multilabel_soft_margin_loss, precision="full")
nll_loss = lift(_cross_entropy.nll_loss, precision="full")
normalize = lift(_normalize.normalize, precision="full")
pairwise_distance = lift(_normalize.pairwise_distance, precision="full")
poisson_nll_loss = lift(_loss.poisson_nll_loss, precision="full")
renorm = lift(_normalize.renorm, precision="full")
rms_norm = lift(_normalize.rms_norm, precision="full")
scaled_dot_product_attention = lift(_attention.scaled_dot_product_attention, precision="low")
smooth_l1_loss = lift(_loss.smooth_l1_loss, precision="full")
soft_margin_loss = lift(_multilabel_loss.soft_margin_loss, precision="full")
triplet_margin_loss = lift(_loss.triplet_margin_loss, precision="full")
triplet_margin_with_distance_loss = _losses.triplet_margin_with_distance_loss

# --- methods --------------------------------------------------------------------------------------------------------

METHODS = (  # noqa: SIM905
    "erf lerp log_softmax relu softmax tril triu "
    "argsort chunk cummax cummin cumprod cumsum diff gather index_add index_select kthvalue logcumsumexp "
    "masked_fill masked_scatter masked_select median nonzero quantile repeat roll scatter scatter_add scatter_reduce "
    "sort split take "
    "take_along_axis tile topk unique "
    "abs all any argmax argmin ceil clip cos exp expand_dims flatten flip floor isfinite isinf isnan log log1p "
    "log2 log10 logsumexp matmul max maximum mean min minimum moveaxis norm pow prod reciprocal round sigmoid "
    "sign sin sqrt square squeeze std sum swapaxes tan tanh trunc unstack var"
).split()

for _name in METHODS:
    setattr(Tensor, _name, globals()[_name])
Tensor.unfold = sliding_window  # type: ignore[attr-defined]  # PyTorch's method, which is not its function

name_by_place(globals())
_OTHERS = {"annotations", "name_by_place", "lift", "lift_binary", "lift_unary", "Tensor", "METHODS"}
__all__ = sorted(_name for _name in globals() if not _name.startswith("_") and _name not in _OTHERS)
_habits.functions = __all__
