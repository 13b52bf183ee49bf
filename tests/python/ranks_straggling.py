# SPDX-License-Identifier: Apache-2.0
# Two ranks, the last of which deliberately misses one all-reduce. torch_test.py starts this with
# straggler mitigation. Keys in the store tell the ranks when to continue, so nothing sleeps.
import torch
import torch.distributed as dist

dist.init_process_group("tributary")
import tributary.torch  # noqa: E402

rank = dist.get_rank()
store = dist.distributed_c10d._get_default_store()
seen = []
tributary.torch.on_degraded(seen.append)

first = torch.ones(5)
dist.all_reduce(first)
assert first.tolist() == [2.0] * 5 and not seen

if rank == 1:
    store.wait(["rank 0 has its sum"])
total, mean, whole = torch.full((500,), 3.0 + rank), torch.tensor([1.0 + rank]), torch.ones(3).int()
dist.all_reduce(total)
dist.all_reduce(mean, op=dist.ReduceOp.AVG)
dist.all_reduce(whole)
if rank == 0:
    store.set("rank 0 has its sum", "1")
# Rank 0's 3.0 counts for both ranks, so that DDP's sum of halves is the mean of the contributing
# ranks.
assert total.tolist() == [6.0] * 500, total
assert mean.item() == 1.0 and whole.tolist() == [1, 1, 1]
assert [event.number for event in seen] == [1, 2, 3], seen
assert all(event.missing == [1] and event.degraded_blocks == event.blocks for event in seen), seen
assert tributary.torch.summary()["missing"] == {"1": sum(event.blocks for event in seen)}
dist.barrier()
dist.destroy_process_group()
print("all well")
