# SPDX-License-Identifier: Apache-2.0
# Three ranks train with straggler mitigation, and one makes fewer all-reduces than the others. The first argument
# says which mistake it makes, the second where the ranks meet. Prints what the ranks find. late_test.py starts this.
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("tributary")
import tributary  # noqa: E402
import tributary.torch  # noqa: E402

STEPS = 8
mistake, meeting = sys.argv[1:]
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(1)
model = nn.Linear(6, 3)
ddp = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)


def steps():
    """Yields the rank's own steps: the last rank has a batch less."""
    yield from range(STEPS - (mistake == "a batch less" and rank == world - 1))


for step in steps():
    loss = ddp(torch.full((4, 6), float(rank + 1))).square().mean()
    if mistake == "skips a backward pass" and (rank, step) == (1, 5):
        continue
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if mistake == "a step more" and (rank, step) == (0, 5):
        ddp(torch.ones(4, 6)).square().mean().backward()

MEETINGS = {
    "barrier": dist.barrier,
    "metric": lambda: dist.all_reduce(torch.ones(1)),
    "broadcast": lambda: dist.broadcast(torch.ones(1), 0),
    "async": lambda: dist.all_gather([torch.ones(1)] * world, torch.ones(1), async_op=True).wait(),
    "end_epoch": lambda: tributary.torch.end_epoch(0),
    "check_parameters": lambda: tributary.torch.check_parameters(ddp),
    "exit": lambda: None,
}
try:
    MEETINGS[meeting]()
    print("found nothing so far")
except tributary.Mismatch as error:
    print(f"found: {error}")
    try:
        ddp(torch.ones(4, 6)).square().mean().backward()
    except RuntimeError as refused:
        print(f"refused: {refused}")
dist.destroy_process_group()
