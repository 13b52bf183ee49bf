# SPDX-License-Identifier: Apache-2.0
# Two ranks, the last of which deliberately misses one all-reduce. torch_test.py starts this with
# straggler mitigation. Keys in the store tell the ranks when to continue, so nothing sleeps.
import os
import sys
import warnings

import torch
import torch.distributed as dist

dist.init_process_group("tributary")
import tributary.torch  # noqa: E402

rank = dist.get_rank()
store = dist.distributed_c10d._get_default_store()
seen = []
tributary.torch.on_degraded(seen.append)

first = torch.ones(5)
dist.all_reduce(first, op=dist.ReduceOp.AVG)
assert first.tolist() == [1.0] * 5 and not seen

# Means and gradients may lack a rank: here rank 0's count for both ranks.
parameter = torch.zeros(500, requires_grad=True)
parameter.register_hook(lambda gradient: dist.all_reduce(gradient))
mean = torch.tensor([1.0 + rank])
if rank == 1:
    store.wait(["rank 0 has its sum"])
dist.all_reduce(mean, op=dist.ReduceOp.AVG)
(parameter * (3.0 + rank)).sum().backward()
if rank == 0:
    store.set("rank 0 has its sum", "1")
assert parameter.grad.tolist() == [6.0] * 500, parameter.grad
assert mean.item() == 1.0
assert [event.number for event in seen] == [1, 2], seen
assert all(event.missing == [1] and event.degraded_blocks == event.blocks for event in seen), seen
assert tributary.torch.summary()["missing"] == {"1": sum(event.blocks for event in seen)}

# Other sums wait for all ranks: rank 1 starts them when rank 0 has had a mean without it.
behind = torch.tensor([1.0])
metric, whole = torch.tensor([100.0 * (rank + 1)]), torch.ones(3).int()
if rank == 1:
    store.wait(["rank 0 has its mean"])
works = [dist.all_reduce(tensor, async_op=True) for tensor in (metric, whole)]
dist.all_reduce(behind, op=dist.ReduceOp.AVG)
if rank == 0:
    store.set("rank 0 has its mean", "1")
while works:  # Gloo of torch 1.13 can hang if a work outlives its group.
    works.pop().wait()
assert metric.item() == 300 and whole.tolist() == [2, 2, 2], (metric, whole)
assert len(seen) == 3
try:
    dist.all_reduce(torch.ones(3, dtype=torch.bfloat16))
    raise AssertionError("Gloo cannot add bfloat16")
except tributary.InvalidArgument as error:
    assert "float32" in str(error), error


class Writer:
    """Stands for TensorBoard's SummaryWriter."""

    def __init__(self):
        self.scalars = {}

    def add_scalar(self, name, value, epoch):
        self.scalars[name, epoch] = value


writer = Writer()
counts = tributary.torch.end_epoch(1, writer)
summary = tributary.torch.summary()
assert counts["all_reduces"] == 4 and counts["blocks"] == summary["blocks"], counts
assert counts["missing_share"] == [0, summary["missing"]["1"] / summary["blocks"]], counts
assert writer.scalars.get(("tributary/missing_share/rank1", 1)) == (
    counts["missing_share"][1] if rank == 0 else None
), writer.scalars
counts = tributary.torch.end_epoch(2, writer)
assert counts["blocks"] == counts["degraded_share"] == sum(counts["missing_share"]) == 0, counts
os.environ["TRIBUTARY_TENSORBOARD"] = "unused"
sys.modules["torch.utils.tensorboard"] = None  # Not installed.
with warnings.catch_warnings(record=True) as warned:
    tributary.torch.end_epoch(3)
assert ["not installed" in str(one.message) for one in warned] == [True] * (rank == 0), warned

# A NaN spoils its own block. The other degraded blocks are scaled and reported as ever.
seen.clear()
factors = torch.full((20_000,), 3.0 + rank)
if rank == 0:
    factors[0] = float("nan")
else:
    store.wait(["rank 0 has its sum with a NaN"])
parameter = torch.zeros(20_000, requires_grad=True)
parameter.register_hook(lambda gradient: dist.all_reduce(gradient))
(parameter * factors).sum().backward()
if rank == 0:
    store.set("rank 0 has its sum with a NaN", "1")
assert parameter.grad[0].isnan() and set(parameter.grad[10_000:].tolist()) == {6.0}, parameter.grad
assert [(event.missing, event.degraded_blocks) for event in seen] == [([1], seen[0].blocks)], seen
dist.barrier()
dist.destroy_process_group()
print("all well")
