"""Reductions, products and convolutions in a fixed order, for `config.invariant`."""

from wengert.kernels.c_ops import CKernel
from wengert.kernels.launch import CudaKernel
from wengert.ops.op import Op


def c_kernels() -> dict[Op, CKernel]:
    """The ops that have C."""
    from wengert.kernels.convolution.c import HEADERS
    from wengert.kernels.fixed_order import c
    from wengert.kernels.gather_scatter.c import reads_of
    from wengert.kernels.matmul.c import absorbs, operands
    from wengert.ops import fixed_order as ops

    reductions = {f"tree_{kind}": ("tree.h",) for kind in ("sum", "prod", "max", "min")}
    product = ("matmul.h", "tree_product.h")
    products = {"tree_product_rows": product, "tree_products": product}
    images = {name: (*product, *files) for name, files in HEADERS.items()}
    return {
        **dict.fromkeys((ops.TREE_SUM, ops.TREE_PROD, ops.TREE_MAX, ops.TREE_MIN), CKernel(c.reduction, reductions)),
        ops.TREE_MATMUL: CKernel(c.matmul, products, operands, absorbs),
        ops.TREE_SCATTER_ADD: CKernel(
            c.scatter_add, {"tree_scatter_add": ("gather.h", "tree_scatter.h")}, reads_of(c.scatter_add)
        ),
        **dict.fromkeys((ops.TREE_CONVOLVE, ops.TREE_CONVOLVE_INPUT), CKernel(c.convolve)),
        ops.TREE_CONVOLVE_WEIGHT: CKernel(c.convolve_weight, {f"tree_{name}": f for name, f in images.items()}),
    }


def cuda_kernels() -> dict[Op, CudaKernel]:
    """None: the pass that makes these ops does not run on a GPU's graphs."""
    return {}
