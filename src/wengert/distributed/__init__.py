"""`wg.distributed`: many processes that run one program."""

from wengert.api.lift import lift
from wengert.core.mesh import Group, Mesh
from wengert.distributed.checkpoint import load_checkpoint, save_checkpoint, wait_for_checkpoint
from wengert.distributed.sharding import Split, place, shard
from wengert.distributed.simulate import simulate
from wengert.distributed.stages import stage
from wengert.distributed.world import World, start
from wengert.ops import collective as _collective

all_gather = lift(_collective.all_gather)
all_reduce = lift(_collective.all_reduce)
all_to_all = lift(_collective.all_to_all)
block = lift(_collective.block)
ppermute = lift(_collective.ppermute)
rank = lift(_collective.rank)
reduce_scatter = lift(_collective.reduce_scatter)
replicate = lift(_collective.replicate)

__all__ = [
    "Group",
    "Mesh",
    "Split",
    "World",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "block",
    "load_checkpoint",
    "place",
    "ppermute",
    "rank",
    "reduce_scatter",
    "replicate",
    "save_checkpoint",
    "shard",
    "simulate",
    "stage",
    "start",
    "wait_for_checkpoint",
]
