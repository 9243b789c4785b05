"""What of the op suite leaves a GPU for the host: every op and sample compiled for an H200, which need not be there.

    python -m tests.gpu.hosted [REGEX] [--libraries]

prints the ops that are computed on the host, with the samples that meet them: first of programs, as results and as
gradients, in float32, in bfloat16 and in complex64 (the samples of `tests/complex`); then of functions whose results
have a shape that only the data says, which read their operands back. REGEX chooses among the samples by name;
`--libraries` is as if every library suggested something. Exit status 1: there are some, without libraries some that
`NAMED` does not have.
"""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np

import wengert as wg
from tests.complex.cases import RULES, TRANSFORMS
from tests.complex.cases import Case as ComplexCase
from tests.complex.checks import loss_of, single
from tests.ops.suite import Call, collect, identifier
from tests.replay import adapt
from tests.replay.adapt import DEVICE, Recorded, VirtualDriver, on_gpu
from tests.replay.corpus import Case, ops
from wengert.core import tree
from wengert.core.errors import AbstractValueError
from wengert.core.graph import Graph, Node, now
from wengert.ops.core import placeholder
from wengert.plan.cuda_codegen import CudaCodegen

SMALL = 16  # bytes: a size and a flag that are read back are no operand

NAMED = frozenset(("fft", "ifft", "rfft", "irfft"))  # ops that only a library computes; docs/cuda.md says so

Found = dict[str, list[str]]  # by op, the samples that meet it


def hosted(pattern: str = "", libraries: bool = False) -> tuple[Found, Found]:
    """The ops that the host computes in programs, and the functions that read more than a size back."""
    in_programs: Found = defaultdict(list)
    reading: Found = defaultdict(list)
    with adapt.without_toolchains(libraries), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for case in (*ops(), *complex_ops()):
            if "/cuda/" in case.name and re.search(pattern, case.name):
                for name in of_program(case):
                    in_programs[name].append(case.name)
        for case in collect():
            if re.search(pattern, identifier(case)) and _is_data_dependent(Call(case)):
                size = bytes_read(Call(case))
                if size > SMALL:
                    reading[case.name].append(f"{identifier(case)} reads {size} bytes back")
    return in_programs, reading


def complex_ops() -> Iterator[Case]:
    """The samples with complex operands: the result, and the gradient of a real number made of it."""
    for case in (*RULES, *TRANSFORMS):
        yield Case(f"op/cuda/complex {case.name}", partial(_complex, case, case.function))
        places = tuple(range(len(case.operands)))
        yield Case(
            f"gradient/cuda/complex {case.name}", partial(_complex, case, wg.grad(loss_of(case.function), places))
        )


def _complex(case: ComplexCase, function: Callable[..., Any]) -> Recorded:
    since = now()
    inputs = [placeholder(array.shape, single(array).dtype) for array in case.operands]
    results = tree.flatten(function(*map(wg.Tensor, inputs)))[0]
    return on_gpu(Recorded(Graph(inputs, [leaf.node for leaf in results if isinstance(leaf, wg.Tensor)], since)))


def of_program(case: Case) -> Iterator[str]:
    """The ops of a case's program that are computed on the host, by `CudaCodegen.is_hosted`.

    Collectives and what moves values between devices are no computations, and what the host has all operands of, such
    as a counter of random numbers, is computed there on purpose.
    """
    asked: dict[Node, bool] = {}

    def asks(self: CudaCodegen, node: Node) -> bool:
        asked[node] = answer(self, node)
        return asked[node]

    answer = CudaCodegen._is_hosted
    try:
        with patch.object(CudaCodegen, "_is_hosted", asks):
            described, _ = adapt.build(case.make())
    except AbstractValueError:
        return
    names = {node.op.name for node, found in asked.items() if found}
    yield from sorted(names & set(described.get("host_ops", [])))


def _is_data_dependent(call: Call) -> bool:
    """Whether a function looks at values: it refuses to be recorded over abstract ones."""
    abstract = wg.compile(lambda *values: call(*values, places=places))
    places = [*call.floating, *call.integers, *_masks(call)]
    try:
        adapt.record(lambda: abstract(*[wg.tensor(call.leaves[i]) for i in places]))
    except AbstractValueError:
        return True
    except Exception:  # not a case of this kind: other tests have it
        return False
    return False


def _masks(call: Call) -> list[int]:
    return [i for i, leaf in enumerate(call.leaves) if isinstance(leaf, np.ndarray) and leaf.dtype == np.bool_]


def bytes_read(call: Call) -> int:
    """The largest number of bytes that a function over tensors of the GPU reads back at once.

    The GPU's memory is all zeros here, so what is found has no elements; what is read to find it does not depend on
    that.
    """
    places = [*call.floating, *call.integers, *_masks(call)]
    largest = 0

    def download(self: VirtualDriver, array: np.ndarray, pointer: int) -> None:
        nonlocal largest
        largest = max(largest, array.nbytes)
        array[...] = np.zeros((), array.dtype)

    arrays = [call.leaves[i] for i in places]
    with patch.object(VirtualDriver, "download", download):
        call(*[wg.tensor(array, device=DEVICE) for array in arrays], places=places)
    return largest


def report(found: Found, title: str) -> list[str]:
    """Lines about one of the two lists."""
    lines = [f"{title}: {', '.join(sorted(found)) or 'none'}"]
    for name, samples in sorted(found.items()):
        shown = "; ".join(samples[:3]) + ("; ..." if len(samples) > 3 else "")
        lines.append(f"  {name}: {len(samples)} samples, {shown}")
    return lines


def main() -> int:
    """Print the lists."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.hosted", description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="?", default="", help="a regular expression that names must match")
    parser.add_argument("--libraries", action="store_true", help="as if every library suggested something")
    options = parser.parse_args()
    in_programs, reading = hosted(options.cases, options.libraries)
    print("\n".join(report(in_programs, "computed on the host") + report(reading, "reading operands back")))
    named = frozenset() if options.libraries else NAMED
    return 1 if (set(in_programs) | set(reading)) - named else 0


if __name__ == "__main__":
    sys.exit(main())
