"""Claims: one table that says what each rewrite rule preserves: the bits, the values, or only the reals.

In: a pass or stage and a rule. Out: a claim, which `runtime/certificate` checks on small shapes. A rule without a claim
is reported as unknown, and a test requires one for every rule. Plan stages and CUDA kernel rewrites are listed here
too, so that there is one table.

The error of an identity over the reals is given in rounding units (half a unit in the last place) of the same
expression over absolute values. A sum of n terms, in any order, is within n - 1 units of the sum of their absolute
values; each op before or after it adds one.
"""

from __future__ import annotations

from typing import NamedTuple

SAME_BITS = "the same bits"  # except for the bits of a NaN
SAME_VALUES = "the same values"  # equal numbers: the sign of a zero may differ
REALS = "identity of reals"


class Claim(NamedTuple):
    """What a rule preserves. For an identity over the reals: the units per term of a sum, and those for other ops."""

    kind: str
    why: str
    per_term: float = 0.0
    units: float = 0.0

    def bound(self, terms: float) -> float:
        """The claimed error of a program whose longest sum has this many terms, in rounding units."""
        return self.per_term * terms + self.units

    @property
    def stated(self) -> str:
        """The bound as text."""
        if self.kind != REALS:
            return ""
        if not self.per_term:
            return f"{self.units:g} units"
        return f"{'' if self.per_term == 1 else f'{self.per_term:g} '}n + {self.units:g} units"


def _exact(why: str) -> Claim:
    return Claim(SAME_BITS, why)


def _values(why: str) -> Claim:
    return Claim(SAME_VALUES, why)


def _reals(why: str, per_term: float, units: float) -> Claim:
    return Claim(REALS, why, per_term, units)


_SIMPLIFY = {
    "fold": _exact("constants are computed by the references"),
    "broadcast_by_itself": _exact("an op broadcasts its operands"),
    "add_zero": _exact("x + 0 is x, but for the zeros that are left alone"),
    "add_negative": _exact("a + -b is a - b"),
    "subtract_zero": _exact("x - 0 is x"),
    "subtract_negative": _exact("a - -b is a + b"),
    "negative_negative": _exact("-(-x) is x, -(x * c) is x * -c"),
    "multiply_one": _exact("x * 1 is x, x * -1 is -x"),
    "multiply_negatives": _exact("-a * -b is a * b"),
    "multiply_itself": _exact("x * x is square(x)"),
    "divide_number": _exact("a power of two has an exact inverse"),
    "multiply_finite": _values("only 0 times NaN or infinity is special"),
    "power_number": _reals("small whole powers as products", 0, 6),
    "square_of_sign": _exact("a sign does not matter to a square"),
    "same_value": _exact("it marks or copies a value"),
    "same_if_real": _exact("a real number is its own conjugate"),
    "same_twice": _exact("the larger of x and x is x"),
    "where_known": _exact("the choice is made already"),
    "where_not": _exact("the branches change places"),
    "where_where": _exact("the outer condition decides the inner one"),
    "not_not": _exact("not not x is x"),
    "logic_known": _exact("x or True is True"),
    "cast_of_cast": _exact("a wider dtype holds every value; a float on the way to an integer stays where that wraps"),
    "reshape_again": _exact("no element moves"),
    "permute_again": _exact("two permutations are one"),
    "broadcast_again": _exact("two broadcasts are one"),
    "slice_again": _exact("two slices are one"),
    "place_again": _exact("zeros around zeros"),
    "flip_again": _exact("twice flipped is not flipped"),
    "concat_of_parts": _exact("neighbouring slices joined are one slice"),
    "reduce_little": _values("a reduction of one element is that element"),
    "reduce_repeated": _reals("n times the same term is a product", 1, 2),
    "reduce_reduced": _reals("a sum of sums is a sum, in another order", 2, 2),
    "sum_of_negative": _values("rounding is the same for either sign"),
    "pick_packed": _exact("what was packed is picked"),
}
"""The rules of `simplify`, in `simplify`, `constants` and `movement`."""

CLAIMS: dict[tuple[str, str], Claim] = {
    **{("simplify", rule): claim for rule, claim in _SIMPLIFY.items()},
    ("inline", ""): _exact("the body takes the place of the checkpoint"),
    ("contiguous_collectives", ""): _exact("blocks are turned where they are sent; sums in the order of their tree"),
    ("cse", ""): _exact("equal ops of equal values are computed once"),
    ("loop_dce", ""): _exact("what leads to no result is not carried"),
    ("loop_invariants", ""): _exact("the same ops of the same values, once"),
    ("loop_inputs", ""): _reals("a product of all rows has the products of each", 1, 64),
    ("loop_sums", ""): _reals("a sum of products is a product over all depths", 4, 64),
    ("loop_fusion", ""): _exact("the same steps of both, in one loop"),
    ("loop_outputs", ""): _reals("a product of all rows has the products of each", 1, 64),
    ("batch_matmul", ""): _reals("products of a batch are products", 1, 2),
    ("transpose_matmul", ""): _reals("the transpose of a @ b is b' @ a'", 1, 2),
    ("gemv_to_reduction", ""): _reals("a product is a sum of products", 1, 4),
    ("attention_layout", ""): _reals("heads are read where they lie", 2, 64),
    ("factor", ""): _reals("sum(x * c) is sum(x) * c", 1, 6),
    ("onehot", ""): _values("a sum of zeros and one value is that value"),
    ("layout", ""): _reals("a convolution with its channels last", 1, 2),
    ("join_matmul", ""): _reals("a sum of products is a product over all depths", 4, 64),
    ("align", ""): _reals("zeros add nothing to a product", 1, 4),
    ("dce", ""): _exact("what nobody reads is not computed"),
    ("remat", ""): _exact("the same ops of the same values, later"),
    ("expand", ""): _reals("cuts, orders and factors around a transform; products of singular vectors", 1, 64),
    ("host_outputs", ""): _exact("the host applies the references"),
    ("library_epilogues", ""): _reals("an epilogue is applied before its operand is rounded", 1, 8),
    ("fuse", ""): _reals("a product and a sum may round once; sums in another order", 1, 8),
    ("schedule", ""): _exact("an order of steps"),
    ("donate", ""): _exact("a place for results"),
    ("hoist", ""): _exact("an order of steps"),
    ("select", ""): _reals("a kernel or library that was timed", 1, 8),
    ("tune", ""): _exact("it times and decides nothing"),
    ("column_partials", ""): _reals("partial sums of columns, in another order", 1, 8),
    ("attention_partials", ""): _reals("partial sums of cotangents, in another order", 1, 64),
    ("horizontal_fusion", ""): _exact("loops of several values are one launch"),
    ("dependent_launch", ""): _exact("an order of launches"),
    ("parallel_regions", ""): _exact("threads are woken once for several steps"),
    ("liveness", ""): _exact("which values share memory"),
    ("in_place", ""): _exact("a place for results"),
    ("arena", ""): _exact("places in memory"),
    ("waits", ""): _exact("an order of steps"),
    ("cuda", "one_pass_variance"): _reals("sum((x - m)**2) is q - s * s / n of shifted elements", 1, 16),
    ("cuda", "with_fast_exponentials"): _reals("2 ulp of float32 on what was loaded in half precision", 0, 16),
    ("cuda", "with_reciprocals"): _reals("a quotient from a reciprocal and a correction", 0, 4),
}
"""By pass or stage and rule; a pass that is one rule has it under ""."""


def claim_of(name: str, rule: str) -> Claim | None:
    """The claim of a rule, or None if it has none."""
    return CLAIMS.get((name, rule))
