"""Tables of vectors, looked up by integers: one by one, or combined in bags."""

from __future__ import annotations

from typing import Any

import wengert as wg
from wengert.nn import init
from wengert.nn.linear import new_parameter
from wengert.nn.module import Module


class _TableOfVectors(Module):
    """What both kinds share: the table, its padding row and its options. Gradients are dense: `sparse` says nothing."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None,
        max_norm: float | None,
        norm_type: float,
        scale_grad_by_freq: bool,
        sparse: bool,
        weight: Any,
        device: Any,
        dtype: Any,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise wg.errors.OutOfRangeError(f"{name}: padding_idx {padding_idx} is not one of {num_embeddings} rows")
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        given = wg.tensor(weight) if weight is not None and not isinstance(weight, wg.Tensor) else weight
        kind = given.dtype if dtype is None and given is not None else dtype
        self.weight = new_parameter((num_embeddings, embedding_dim), kind, device)
        if given is None:
            self.reset_parameters()
        else:
            if given.shape != (num_embeddings, embedding_dim):
                raise wg.errors.ShapeError(
                    f"{name}: the table must have shape {(num_embeddings, embedding_dim)}, not {given.shape}"
                )
            self.weight.assign(given.detach().to(self.weight.dtype))

    def reset_parameters(self) -> None:
        """Draw the vectors anew, normally distributed."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with wg.no_grad():
                self.weight[self.padding_idx] = 0.0

    def extra_repr(self) -> str:
        """The sizes, and the options that are set."""
        options = {"padding_idx": self.padding_idx, "max_norm": self.max_norm}
        given = "".join(f", {name}={value}" for name, value in options.items() if value is not None)
        return f"{self.num_embeddings}, {self.embedding_dim}{given}"


class Embedding(_TableOfVectors):
    """A table of vectors, looked up by integer index. The row `padding_idx` is initialised to zeros and is not learned.

    With `max_norm`, the vectors looked up are scaled down to that norm, in the table itself. `scale_grad_by_freq`
    divides each vector's gradient by how often it is looked up.

    >>> import wengert as wg
    >>> wg.nn.Embedding(10, 4)(wg.tensor([[1, 2, 9]])).shape
    (1, 3, 4)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Any = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            num_embeddings,
            embedding_dim,
            padding_idx,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            sparse,
            _weight,
            device,
            dtype,
        )
        if _freeze:
            self.weight.requires_grad = False

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Any,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:
        """An embedding with this table; with `freeze` the table is not learned."""
        table = embeddings if isinstance(embeddings, wg.Tensor) else wg.tensor(embeddings)
        rows, features = table.shape
        options = (padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)
        return cls(rows, features, *options, _weight=table, _freeze=freeze, dtype=table.dtype)

    def forward(self, input: wg.Tensor) -> wg.Tensor:
        """Look up the vectors; they lie along a new last axis."""
        return wg.embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq
        )


class EmbeddingBag(_TableOfVectors):
    """Sums, means or maxima of bags of vectors of a table; `mode` is "sum", "mean" or "max".

    >>> import wengert as wg
    >>> wg.nn.EmbeddingBag(10, 4)(wg.tensor([1, 2, 9]), wg.tensor([0, 2])).shape
    (2, 4)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Any = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            num_embeddings,
            embedding_dim,
            padding_idx,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            sparse,
            _weight,
            device,
            dtype,
        )
        self.mode = mode
        self.include_last_offset = include_last_offset

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Any,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> EmbeddingBag:
        """An EmbeddingBag with this table; with `freeze` the table is not learned."""
        table = embeddings if isinstance(embeddings, wg.Tensor) else wg.tensor(embeddings)
        rows, features = table.shape
        options = (max_norm, norm_type, scale_grad_by_freq, mode, sparse, table, include_last_offset, padding_idx)
        made = cls(rows, features, *options, dtype=table.dtype)
        made.weight.requires_grad = not freeze
        return made

    def forward(
        self, input: wg.Tensor, offsets: wg.Tensor | None = None, per_sample_weights: wg.Tensor | None = None
    ) -> wg.Tensor:
        """Reduce each bag: `input` is (bags, length), or (rows,) with the offsets at which the bags begin."""
        return wg.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    def extra_repr(self) -> str:
        """The sizes and the mode."""
        return f"{super().extra_repr()}, mode={self.mode!r}"
