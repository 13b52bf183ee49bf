# SPDX-License-Identifier: Apache-2.0
# Four ranks that are two machines with two ranks each. The first rank of each goes to the aggregator.
# hierarchical_test.py starts them. Prints "all well" at the end.
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power
from torch.nn.parallel import DistributedDataParallel

RANKS_ON_MACHINE = 2
STEPS = 6

os.environ["LOCAL_WORLD_SIZE"] = str(RANKS_ON_MACHINE)
os.environ["LOCAL_RANK"] = str(int(os.environ["RANK"]) % RANKS_ON_MACHINE)
dist.init_process_group("tributary")
import tributary  # noqa: E402
import tributary.torch  # noqa: E402

torch.manual_seed(1)
rank, world = dist.get_rank(), dist.get_world_size()
gloo = dist.new_group()


def sums():
    """Hand-worked values: ranks 0 to 3 give 1 to 4."""
    for dtype in (torch.float32, torch.float16, torch.int32):
        tensor = torch.full((1000,), rank + 1, dtype=dtype)
        dist.all_reduce(tensor)
        assert (tensor == 10).all(), tensor
    mean = torch.full((5, 7), rank + 1.0).t()  # Not contiguous.
    dist.all_reduce(mean, op=dist.ReduceOp.AVG)
    assert (mean == 2.5).all(), mean
    for tensor in (torch.full((50,), rank + 1.0), torch.full((2, 3, 4, 4), rank + 1.0)):
        if tensor.dim() == 4:
            tensor = tensor.contiguous(memory_format=torch.channels_last)
        parameter = nn.Parameter(tensor)
        dist.all_reduce(parameter, op=dist.ReduceOp.AVG)
        assert (parameter == 2.5).all(), parameter
    several = [torch.full((10 + part,), float(rank + part)) for part in range(20)]
    for work in [dist.all_reduce(part, async_op=True) for part in several]:
        work.wait()
    for part, tensor in enumerate(several):
        assert (tensor == 6 + 4 * part).all(), (part, tensor)


def sums_of_16_bit_types():
    """A machine's sum of float16 is infinite where the mean is not. Gloo cannot add bfloat16."""
    mean = torch.full((5,), 30000.0, dtype=torch.float16)
    dist.all_reduce(mean, op=dist.ReduceOp.AVG)
    assert (mean == 30000).all(), mean
    # 256, 256, 2 and 2: in bfloat16, whose neighbours of 512 are 4 apart, 512 + 2 + 2 would stay 512.
    total = torch.full((5,), 256.0 if rank < 2 else 2.0, dtype=torch.bfloat16)
    dist.all_reduce(total)
    assert (total == 516).all(), total


def infinities():
    """Rank 3 gives a NaN, which the leader of its machine sends. Every rank raises, and the group stays usable."""
    os.environ["TRIBUTARY_NOT_FINITE"] = "raise"
    tensor = torch.full((3,), float("nan") if rank == 3 else 1.0)
    clean = torch.full((3,), rank + 1.0)
    works = [dist.all_reduce(one, async_op=True) for one in (tensor, clean)]
    try:
        works[0].wait()
        raise AssertionError("a NaN was taken")
    except tributary.NotFinite as error:
        assert "TRIBUTARY_NOT_FINITE=nan" in str(error), error
        assert tributary.torch.last_error() is error
    works[1].wait()
    assert tensor.isnan().all() and (clean == 10).all(), (tensor, clean)
    assert tributary.torch.active_group().error is None
    del os.environ["TRIBUTARY_NOT_FINITE"]
    tensor = torch.full((3,), float("nan") if rank == 3 else 1.0)
    dist.all_reduce(tensor)
    assert tensor.isnan().all(), tensor


def columns(of_rank):
    """Returns a tensor whose elements have gaps in memory."""
    return (torch.arange(12.0).view(3, 4) + 10 * of_rank)[:, ::2]


def tensors_with_gaps():
    tensor = columns(rank)
    dist.broadcast(tensor, 1)
    assert torch.equal(tensor, columns(1)), tensor
    tensor = columns(rank)
    dist.all_reduce(tensor, op=dist.ReduceOp.MIN)
    assert torch.equal(tensor, columns(0)), tensor
    tensor = columns(rank)
    dist.reduce(tensor, 3)
    total = sum(columns(one) for one in range(world))
    assert rank != 3 or torch.equal(tensor, total), tensor
    tensor = columns(rank)
    works = [dist.all_reduce(tensor, async_op=True) for _ in range(2)]  # The second adds up results of the first.
    for work in works:
        work.wait()
    assert torch.equal(tensor, world * total), tensor
    tensor = columns(rank)
    work = dist.all_reduce(tensor, async_op=True)
    dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
    work.wait()
    assert torch.equal(tensor, total), tensor


def lists_of_tensors_with_gaps():
    taken = [columns(0) for _ in range(world)]
    dist.gather(columns(rank), taken if rank == 2 else None, dst=2)
    assert rank != 2 or all(torch.equal(one, columns(other)) for other, one in enumerate(taken)), taken
    tensor = columns(9)
    dist.scatter(tensor, [columns(other) for other in range(world)] if rank == 1 else None, src=1)
    assert torch.equal(tensor, columns(rank)), tensor
    # Row r of each rank goes to rank r.
    given = (torch.arange(2.0 * world).view(world, 2) + 10 * rank).t().contiguous().t()
    tensor = torch.zeros(2, world).t()
    dist.all_to_all_single(tensor, given)
    assert tensor.tolist() == [[10 * other + 2 * rank, 10 * other + 2 * rank + 1] for other in range(world)], tensor


def by_gloo():
    dist.monitored_barrier()
    largest = torch.tensor([rank])
    dist.all_reduce(largest, op=dist.ReduceOp.MAX)
    assert largest.item() == world - 1
    every = [None] * world
    dist.all_gather_object(every, rank)
    assert every == list(range(world))


def only_leaders_reach_the_aggregator():
    reduced = tributary.torch.summary()["all_reduces"]
    assert (reduced > 0) == (rank % RANKS_ON_MACHINE == 0), (rank, reduced)


def of_the_active_group():
    model = nn.Linear(3, 3)
    tributary.torch.check_parameters(model)
    try:
        tributary.torch.CatchUp(DistributedDataParallel(model))
        raise AssertionError("CatchUp took the model")
    except tributary.InvalidArgument as error:
        assert "TRIBUTARY_LOCAL_GROUP" in str(error), error
    tributary.torch.end_epoch(1)


def train(group, compressed=False):
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(40, 60), nn.ReLU(), nn.Linear(60, 50), nn.ReLU(), nn.Linear(50, 8))
    ddp = DistributedDataParallel(model, process_group=group, bucket_cap_mb=0.005)
    if compressed:  # Of full rank, so it changes nothing.
        state = power.PowerSGDState(ddp.process_group, 60, 2, 0.01)
        ddp.register_comm_hook(state, power.powerSGD_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    torch.manual_seed(100 + rank)
    for _ in range(STEPS):
        optimizer.zero_grad()
        nn.functional.mse_loss(ddp(torch.randn(16, 40)), torch.randn(16, 8)).backward()
        optimizer.step()
    flat = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    every = [torch.empty_like(flat) for _ in range(world)]
    dist.all_gather(every, flat)
    assert all(torch.equal(flat, other) for other in every), "parameters differ between ranks"
    return flat


def training():
    expected = train(gloo)
    assert torch.allclose(train(None), expected, rtol=1e-4, atol=1e-6)
    assert torch.allclose(train(None, compressed=True), expected, rtol=1e-3, atol=1e-5)


dist._DEFAULT_FIRST_BUCKET_BYTES = 1000
for check in (sums, sums_of_16_bit_types, tensors_with_gaps, lists_of_tensors_with_gaps, by_gloo, infinities,
              only_leaders_reach_the_aggregator, of_the_active_group, training):
    check()
dist.barrier()
dist.destroy_process_group()
print("all well")
