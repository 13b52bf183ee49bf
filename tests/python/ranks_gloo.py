# SPDX-License-Identifier: Apache-2.0
# Ranks on two machines that use Gloo. Prints "all well" at the end.
import os

import torch
import torch.distributed as dist
import tributary.torch  # noqa: F401

before = dict(os.environ)
dist.init_process_group("tributary")
rank, world = dist.get_rank(), dist.get_world_size()
for group in (None, dist.new_group()):
    tensor = torch.full((1000,), rank + 1, dtype=torch.float64)  # The aggregator does not add float64.
    dist.all_reduce(tensor, group=group)
    assert (tensor == world * (world + 1) / 2).all(), tensor
assert os.environ.get("GLOO_SOCKET_IFNAME") == before.get("GLOO_SOCKET_IFNAME")
dist.barrier()
dist.destroy_process_group()
print("all well")
