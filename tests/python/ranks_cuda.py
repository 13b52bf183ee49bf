# SPDX-License-Identifier: Apache-2.0
# Two ranks whose tensors are on a GPU, which they may share. cuda_test.py starts them. Prints "all well" at the end.
import datetime
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 6
# A kernel of this many clock cycles takes a good part of a second.
LONG = 500_000_000


def sums():
    """Hand-worked values: rank 0 gives 1, rank 1 gives 2."""
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int32):
        tensor = torch.full((1000,), rank + 1, dtype=dtype, device=device)
        dist.all_reduce(tensor)
        assert tensor.is_cuda and (tensor == 3).all(), tensor
    mean = torch.full((5, 7), rank + 1.0, device=device).t()  # Not contiguous.
    dist.all_reduce(mean, op=dist.ReduceOp.AVG)
    assert (mean == 1.5).all(), mean
    images = torch.arange(24.0, device=device).view(1, 2, 3, 4).to(memory_format=torch.channels_last)
    dist.all_reduce(images)
    assert images.flatten().tolist() == [2.0 * value for value in range(24)]


def many_in_flight_beside_tensors_of_the_host():
    tensors = [torch.full((3000,), float(index + rank), device=device if index % 3 else "cpu") for index in range(60)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    works[7].get_future().wait()
    for work in works:
        work.wait()
    for index, tensor in enumerate(tensors):
        assert (tensor == 2 * index + 1).all(), (index, tensor)


def a_sum_follows_the_kernels_before_it_without_blocking():
    # The first use of a kernel loads it, and of memory for copies allocates it. Both wait for the GPU.
    for cycles in (1, LONG):
        tensor = torch.zeros(1_000_000, device=device)
        torch.cuda.synchronize()
        torch.cuda._sleep(cycles)
        tensor += rank + 1
        work = dist.all_reduce(tensor, async_op=True)
        blocked = torch.cuda.current_stream().query()
        work.wait()
        tensor *= 2
        assert (tensor == 6).all(), tensor
    assert not blocked, "all_reduce() waited for the kernels before it"


def a_result_does_not_wait_for_the_kernels_after_it():
    for cycles in (1, LONG):
        tensor = torch.full((1_000_000,), rank + 1.0, device=device)
        torch.cuda.synchronize()
        work = dist.all_reduce(tensor, async_op=True)
        torch.cuda._sleep(cycles)
        work.wait()
        waited = torch.cuda.current_stream().query()
        assert (tensor == 3).all(), tensor
    assert not waited, "wait() waited for the kernels after the call"


def coalesced():
    several = [torch.full((1000,), rank + 1.0, device=device) for _ in range(3)]
    with dist._coalescing_manager(device=device, async_ops=True) as manager:
        for tensor in several:
            dist.all_reduce(tensor)
    manager.wait()
    assert all((tensor == 3).all() for tensor in several), several
    joined = [torch.zeros(2 * world, device=device) for _ in range(2)]
    with dist._coalescing_manager(device=device):
        for tensor in joined:
            dist.all_gather_into_tensor(tensor, torch.full((2,), float(rank), device=device))
    assert all(tensor.tolist() == [0, 0, 1, 1] for tensor in joined), joined


def on_a_stream_of_the_script():
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(LONG // 10)
        tensor = torch.full((100_000,), rank + 1.0, device=device)
        work = dist.all_reduce(tensor, async_op=True)
        work.wait()
        doubled = tensor * 2
    stream.synchronize()
    assert (doubled == 6).all(), doubled


def other_collectives():
    for dtype in (torch.float32, torch.float64, torch.int64, torch.bfloat16, torch.bool):
        own = torch.tensor([rank, 1], device=device).to(dtype)
        gathered = [torch.empty_like(own) for _ in range(world)]
        dist.all_gather(gathered, own)
        assert [part[0].item() for part in gathered] == [0, 1], (dtype, gathered)
        joined = torch.empty(2 * world, dtype=dtype, device=device)
        dist.all_gather_into_tensor(joined, own)
        assert joined.cpu().to(torch.int64).tolist() == [0, 1, 1, 1], (dtype, joined)
        dist.broadcast(own, src=1)
        assert own[0].item() == 1, (dtype, own)
    double = torch.tensor([0.5 + rank], dtype=torch.float64, device=device)
    dist.all_reduce(double)
    assert double.item() == 2
    largest = torch.tensor([float(rank)], device=device)
    dist.all_reduce(largest, op=dist.ReduceOp.MAX)
    assert largest.item() == 1
    own = torch.zeros(2, device=device)
    dist.reduce_scatter(own, [torch.full((2,), 10.0 * part + rank, device=device) for part in range(world)])
    assert own.tolist() == [20.0 * rank + 1] * 2, own
    dist.reduce_scatter_tensor(own, torch.arange(2.0 * world, device=device))
    assert own.tolist() == [4.0 * rank, 4.0 * rank + 2], own
    several = [torch.ones(3, device=device), torch.full((2, 2), 2.0, device=device)]
    dist.all_reduce_coalesced(several)
    assert several[0].tolist() == [2] * 3 and several[1].sum() == 16
    root = torch.full((4,), rank + 1.0, device=device)
    dist.reduce(root, dst=1)
    assert rank == 0 or (root == 3).all(), root
    dist.barrier()


def parameters_after(group, **options):
    """Returns the parameters after STEPS steps in DistributedDataParallel, the same on all ranks."""
    torch.manual_seed(3)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 60), nn.ReLU(), nn.Linear(60, 8)
    ).to(device)
    ddp = DistributedDataParallel(model, process_group=group, bucket_cap_mb=0.05, **options)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    generator = torch.Generator().manual_seed(100 + rank)
    for _ in range(STEPS):
        optimizer.zero_grad()
        seen = torch.randn(16, 3, 8, 8, generator=generator).to(device)
        nn.functional.mse_loss(ddp(seen), torch.ones(16, 8, device=device)).backward()
        optimizer.step()
    return same_on_all(model)


def same_on_all(model):
    flat = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    every = [torch.empty_like(flat) for _ in range(world)]
    dist.all_gather(every, flat)
    assert all(torch.equal(flat, other) for other in every), "parameters differ between ranks"
    return flat


def training_gives_the_parameters_of_gloo():
    gloo = dist.new_group(backend="gloo")
    expected = parameters_after(gloo)
    for options in ({}, {"gradient_as_bucket_view": True}, {"static_graph": True}):
        assert torch.allclose(parameters_after(None, **options), expected, rtol=1e-3, atol=1e-5), options


def functional_collectives():
    import torch.distributed._functional_collectives as functional

    tensor = torch.full((4,), rank + 1.0, device=device)
    assert functional.wait_tensor(functional.all_reduce(tensor, "sum", dist.group.WORLD)).tolist() == [3] * 4
    gathered = functional.wait_tensor(functional.all_gather_tensor(tensor, 0, dist.group.WORLD))
    assert gathered.tolist() == [1] * 4 + [2] * 4, gathered
    given = torch.arange(2.0 * world, device=device)
    own = functional.wait_tensor(functional.reduce_scatter_tensor(given, "sum", 0, dist.group.WORLD))
    assert own.tolist() == [4.0 * rank, 4.0 * rank + 2], own


def fully_sharded():
    """FSDP and fully_shard() give the parameters of DistributedDataParallel."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard

    def train(wrap, whole):
        torch.manual_seed(3)
        model = wrap(nn.Sequential(nn.Linear(40, 64), nn.ReLU(), nn.Linear(64, 8)).to(device))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        generator = torch.Generator().manual_seed(100 + rank)
        for _ in range(STEPS):
            optimizer.zero_grad()
            model(torch.randn(16, 40, generator=generator).to(device)).square().mean().backward()
            optimizer.step()
        return torch.cat([parameter.flatten() for parameter in whole(model)])

    def whole_of_fsdp(model):
        with FullyShardedDataParallel.summon_full_params(model):
            return [parameter.detach().clone() for parameter in model.parameters()]

    mesh = init_device_mesh("cuda", (world,))
    expected = train(DistributedDataParallel, lambda model: [one.detach() for one in model.parameters()])
    of_fsdp = train(lambda model: FullyShardedDataParallel(model, use_orig_params=True), whole_of_fsdp)
    assert torch.allclose(of_fsdp, expected, rtol=1e-4, atol=1e-6)
    of_shards = train(lambda model: fully_shard(model, mesh=mesh),
                      lambda model: [one.full_tensor().detach() for one in model.parameters()])
    assert torch.allclose(of_shards, expected, rtol=1e-4, atol=1e-6)


def mixed_precision():
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(40, 60), nn.ReLU(), nn.Linear(60, 8)).to(device)
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    scaler = torch.cuda.amp.GradScaler(init_scale=2.0**127)  # The first steps overflow on all ranks.
    for _ in range(STEPS):
        optimizer.zero_grad()
        with torch.cuda.amp.autocast():
            loss = ddp(torch.randn(16, 40, device=device)).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    scales = [None] * world
    dist.all_gather_object(scales, scaler.get_scale())
    assert len(set(scales)) == 1 and scales[0] < 2.0**127, scales
    same_on_all(model)


def catching_up():
    """With mitigation: a rank that sleeps takes the others' gradients, and all ranks keep the same parameters."""
    import time

    from tributary.torch import CatchUp, summary

    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(40, 60), nn.ReLU(), nn.Linear(60, 8)).to(device)
    ddp = DistributedDataParallel(model, broadcast_buffers=False)
    catch_up = CatchUp(ddp)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(60):
        optimizer.zero_grad()
        if not catch_up.take_gradients():
            if rank == 1 and step in (20, 30):
                time.sleep(0.5)
            ddp(torch.randn(16, 40, device=device)).square().mean().backward()
        optimizer.step()
    same_on_all(model)
    assert summary()["degraded_blocks"] > 0, summary()


if __name__ == "__main__":
    if "TRIBUTARY_LOCAL_GROUP" in os.environ:  # Each rank is a machine. NCCL refuses two ranks on one GPU.
        os.environ.update(LOCAL_RANK="0", LOCAL_WORLD_SIZE="1")
    dist.init_process_group("tributary", timeout=datetime.timedelta(seconds=30))
    rank, world = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    wanted = sys.argv[1:] or ["sums", "many_in_flight_beside_tensors_of_the_host",
                              "a_sum_follows_the_kernels_before_it_without_blocking",
                              "a_result_does_not_wait_for_the_kernels_after_it", "on_a_stream_of_the_script",
                              "coalesced", "other_collectives", "training_gives_the_parameters_of_gloo",
                              "mixed_precision", "fully_sharded", "functional_collectives"]
    for name in wanted:
        globals()[name]()
        if "TRIBUTARY_TEST_VERBOSE" in os.environ:
            print("well:", name, flush=True)
    dist.barrier()
    dist.destroy_process_group()
    print("all well")
