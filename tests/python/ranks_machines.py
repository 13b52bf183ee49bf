# SPDX-License-Identifier: Apache-2.0
# Ranks on two machines, started by torchrun. Prints the bytes that left this machine for each all-reduce, over
# the tensor's, and "all well" at the end.
import pathlib
import sys

import torch
import torch.distributed as dist
import tributary.torch  # noqa: F401

ELEMENTS, TIMES = 1_000_000, 8


def sent_bytes():
    return int(pathlib.Path(f"/sys/class/net/{sys.argv[1]}/statistics/tx_bytes").read_text())


dist.init_process_group("tributary")
rank, world = dist.get_rank(), dist.get_world_size()
tensor = torch.arange(ELEMENTS, dtype=torch.int32)
dist.all_reduce(tensor)
assert (tensor == torch.arange(ELEMENTS, dtype=torch.int32) * world).all()
dist.barrier()
before = sent_bytes()
for _ in range(TIMES):
    tensor = torch.full((ELEMENTS,), rank + 1, dtype=torch.int32)
    dist.all_reduce(tensor)
    assert (tensor == world * (world + 1) // 2).all()
dist.barrier()
print(f"sent {(sent_bytes() - before) / (4 * ELEMENTS * TIMES):.2f}, all well")
dist.destroy_process_group()
