"""Published machines: the compute rate of a rank and the links between ranks. Each figure has a source.

Rates are peaks and latencies are those of the smallest messages, so that what follows from them is a lower bound on
the time of a step.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from wengert.core.cores import available_cores
from wengert.core.errors import ArgumentError

GB = 1e9


@dataclass(frozen=True)
class Links:
    """The links between ranks: bytes per second of a rank, and the latency of any collective.

    `reducing` is the bus bandwidth of an all-reduce, which may be more than the wire's where switches add (NVLS); it is
    nccl-tests' `busbw`: the bytes that a rank would send in a ring, divided by the time.
    """

    bandwidth: float
    latency: float
    reducing: float = 0.0

    def seconds(self, sent: float, reduces: bool) -> float:
        """The time of a collective in which each rank of a ring sends this many bytes."""
        return self.latency + sent / ((self.reducing if reduces else 0.0) or self.bandwidth)


@dataclass(frozen=True)
class Cluster:
    """Nodes with several ranks each. Without its own rates, a rank's kernels are timed on this machine."""

    name: str
    ranks_per_node: int
    inside: Links
    between: Links
    overlaps: bool  # whether collectives go on while a rank computes
    sources: tuple[str, ...]
    gpu: str | None = None  # the name that `fits` knows it by: memory, and the plan's properties
    float32: float = 0.0  # FLOP/s of a rank
    tf32: float = 0.0
    half: float = 0.0
    cores: float = 0.0  # of this machine that a rank has, whose kernels are timed; 0 for all


_NVLINK4 = Links(370 * GB, 12e-6, reducing=480 * GB)
_NDR = Links(48 * GB, 46e-6)
_HOPPER_SOURCES = (
    "FLOP/s: NVIDIA's H100 and H200 data sheets, SXM, dense (67 TFLOP/s float32, 494 TF32, 989 bfloat16)",
    "NVLink: 480 GB/s all-reduce with NVLS, 370 GB/s others (NVIDIA/nccl-tests#212); 475 measured on 8 x H200 (#272)",
    "InfiniBand NDR: 46 to 48 GB/s a NIC, one for each GPU (NVIDIA/nccl-tests#290)",
    "latency: 12 us for 4 B on 8 x H20 (deepseek-ai/DeepEP#303), 46 us on 2 x 8 (NVIDIA/nccl#1244), as H100's",
)

CLUSTERS = {
    cluster.name: cluster
    for cluster in (
        Cluster("h200", 8, _NVLINK4, _NDR, True, _HOPPER_SOURCES, "H200", 67e12, 494e12, 989e12),
        Cluster("h100", 8, _NVLINK4, _NDR, True, _HOPPER_SOURCES, "H100", 67e12, 494e12, 989e12),
        Cluster(
            *("a100", 8, Links(235 * GB, 10e-6), Links(25 * GB, 46e-6), True),
            (
                "FLOP/s: NVIDIA's A100 data sheet, dense (19.5 TFLOP/s float32, 156 TF32, 312 bfloat16)",
                "NVLink: about 200 (NVIDIA/nccl-tests#149) to 235 GB/s; the larger, for a bound",
                "InfiniBand HDR: 200 Gb/s a NIC, one for each GPU",
                "latency: 10 us on 2 x A100 (NVIDIA/nccl#583); between nodes as 2 x 8 H20's (NVIDIA/nccl#1244)",
            ),
            *("A100-80GB", 19.5e12, 156e12, 312e12),
        ),
        Cluster(
            *("cpu-hdr", 1, Links(25 * GB, 1e-6), Links(25 * GB, 1e-6), True),
            (
                "one rank a node, whose kernels are those that are timed here; collectives in a thread of their own",
                "InfiniBand HDR: 200 Gb/s a NIC; 1 us, which NVIDIA's ConnectX-6 stays below",
            ),
        ),
    )
}
HERE = "here"
"""The machine this runs on: kernels are timed and collectives measured."""


def cluster(name: str) -> Cluster:
    """The machine of this name.

    >>> cluster("h200").inside.reducing
    480000000000.0
    """
    if name not in CLUSTERS:
        raise ArgumentError(f"scale: there is no machine {name!r}; choose one of {', '.join(CLUSTERS)} and {HERE}")
    return CLUSTERS[name]


def this_machine(ranks: int, links: Links) -> Cluster:
    """This machine, given the measured times of its collectives."""
    cores = available_cores()
    source = "measured, here and now" + (", by one process per core at the same time" if ranks > 1 else "")
    return Cluster(HERE, max(ranks, 1), links, links, cores >= 2 * ranks, (source,), cores=cores / ranks)


def nodes_of(members: tuple[int, ...], per_node: int) -> tuple[int, int]:
    """The number of nodes that hold the ranks, and the most ranks on one node.

    >>> nodes_of((0, 1, 2, 3), 8), nodes_of((0, 8, 16), 8), nodes_of(tuple(range(16)), 8)
    ((1, 4), (3, 1), (2, 8))
    """
    counts = Counter(member // per_node for member in members)
    return len(counts), max(counts.values())


def collective_seconds(cluster: Cluster, members: tuple[int, ...], put: float, kind: str) -> float:
    """The least time of a collective over these ranks, to which each contributes this many bytes.

    It takes at least the time within a node and the time between nodes, which overlap. Between nodes, a rank sends its
    share of its node's sum.
    """
    count = len(members)
    if count < 2:
        return 0.0
    nodes, local = nodes_of(members, cluster.ranks_per_node)
    inside = cluster.inside.seconds(put * _sent(kind, local), kind == "all_reduce") if local > 1 else 0.0
    if nodes == 1:
        return inside
    shared = 1 if kind in ("all_gather", "ppermute") else local  # ranks of a node, each of which sends its share
    across = put * _sent(kind, nodes) / shared
    return max(inside, cluster.between.seconds(across, kind == "all_reduce"))


def _sent(kind: str, ranks: int) -> float:
    """The multiple of its input that a rank sends, in a ring."""
    if kind == "all_reduce":
        return 2 * (ranks - 1) / ranks
    if kind == "all_gather":
        return ranks - 1
    return 1.0 if kind == "ppermute" else (ranks - 1) / ranks
