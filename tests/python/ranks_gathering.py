# SPDX-License-Identifier: Apache-2.0
# Three ranks that compare each collective with its definition, for many types and lengths. torch_test.py
# starts them with and without straggler mitigation. Prints "all well" at the end.
import os

import torch
import torch.distributed as dist

TYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32,
         torch.int8, torch.uint8, torch.bool, torch.complex64)
GLOO_LACKS = (torch.bfloat16, torch.bool, torch.complex64)  # In torch 1.13.
LENGTHS = (0, 1, 2, 3, 5, 4000)


def values(dtype, length, of_rank):
    """The tensor of a rank, the same wherever it is computed. Has infinities, NaN and negative zeros."""
    generator = torch.Generator().manual_seed(1000 * length + of_rank)
    bits = torch.randint(-(2**31), 2**31, (length * 4,), generator=generator).to(torch.int32)
    if dtype == torch.bool:
        return bits[:length] > 0
    return bits.view(torch.uint8).view(dtype)[:length].clone()


def same(one, other):
    return torch.equal(one.contiguous().view(torch.uint8), other.contiguous().view(torch.uint8))


def cases():
    for dtype in TYPES:
        if not (mitigated and dtype in GLOO_LACKS):
            for length in LENGTHS:
                yield dtype, length


def bytes_arrive_as_they_are():
    for dtype, length in cases():
        everyones = [values(dtype, length, other) for other in range(world)]
        for root in (0, world - 1):
            tensor = everyones[rank].clone()
            dist.broadcast(tensor, src=root)
            assert same(tensor, everyones[root]), (dtype, length)
        gathered = [torch.empty_like(tensor) for _ in range(world)]
        dist.all_gather(gathered, everyones[rank])
        assert all(same(*pair) for pair in zip(gathered, everyones)), (dtype, length)
        joined = torch.empty(world * length, dtype=dtype)
        dist.all_gather_into_tensor(joined, everyones[rank])
        assert same(joined, torch.cat(everyones)), (dtype, length)


def a_part_of_the_output_may_be_the_input():
    output = torch.full((world, 4), float(rank))
    dist.all_gather_into_tensor(output, output[rank])
    assert output[:, 0].tolist() == list(range(world))


def sums_are_kept_by_their_owners():
    for dtype in (torch.float32, torch.int32):
        tensor = torch.arange(5).to(dtype) + rank
        before = tensor.clone()
        dist.reduce(tensor, dst=1)
        if rank == 1:
            assert tensor.tolist() == [world * value + 3 for value in range(5)]
        elif not mitigated:  # Gloo leaves something else there.
            assert torch.equal(tensor, before)
        own = torch.zeros(2, dtype=dtype)
        dist.reduce_scatter(own, [torch.full((2,), 10 * part + rank).to(dtype) for part in range(world)])
        assert own.tolist() == [world * 10 * rank + 3] * 2
        own = torch.zeros(2, dtype=dtype)
        dist.reduce_scatter_tensor(own, torch.arange(2 * world).to(dtype))
        assert own.tolist() == [world * 2 * rank, world * (2 * rank + 1)]
        parts = [torch.full((2, part + 1), 10 * part + rank).to(dtype).t() for part in range(world)]
        before = [part.clone() for part in parts]
        own = torch.zeros(2, rank + 1, dtype=dtype).t()  # Not contiguous, and of another length on each rank.
        dist.reduce_scatter(own, parts)
        assert own.tolist() == [[world * 10 * rank + 3] * 2] * (rank + 1)
        assert all(torch.equal(*pair) for pair in zip(parts, before))
    several = [torch.ones(3), torch.full((2, 2), 2.0)]
    dist.all_reduce_coalesced(several)
    assert several[0].tolist() == [world] * 3 and several[1].sum() == 8 * world


def parts_of_one_tensor():
    # The output may be a part of the input, its own or another rank's, and two calls may share an input.
    for output_rank in (rank, (rank + 1) % world):
        whole = torch.arange(4.0 * world) + rank
        output = whole[4 * output_rank : 4 * output_rank + 4]
        dist.reduce_scatter_tensor(output, whole)
        assert output.tolist() == [world * (4 * rank + i) + 3 for i in range(4)]
    given = torch.ones(2 * world)
    outputs = [torch.zeros(2), torch.zeros(2)]
    works = [dist.reduce_scatter_tensor(output, given, async_op=True) for output in outputs]
    for work in works:
        work.wait()
    assert [output.tolist() for output in outputs] == [[world] * 2] * 2
    assert given.tolist() == [1.0] * 2 * world


def refused(text, function, *arguments):
    try:
        function(*arguments)
    except RuntimeError as error:  # As Gloo raises for its types.
        assert text in str(error) and isinstance(error, tributary.InvalidArgument), error
    else:
        raise AssertionError(f"not refused: {text}")


def types_that_differ_are_refused_at_the_call():
    for own, other in ((torch.bfloat16, torch.float32), (torch.float32, torch.int32), (torch.int64, torch.float64)):
        text = f"an output of type {other} is not allowed; allowed: {own}, as the input has"
        short, long = torch.ones(2, dtype=own), torch.ones(2 * world, dtype=own)
        refused(text, dist.all_gather_into_tensor, long.to(other), short)
        refused(text, dist.reduce_scatter_tensor, short.to(other), long)


def lengths_that_do_not_fit_are_refused_at_the_call():
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        three, parts = torch.ones(3, dtype=dtype), [torch.ones(3, dtype=dtype) for _ in range(world)]
        for length in (2, 4):
            output = torch.zeros(length, dtype=dtype)
            part = f"an output of {length} elements is not allowed; allowed: 3, as part {rank} of the input has"
            refused(part, dist.reduce_scatter, output, parts)
            given = f"an input of 3 elements is not allowed; allowed: {world * length}, {world} times the output's"
            refused(given, dist.reduce_scatter_tensor, output, three)
            gathered = f"an output of {length} elements is not allowed; allowed: {world * 3}, {world} times the input's"
            refused(gathered, dist.all_gather_into_tensor, output, three)
            listed = f"output {world - 1} of {length} elements is not allowed; allowed: 3, as the input has"
            refused(listed, dist.all_gather, [*parts[1:], output], three)
        counted = f"of {world - 1} tensors is not allowed; allowed: {world}, one for each rank"
        refused(f"an input {counted}", dist.reduce_scatter, three, parts[1:])
        refused(f"an output {counted}", dist.all_gather, parts[1:], three)
    dist.reduce_scatter_tensor(torch.zeros(0), torch.zeros(0))


def futures_and_works():
    own = torch.zeros(2)
    work = dist.reduce_scatter_tensor(own, torch.ones(2 * world), async_op=True)
    assert work.get_future().wait()[0] is not None and own.tolist() == [world] * 2
    gathered = [torch.zeros(1) for _ in range(world)]
    work = dist.all_gather(gathered, torch.tensor([float(rank)]), async_op=True)
    work.wait()
    assert [tensor.item() for tensor in gathered] == list(range(world))


def evaluation_in_inference_mode():
    with torch.inference_mode():
        metric = torch.tensor([1.0 + rank])
        dist.all_reduce(metric)
        copy = metric.clone()
        dist.broadcast(copy, src=1)
        dist.barrier()
    assert metric.item() == copy.item() == world * (world + 1) / 2


def zero_redundancy():
    from torch.distributed.optim import ZeroRedundancyOptimizer
    from torch.nn.parallel import DistributedDataParallel

    ends = []
    for sharded in (False, True):
        torch.manual_seed(1)
        ddp = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.Linear(30, 3)))
        optimizer = (ZeroRedundancyOptimizer(ddp.parameters(), torch.optim.Adam, lr=0.01) if sharded
                     else torch.optim.Adam(ddp.parameters(), lr=0.01))
        for step in range(5):
            optimizer.zero_grad()
            ddp(torch.full((4, 20), float(step + rank))).square().sum().backward()
            optimizer.step()
        ends.append(torch.cat([parameter.detach().flatten() for parameter in ddp.parameters()]))
    assert torch.equal(*ends)


dist.init_process_group("tributary")
import tributary.torch  # noqa: E402

rank, world = dist.get_rank(), dist.get_world_size()
mitigated = tributary.torch.active_group().mitigated()
for check in (bytes_arrive_as_they_are, a_part_of_the_output_may_be_the_input,
              sums_are_kept_by_their_owners, parts_of_one_tensor, types_that_differ_are_refused_at_the_call,
              lengths_that_do_not_fit_are_refused_at_the_call, futures_and_works, evaluation_in_inference_mode,
              zero_redundancy):
    check()
dist.barrier()
dist.destroy_process_group()
print("all well")
