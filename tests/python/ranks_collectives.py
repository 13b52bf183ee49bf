# SPDX-License-Identifier: Apache-2.0
# Two ranks that check a group's operations. torch_test.py starts them through `tributary launch`,
# so no import of the back end is needed. Prints "all well" at the end.
import datetime
import warnings

import torch
import torch.distributed as dist
import torch.distributed.nn.functional
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def through_the_aggregator():
    return tributary.torch.summary()["all_reduces"]


def types_and_operations():
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int32):
        tensor = torch.tensor([1, 2, 3 + rank]).to(dtype)
        dist.all_reduce(tensor)
        assert tensor.tolist() == [2, 4, 7], (dtype, tensor)
    tensor = torch.tensor([1.0 + 2 * rank])
    dist.all_reduce(tensor, op=dist.ReduceOp.AVG)
    assert tensor.item() == 2
    assert through_the_aggregator() == 5


def elements_of_a_block():
    """docs/pytorch.md and docs/number-formats.md name these numbers."""
    if "TRIBUTARY_AGGREGATORS" in os.environ:  # Each of several aggregators has blocks of its own.
        return
    assert tributary.torch.active_group().communicator.info()["gradients"] == 2048
    for dtype, largest in ((torch.float32, 2048), (torch.float16, 4095)):
        for length, blocks in ((largest, 1), (largest + 1, 2)):
            before = tributary.torch.summary()["blocks"]
            dist.all_reduce(torch.ones(length, dtype=dtype))
            assert tributary.torch.summary()["blocks"] - before == blocks, (dtype, length)


def handed_to_gloo():
    before = through_the_aggregator()
    double = torch.tensor([0.5 + rank], dtype=torch.float64)
    dist.all_reduce(double)
    assert double.item() == 2
    largest = torch.tensor([float(rank)])
    dist.all_reduce(largest, op=dist.ReduceOp.MAX)
    assert largest.item() == 1
    word = [f"word of rank {rank}"]
    dist.broadcast_object_list(word, src=1)
    assert word == ["word of rank 1"]
    gathered = [torch.zeros(2) for _ in range(2)]
    dist.all_gather(gathered, torch.full((2,), float(rank)))
    assert [tensor[0].item() for tensor in gathered] == [0, 1]
    if rank == 0:
        dist.send(torch.tensor([7.0]), dst=1)
    else:
        received = torch.zeros(1)
        dist.recv(received, src=0)
        assert received.item() == 7
    dist.barrier()
    other_group = dist.new_group([0, 1])
    one = torch.ones(1)
    dist.all_reduce(one, group=other_group)
    assert one.item() == 2
    assert through_the_aggregator() == before


def lists_exchanged_among_all():
    # Rank r sends r + 1 elements to rank 0 and r + 2 to rank 1.
    for dtype in (torch.float32, torch.bfloat16, torch.bool, torch.int64):
        given = [torch.full((rank + 1 + peer,), 2 * rank + peer).to(dtype) for peer in range(2)]
        taken = [torch.zeros(sender + 1 + rank, dtype=dtype) for sender in range(2)]
        dist.all_to_all(taken, given)
        for sender, tensor in enumerate(taken):
            expected = torch.full((sender + 1 + rank,), 2 * sender + rank).to(dtype)
            assert torch.equal(tensor, expected), (dtype, tensor)


def gradients_through_all_gather():
    # The sum over both ranks of (rank + 1) times the gathered tensor: the gradient is 1 + 2.
    own = torch.ones(2, 3, requires_grad=True)
    gathered = torch.cat(torch.distributed.nn.functional.all_gather(own))
    (gathered * (rank + 1)).sum().backward()
    assert torch.equal(own.grad, torch.full((2, 3), 3.0)), own.grad


def monitored_barriers():
    dist.monitored_barrier()
    dist.monitored_barrier(timeout=datetime.timedelta(seconds=5), wait_all_ranks=True)
    dist.monitored_barrier(dist.new_group([0, 1]))
    alone = dist.new_group([0])
    dist.monitored_barrier(alone)  # Rank 1 is not a member: a warning.


def several_on_their_way():
    tensors = [torch.full((3000,), float(index + rank)) for index in range(100)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    futures = [work.get_future() for work in works[::2]]
    for index, future in zip(range(0, 100, 2), futures):
        assert future.wait()[0] is not None
        assert tensors[index][-1].item() == 2 * index + 1
    for work in reversed(works):
        assert work.wait() and work.is_completed() and work.is_success()
    assert tensors[99][0].item() == 199
    future = works[1].get_future()  # Of a work that wait() has settled.
    assert future.done() and future.value()[0] is tensors[1]


def uneven_inputs():
    """The ranks that still have inputs divide by their number."""
    for initial in (True, False):
        ddp = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1, bias=False))
        optimizer = torch.optim.SGD(ddp.parameters(), lr=1.0)
        start = next(ddp.parameters()).item()
        with ddp.join(divide_by_initial_world_size=initial):
            for _ in range(2 + rank):
                optimizer.zero_grad()
                ddp(torch.ones(1, 1)).sum().backward()
                optimizer.step()
        # Two steps of both ranks, and one of rank 1 alone.
        moved = start - next(ddp.parameters()).item()
        assert abs(moved - (2.5 if initial else 3)) < 1e-5, (initial, moved)


def sums_of_the_same_memory():
    flat = torch.ones(3000)
    works = [dist.all_reduce(part, async_op=True) for part in 5 * [flat, flat[1000:]]]
    for work in works:
        work.wait()
    assert torch.equal(flat, torch.cat([torch.full((1000,), 2.0**5), torch.full((2000,), 2.0**10)])), flat
    columns = torch.ones(40, 5).t()
    for work in [dist.all_reduce(columns, async_op=True) for _ in range(4)]:
        work.wait()
    assert torch.equal(columns, torch.full((5, 40), 2.0**4)), columns


def tensors_that_are_not_contiguous():
    square = torch.zeros(4, 4)
    square[:, 1] = torch.arange(4.0)
    dist.all_reduce(square[:, 1])
    assert square[:, 1].tolist() == [0, 2, 4, 6] and square.sum() == 12
    images = torch.arange(24.0).view(1, 2, 3, 4).to(memory_format=torch.channels_last)
    dist.all_reduce(images)
    assert images.flatten().tolist() == [2.0 * value for value in range(24)]
    dist.broadcast(square.t(), src=1)
    assert square.sum() == 12
    for handed_on in (lambda tensor: dist.all_reduce(tensor, dist.ReduceOp.MAX), lambda tensor: dist.broadcast(tensor, src=1),
                      lambda tensor: dist.reduce(tensor, dst=0, op=dist.ReduceOp.MAX)):
        values = torch.arange(8.0)
        values[::2] += 10 * rank
        handed_on(values[::2])
        assert rank == 1 or values.tolist() == [10, 1, 12, 3, 14, 5, 16, 7], values


def lists_of_tensors_that_are_not_contiguous():
    """Every second element of each tensor takes part. The others keep their values."""
    def every_second(*values):
        whole = torch.full((2 * len(values),), -1.0)
        whole[::2] = torch.tensor(values)
        return whole

    given = every_second(1.0 + 10 * rank, 2.0 + 10 * rank)
    taken = [every_second(0.0, 0.0) for _ in range(2)]
    dist.gather(given[::2], [one[::2] for one in taken] if rank == 1 else None, dst=1)
    gathered = [[1, -1, 2, -1], [11, -1, 12, -1]] if rank == 1 else 2 * [[0, -1, 0, -1]]
    assert [one.tolist() for one in taken] == gathered, taken
    own = every_second(0.0, 0.0)
    parts = [every_second(3.0, 4.0), every_second(5.0, 6.0)]
    dist.scatter(own[::2], [part[::2] for part in parts] if rank == 0 else None, src=0)
    assert own.tolist() == ([5, -1, 6, -1] if rank else [3, -1, 4, -1]), own
    dist.all_to_all_single(own[::2], given[::2])
    assert own.tolist() == ([2, -1, 12, -1] if rank else [1, -1, 11, -1]), own
    work = dist.scatter(own[::2], [part[::2] for part in parts] if rank == 0 else None, src=0, async_op=True)
    assert work.get_future().wait() is not None
    assert own.tolist() == ([5, -1, 6, -1] if rank else [3, -1, 4, -1]), own
    refused(lambda: dist.all_to_all_single(torch.zeros(1).expand(2), torch.ones(2)), "clone()")


def refused_tensors():
    """A refusal leaves nothing behind that a later call could report."""
    for call in (dist.all_reduce, lambda tensor: dist.broadcast(tensor, src=0), lambda tensor: dist.reduce(tensor, dst=0)):
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            refused(lambda: call(torch.ones(1, dtype=dtype).expand(4)), "clone()")
    for dtype in (torch.float32, torch.bfloat16):
        refused(lambda: dist.broadcast(torch.ones(4, dtype=dtype), src=2), "rank 2 is not in the group; allowed: 0 to 1")
        refused(lambda: dist.reduce(torch.ones(4, dtype=dtype), dst=7), "rank 7 is not in the group; allowed: 0 to 1")
    tensor = torch.ones(4)
    dist.all_reduce(tensor)
    assert tensor.tolist() == 4 * [2]


def refused(call, text):
    try:
        call()
        raise AssertionError(f"taken, without the text {text}")
    except tributary.InvalidArgument as error:
        assert text in str(error), error


def tensors_of_inference_mode():
    with torch.inference_mode():
        of_the_mode = [torch.arange(6.0).view(2, 3).t() + rank for _ in range(6)]
        dist.all_reduce(of_the_mode[0])
        dist.all_reduce(of_the_mode[1], async_op=True).get_future().wait()  # Written by another thread.
        dist.reduce_scatter(of_the_mode[5], of_the_mode[5:] + [torch.arange(6.0).view(2, 3).t() + rank])
    dist.all_reduce(of_the_mode[2])
    for tensor in [*of_the_mode[:3], of_the_mode[5]]:
        assert tensor.t().flatten().tolist() == [1, 3, 5, 7, 9, 11], tensor
    with torch.inference_mode():
        halves = [torch.full((6,), 1.0 + rank).to(torch.bfloat16) for _ in range(3)]
    dist.broadcast(halves[0], src=1)
    dist.all_gather(halves[1:], halves[0])
    assert all(half.tolist() == 6 * [2] for half in halves), halves


def gloo_after_a_sum_in_flight():
    """Each operation reads the sum of the tensor that the call before it writes."""
    large = 1_000_000
    for _ in range(5):
        tensor, other = torch.full((large,), 1.0 + rank), torch.empty(large)
        works = [dist.all_reduce(tensor, async_op=True),
                 dist.all_reduce(tensor, dist.ReduceOp.MAX, async_op=True)]
        for work in works:
            work.wait()
        assert tensor.eq(3).all()
        dist.all_reduce(tensor, async_op=True)
        dist.reduce_scatter(other[: large // 2], list(tensor.chunk(2)))
        assert other[: large // 2].eq(12).all()
        dist.all_reduce(tensor, async_op=True)
        dist.all_gather([other, torch.empty(large)], tensor)
        assert other.eq(12).all()


def infinities():
    tensor = torch.tensor([float("inf") if rank else 1.0, 1.0])
    with warnings.catch_warnings(record=True) as caught:
        dist.all_reduce(tensor)
        dist.all_reduce(tensor)
    assert tensor.isnan()[0]
    assert len(caught) == 1 and "TRIBUTARY_NOT_FINITE=raise" in str(caught[0].message), caught
    os.environ["TRIBUTARY_NOT_FINITE"] = "raise"
    tensor = torch.tensor([float("inf") if rank else 1.0, 1.0])
    try:
        dist.all_reduce(tensor)
        raise AssertionError("an infinity was taken")
    except tributary.NotFinite as error:
        assert "TRIBUTARY_NOT_FINITE=nan" in str(error)
        assert tributary.torch.last_error() is error
    os.environ["TRIBUTARY_NOT_FINITE"] = "zero"
    try:
        dist.all_reduce(torch.tensor([float("inf")]))
        raise AssertionError("the value was taken")
    except tributary.InvalidArgument as error:
        assert "allowed: nan" in str(error)
    del os.environ["TRIBUTARY_NOT_FINITE"]


def an_overflow_as_a_loss_scaler_expects_it():
    ddp = DistributedDataParallel(nn.Linear(2, 2))
    scales = []
    for scale in (3e38, 1.0):  # The first step of mixed precision often overflows.
        ddp.zero_grad()
        (ddp(torch.full((1, 2), 10.0 * (1 - rank))).sum() * scale).backward()
        if all(parameter.grad.isfinite().all() for parameter in ddp.parameters()):
            scales.append(scale)
    assert scales == [1.0]


def gradients_are_the_mean():
    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(30, 400), nn.ReLU(), nn.Linear(400, 4))
    x, y = torch.randn(2, 16, 30), torch.randn(2, 16, 4)  # Both ranks' halves.
    nn.functional.mse_loss(model(x.view(32, 30)), y.view(32, 4)).backward()
    expected = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    ddp = DistributedDataParallel(model, bucket_cap_mb=0.01)  # Several buckets.
    for _ in range(2):  # The second time with buckets in the order of arrival.
        model.zero_grad()
        nn.functional.mse_loss(ddp(x[rank]), y[rank]).backward()
        for parameter, gradient in zip(model.parameters(), expected):
            assert torch.allclose(parameter.grad, gradient, rtol=1e-4, atol=1e-6)


def events_of_the_profiler():
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        dist.all_reduce(torch.ones(3))
        dist.reduce(torch.ones(3), dst=0)
    counts = {event.key: event.count for event in profile.key_averages()}
    found = [counts.get(f"tributary:{name}") for name in ("all_reduce", "reduce", "wait")]
    assert found == [1, 1, 2], counts


dist.init_process_group("tributary", timeout=datetime.timedelta(seconds=20))
import os  # noqa: E402

import tributary  # noqa: E402
import tributary.torch  # noqa: E402

rank = dist.get_rank()
assert dist.get_backend() == "tributary"
assert tributary.torch.active_group().communicator.info()["world"] == 2
for check in (types_and_operations, elements_of_a_block, handed_to_gloo, lists_exchanged_among_all,
              gradients_through_all_gather, monitored_barriers, several_on_their_way, uneven_inputs,
              sums_of_the_same_memory, tensors_that_are_not_contiguous,
              lists_of_tensors_that_are_not_contiguous, refused_tensors,
              tensors_of_inference_mode, gloo_after_a_sum_in_flight, infinities,
              an_overflow_as_a_loss_scaler_expects_it, gradients_are_the_mean, events_of_the_profiler):
    check()
dist.barrier()
dist.destroy_process_group()
print("all well")
