# SPDX-License-Identifier: Apache-2.0
# Two ranks with a group of Gloo, a group of each rank alone, and a group of both that uses the aggregator.
# Prints "all well" at the end.
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
import tributary.torch  # noqa: E402
from tributary._group import TributaryGroup, active_or_none  # noqa: E402

parts = [dist.new_group([member], backend="tributary") for member in range(world)]
tensor = torch.full((10,), rank + 1.0)
dist.all_reduce(tensor, group=parts[rank])
assert (tensor == rank + 1).all(), tensor
assert active_or_none() is None
dist.monitored_barrier(parts[rank])
both = dist.new_group(backend="tributary")
assert isinstance(both, TributaryGroup) and active_or_none() is both
dist.all_reduce(tensor, group=both)
assert (tensor == 3).all(), tensor
assert tributary.torch.summary()["all_reduces"] == 1
dist.barrier()
dist.destroy_process_group()
print("all well")
