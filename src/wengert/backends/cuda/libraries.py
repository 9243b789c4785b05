"""The libraries of a GPU, as a plan asks for them: cuBLASLt for matrix products, cuDNN for the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wengert.backends.cuda import blas, dnn, dnn_attention
from wengert.backends.cuda.driver import opened
from wengert.core.graph import Node
from wengert.kernels.convolution.form import is_convolution
from wengert.kernels.matmul.c import is_even, product
from wengert.ops.linalg import MATMUL
from wengert.plan.plan import How, LibraryCandidate

SUGGESTED = 8  # ways of a library that are worth a try
FUSED = 4  # of cuDNN's with what follows a convolution: each takes it half a second to compile


class CudaLibraries:
    """What cuBLASLt and cuDNN suggest on a device."""

    def __init__(self, device: str, tf32: bool) -> None:
        self.device, self.tf32 = device, tf32

    def candidates(self, node: Node, keeper: Node | None = None, epilogue: How = ()) -> Sequence[LibraryCandidate]:
        """What the libraries suggest for an op, best first."""
        shape = self._shape(node, keeper, epilogue)
        if shape is None:
            return ()
        if node.op is MATMUL:
            found: Sequence[Any] = blas.candidates(shape, opened(self.device).index)
        else:
            library: Any = dnn if is_convolution(node) else dnn_attention
            found = library.candidates(shape, self.device)
        return found[: FUSED if epilogue and is_convolution(node) else SUGGESTED]

    def _shape(self, node: Node, keeper: Node | None = None, epilogue: How = ()) -> Any:
        """An op in a library's terms; None where there is none that does it."""
        if node.op is MATMUL:
            if not node.size or not is_even(node):
                return None
            return blas.shape_of(product(node), node.dtype, self.tf32, epilogue)
        if is_convolution(node):
            return dnn.shape_of(node, self.tf32, epilogue)
        return dnn_attention.shape_of(node, keeper) if node.op in dnn_attention.ATTENTIONS else None

    def operands(self, node: Node) -> Sequence[Node]:
        """What a library's candidate for an op reads, in order."""
        if node.op is MATMUL:
            p = product(node)
            return p.x, p.y
        return dnn_attention.operands(node) if node.op in dnn_attention.ATTENTIONS else node.sources

    def about(self, node: Node) -> str:
        """The sizes, strides and dtypes of an op that a choice among candidates depends on."""
        shape = self._shape(node)
        if shape is None:
            values = " ".join(f"{source.dtype}{list(source.shape)}" for source in (*node.sources, node))
            return f"{values} {dict(sorted(node.attrs.items()))}"
        return " ".join(
            f"{name}={value}".replace(" ", "") for name, value in vars(shape).items() if name not in ("op", "then")
        )
