"""A script of torchrun's kind, run by `test_ranks` on two ranks and on one: it writes what it found to a file.

The losses and the parameters are those of one process on the whole batch.
"""

from __future__ import annotations

import json
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def trained(rank: int, world: int) -> dict[str, object]:
    """Losses and parameters of some steps, whose batches the ranks share."""
    torch.manual_seed(0 if rank == 0 else 99)  # the first rank's parameters count
    net = DistributedDataParallel(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)))
    assert next(iter(net.state_dict())) == "module.0.weight"
    torch.manual_seed(1)
    data = TensorDataset(torch.randn(16, 4), torch.randn(16, 1))
    sampler = DistributedSampler(data, shuffle=False)
    loader = DataLoader(data, batch_size=8 // world, sampler=sampler)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(net(x), y)
            loss.backward()
            optimizer.step()
            total = loss.detach().clone()
            dist.all_reduce(total, op=dist.ReduceOp.SUM)
            if rank == 0:  # nobody else looks
                losses.append(total.item() / world)
    with net.no_sync():
        net(x).sum().backward()
    normed = DistributedDataParallel(nn.BatchNorm1d(4))
    normed(x + rank)
    normed(x)  # with the statistics of the first rank
    normed.module.num_batches_tracked.fill_(rank)
    normed(x)
    assert normed.module.num_batches_tracked.item() == 1
    for parameter in net.parameters():
        first = parameter.detach().clone()
        dist.broadcast(first, src=0)
        assert torch.equal(first, parameter.detach())
    return {"losses": losses, "weights": [p.detach().reshape(-1).tolist() for p in net.parameters()]}


def collectives(rank: int, world: int) -> dict[str, object]:
    """What each collective gives, of which some ranks look at nothing."""
    mine = torch.tensor([float(rank), 1.0])
    gathered = [torch.zeros(2) for _ in range(world)]
    dist.all_gather(gathered, mine)
    objects: list[object] = [None] * world
    dist.all_gather_object(objects, {"rank": rank, "text": "x" * (rank + 1)})
    shared = ["of the first", torch.arange(3)] if rank == 0 else [None, None]
    dist.broadcast_object_list(shared, src=0)
    found = {}
    for name in ("SUM", "AVG", "MAX", "MIN", "PRODUCT"):
        value = mine + 1
        work = dist.all_reduce(value, op=getattr(dist.ReduceOp, name), async_op=True)
        work.wait()
        found[name] = value.tolist() if rank == 0 else None
    part = torch.zeros(1)
    dist.reduce_scatter_tensor(part, torch.arange(float(world)))
    message = torch.full((3,), float(rank))
    if rank == 1:
        dist.send(message, dst=0)
    elif world > 1:
        dist.recv(message, src=1)
    dist.barrier()
    return found | {
        "gathered": [each.tolist() for each in gathered],
        "objects": objects,
        "shared": [shared[0], shared[1].tolist()],
        "part": part.item(),
        "message": message.tolist(),
    }


@record
def main() -> None:
    """Become a rank, and write what this one found."""
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    dist.init_process_group("gloo")
    assert (dist.get_rank(), dist.get_world_size()) == (rank, world)
    found = trained(rank, world) | collectives(rank, world)
    with open(f"{sys.argv[1]}/{rank}.json", "w") as file:
        json.dump(found, file)
    dist.destroy_process_group()
    assert not dist.is_initialized()


if __name__ == "__main__":
    main()
