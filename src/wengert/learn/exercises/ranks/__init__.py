"""The exercise `ranks`: all-reduce from messages, and an optimizer that the ranks share."""

from __future__ import annotations

from pathlib import Path

from wengert.learn.exercises.exercise import Check, Exercise, files_in
from wengert.learn.exercises.gaps import package_with_gaps
from wengert.learn.exercises.ranks import cases

HERE = Path(__file__).parent
GAPS = {
    "ring.py": ("reduce_scatter_step", "all_gather_step", "all_reduce"),
    "sharded.py": ("new_state", "sharded_step"),
}
RING, SHARDED = "Ring", "Sharded optimizer"

EXERCISE = Exercise(
    name="ranks",
    title="All-reduce from messages, and an optimizer that the ranks share",
    lecture="Recitation 3: distributed training",
    lesson="Many ranks",
    minutes=120,
    marks=24,
    question_marks=4,
    allowed_imports=("wengert", "numpy", "typing", "math"),
    needs=("numpy", "wengert"),
    files={**package_with_gaps(HERE.parents[1] / "ranks", GAPS), **files_in(HERE / "handout")},
    submission=tuple(f"ranks/{name}" for name in GAPS),
    probes=(HERE / "probes.py").read_text(encoding="utf-8"),
    checks=(
        Check("the first step of the reduce-scatter", "scatter_steps", cases.first_steps, 2, RING),
        Check(
            "after the reduce-scatter rank r has the sum of chunk r + 1",
            "scatter_steps",
            cases.reduce_scatters,
            2,
            RING,
        ),
        Check("the all-gather brings every chunk to all ranks", "gather_steps", cases.all_gathers, 2, RING),
        Check("all_reduce sums over 1, 2, 3, 4 and 8 ranks", "all_reduce", cases.all_reduces, 2, RING),
        Check("all_reduce of a matrix is a matrix", "all_reduce", cases.matrices, 1, RING),
        Check("a rank sends 2 (ranks - 1) messages, each of one chunk", "messages", cases.message_sizes, 2, RING),
        Check("values are added in the ring's order", "all_reduce", cases.orders, 2, RING),
        Check("all_reduce can be differentiated", "gradient", cases.gradients, 2, RING),
        Check("a rank's state is that of its block", "state", cases.states, 1, SHARDED),
        Check("one sharded step is one step of Adam", "steps", cases.trained(2, 1), 2, SHARDED, 1e-3, 2e-5),
        Check("so are five, on 4 ranks: the state goes on", "steps", cases.trained(4, 5), 2, SHARDED, 1e-3, 2e-5),
    ),
    questions=(
        "How many elements does a rank send in all? How do that and the number of messages grow with the ranks?",
        "In which order are the values of a chunk added? Is it the same for every chunk and every number of ranks?",
        "What is the derivative of `ppermute(x, shift=1)`? What is that of your `all_reduce`?",
        "How large is everything that a rank keeps for one parameter with Adam: without sharding, with your "
        "`sharded_step`, and if it kept the parameter itself as a block? What would have to be gathered, and when?",
    ),
)
