# SPDX-License-Identifier: Apache-2.0
# Two ranks whose buckets have two priorities. torch_test.py starts them. Prints "all well" at the end.
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import tributary.torch

STEPS = 4
given = []  # The priorities of the all-reduces of a step.


def note_priorities(communicator):
    submit = communicator.submit

    def noting(*arguments):
        given.append(arguments[-2])
        return submit(*arguments)

    communicator.submit = noting


def train(group):
    """Returns the parameters after STEPS steps in `group`, and the priorities of each step."""
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(40, 60), nn.ReLU(), nn.Linear(60, 50), nn.ReLU(), nn.Linear(50, 8))
    ddp = DistributedDataParallel(model, process_group=group, bucket_cap_mb=0.001)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    torch.manual_seed(100 + rank)
    steps = []
    for _ in range(STEPS):
        given.clear()
        optimizer.zero_grad()
        nn.functional.mse_loss(ddp(torch.randn(16, 40)), torch.randn(16, 8)).backward()
        optimizer.step()
        steps.append(list(given))
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()]), steps


dist.init_process_group("tributary")
rank = dist.get_rank()
dist._DEFAULT_FIRST_BUCKET_BYTES = 1000  # As bucket_cap_mb: each layer has a bucket.
gloo = dist.new_group(backend="gloo")
communicator = tributary.torch.active_group().communicator
assert communicator.info()["threads"] == 2, communicator.info()
note_priorities(communicator)

with_gloo, _ = train(gloo)
ours, steps = train(None)
assert torch.allclose(ours, with_gloo, rtol=1e-4, atol=1e-6), (ours - with_gloo).abs().max()
assert set(steps[0]) == {0}, steps  # Their number is not known yet.
# DDP makes new buckets after the first step.
assert len(steps[-1]) > 2 and steps[-1] == [1] * (len(steps[-1]) - 1) + [0], steps
dist.all_reduce(torch.ones(3))
assert given[-1] == 0  # Outside a backward pass.
model = DistributedDataParallel(nn.Linear(4, 2))
try:
    with model.join():
        model(torch.ones(1, 4))
    raise AssertionError("a rank without inputs would give its sums other priorities")
except tributary.InvalidArgument as error:
    assert "join() of DistributedDataParallel cannot be used with priorities" in str(error), error
dist.destroy_process_group()
print("all well", flush=True)
