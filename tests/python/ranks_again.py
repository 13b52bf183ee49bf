# SPDX-License-Identifier: Apache-2.0
# A rank that leaves its group and creates another one in the same process. Prints "all well" at the end.
import os

import torch
import torch.distributed as dist

import tributary.torch

for turn in range(3):
    dist.init_process_group("tributary")
    tensor = torch.full((1000,), float(turn))
    dist.all_reduce(tensor)
    assert (tensor == turn).all(), tensor
    dist.broadcast(tensor, 0)
    dist.destroy_process_group()

# The group with the aggregator is gone, so another one uses it.
dist.init_process_group("gloo")
group = dist.new_group(backend="tributary")
tensor = torch.ones(1000)
dist.all_reduce(tensor, group=group)
assert tributary.torch.active_group() is group and tributary.torch.summary()["all_reduces"] == 1
dist.destroy_process_group()

from tributary import aggregators  # noqa: E402

if "TRIBUTARY_URL" not in os.environ:
    assert len(aggregators._running) == 1, aggregators._running
    for process in aggregators._ending:
        process.wait()
print("all well")
