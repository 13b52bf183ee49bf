#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks join again after a failure and take the parameters of a healthy rank.

    tributary launch -n 3 --timeout-ms 20 --permanent-ms 100 --window 64 --history 1 \
        examples/rejoin.py

The last rank stops in the second epoch until the others are far ahead. With straggler mitigation they
continue without it. It has then missed more results than the aggregator keeps, so it gets
Desynchronised. At the end of the epoch all ranks learn of it and rejoin.

    tributary launch -n 3 --aggregators 2 examples/rejoin.py

If an aggregator dies, every rank gets AggregatorGone with its name. All ranks go on with the others.
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import tributary
import tributary.torch
import training

EPOCHS = 3
STEPS = 200  # In an epoch; with the window of 64 above, the aggregator keeps fewer results.
PAUSE_EPOCH = 1  # With mitigation.
PAUSE_STEP = 10
REPAIRED = (tributary.Desynchronised, tributary.AggregatorGone, tributary.SessionLost, tributary.PeerLeft)


def train_epoch(ddp, epoch, rank, world):
    """Trains one epoch. Raises RuntimeError if an all-reduce fails."""
    generator = torch.Generator().manual_seed(1000 * epoch + rank)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05)
    for step in range(STEPS):
        mitigated = tributary.torch.active_group().mitigated()
        if mitigated and (epoch, step, rank) == (PAUSE_EPOCH, PAUSE_STEP, world - 1):
            store().wait(["far ahead"])
        x = torch.randn(16, 8, generator=generator)
        optimizer.zero_grad()
        (ddp(x) - x.sum(1, keepdim=True)).square().mean().backward()
        optimizer.step()
        if (epoch, step, rank) == (PAUSE_EPOCH, STEPS - 1, 0):
            store().set("far ahead", "1")


def store():
    """Returns the key-value store through which the ranks met."""
    return dist.distributed_c10d._get_default_store()


def repair(model, well):
    """Makes all ranks join again and take the parameters of the first healthy one, or else of rank 0.

    Ranks that have lost an aggregator differ by the step that failed, and each has good parameters.
    """
    tributary.torch.rejoin()
    for parameter in model.parameters():
        dist.broadcast(parameter.detach(), src=well.index(True) if any(well) else 0)
    return DistributedDataParallel(model)


def main():
    dist.init_process_group("tributary")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    ddp = DistributedDataParallel(model)

    for epoch in range(EPOCHS):
        try:
            train_epoch(ddp, epoch, rank, world)
            well = True
        except RuntimeError:
            if not isinstance(tributary.torch.last_error(), REPAIRED):
                raise
            print(f"rank {rank}, epoch {epoch + 1}: {tributary.torch.last_error()}", flush=True)
            well = False
        # Use Gloo, which works whatever state the communicators are in.
        all_well = [None] * world
        dist.all_gather_object(all_well, well)
        if not all(all_well):
            ddp = repair(model, all_well)
        identical = training.parameters_identical(model)
        if rank == 0:
            lost = [peer for peer in range(world) if not all_well[peer]]
            print(f"epoch {epoch + 1}: rejoined: {lost}, parameters identical: {identical}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
