# SPDX-License-Identifier: Apache-2.0
# Ranks whose calls differ, and that try again with equal ones: lists that one rank alone has wrong, and an
# all-reduce, a reduce and a reduce_scatter of other lengths or roots. torch_test.py starts it. Prints "all well" at the end.
import torch
import torch.distributed as dist

dist.init_process_group("tributary")
import tributary  # noqa: E402
import tributary.torch  # noqa: E402

rank, world = dist.get_rank(), dist.get_world_size()
ODD = 1  # The rank with the wrong calls.


def refused_here(function):
    """The odd rank's call is refused before anything is sent. The same group is usable."""
    if rank == ODD:
        try:
            function()
        except tributary.InvalidArgument:
            return
        raise AssertionError("not refused")


def sums_are_right():
    own = torch.zeros(2)
    dist.reduce_scatter(own, [torch.full((2,), float(part)) for part in range(world)])
    assert own.tolist() == [world * rank] * 2
    tensor = torch.full((5,), rank + 1.0)
    dist.all_reduce(tensor)
    assert tensor.tolist() == [world * (world + 1) / 2] * 5


def differ(function):
    """Every rank raises an error that says what to do, also when it tries again; rejoin() helps."""
    errors = []
    for _ in range(2):
        try:
            function()
        except tributary.TributaryError as error:
            errors.append(error)
    assert len(errors) == 2, errors
    assert all(isinstance(error, tributary.Mismatch) for error in errors), errors
    assert "rejoin()" in str(errors[0]) and "rejoin()" in str(errors[1]), errors
    tributary.torch.rejoin()
    sums_are_right()


sums_are_right()
refused_here(lambda: dist.reduce_scatter(torch.zeros(2), [torch.zeros(2)] * (world - 1)))
sums_are_right()
refused_here(lambda: dist.all_reduce(torch.zeros(1).expand(3)))
sums_are_right()
odd = rank == ODD
differ(lambda: dist.all_reduce(torch.zeros(4 if odd else 5)))
differ(lambda: dist.reduce(torch.zeros(5), dst=2 if odd else 0))
differ(lambda: dist.reduce_scatter(torch.zeros(3 if odd else 2), [torch.zeros(3 if odd else 2)] * world))
print("all well")
dist.barrier()
dist.destroy_process_group()
