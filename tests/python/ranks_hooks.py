# SPDX-License-Identifier: Apache-2.0
# Two ranks whose communication hooks start further all-reduces in callbacks of futures, as PowerSGD
# does. torch_test.py starts them. Prints "all well" at the end.
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power
from torch.nn.parallel import DistributedDataParallel

STEPS = 6
FIRST_COMPRESSED = 2


def train(group, rank_of_approximation, bucket_mb):
    """Returns the parameters after STEPS steps with PowerSGD in `group`; None is Tributary's."""
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(40, 60), nn.ReLU(), nn.Linear(60, 50), nn.ReLU(), nn.Linear(50, 8))
    ddp = DistributedDataParallel(model, process_group=group, bucket_cap_mb=bucket_mb)
    if rank_of_approximation:
        state = power.PowerSGDState(group, rank_of_approximation, FIRST_COMPRESSED, 0.01)
        ddp.register_comm_hook(state, power.powerSGD_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    torch.manual_seed(100 + rank)
    for _ in range(STEPS):
        optimizer.zero_grad()
        nn.functional.mse_loss(ddp(torch.randn(16, 40)), torch.randn(16, 8)).backward()
        optimizer.step()
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def as_with_gloo():
    # One bucket: Gloo would match the callbacks' all-reduces of several buckets by chance.
    dist._DEFAULT_FIRST_BUCKET_BYTES = 1 << 20
    ours, gloos = train(None, 2, 25), train(gloo, 2, 25)
    assert torch.allclose(ours, gloos, rtol=1e-4, atol=1e-6), (ours - gloos).abs().max()


def in_the_same_order_on_all_ranks():
    dist._DEFAULT_FIRST_BUCKET_BYTES = 1000  # Each layer has a bucket.
    # An approximation of full rank changes nothing, so a mixed-up bucket would show.
    exact, compressed = train(gloo, 0, 25), train(None, 60, 0.005)
    assert torch.allclose(compressed, exact, rtol=1e-3, atol=1e-5), (compressed - exact).abs().max()


def callbacks_that_wait_in_turn():
    def add_again(future):
        inner = dist.all_reduce(future.value()[0].clone(), async_op=True).get_future()
        return inner.then(lambda done: 10 * done.value()[0]).wait()

    future = dist.all_reduce(torch.ones(2), async_op=True).get_future().then(add_again)
    assert future.wait().tolist() == [40, 40]


class Raises(torch.autograd.Function):
    """The identity, whose gradient cannot be computed if `raises` is true."""

    @staticmethod
    def forward(context, tensor, raises):
        context.raises = raises
        return tensor.clone()

    @staticmethod
    def backward(context, gradient):
        if context.raises:
            raise ValueError("no gradient")
        return gradient, None


def a_backward_pass_that_fails_holds_no_callback():
    sums = []

    def hook(_, bucket):
        future = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
        sums.append(future.then(lambda done: dist.all_reduce(done.value()[0].clone())))
        return future.then(lambda done: done.value()[0])

    first, last = nn.Linear(3, 300), nn.Linear(300, 3)
    ddp = DistributedDataParallel(nn.ModuleList([first, last]), bucket_cap_mb=0.001)
    ddp.register_comm_hook(None, hook)
    ddp.module.forward = lambda raises: last(Raises.apply(first(torch.ones(1, 3)), raises))
    ddp(False).sum().backward()  # DDP makes several buckets only after its first pass.
    sums.clear()
    try:
        ddp(True).sum().backward()
        raise AssertionError("the pass did not fail")
    except ValueError:
        pass
    assert sums
    for future in sums:
        future.wait()


def empty_tensors():
    nothing = torch.tensor([])
    dist.all_reduce(nothing)
    assert nothing.numel() == 0


dist.init_process_group("tributary")
rank = dist.get_rank()
gloo = dist.new_group([0, 1])
for check in (empty_tensors, callbacks_that_wait_in_turn, as_with_gloo, in_the_same_order_on_all_ranks,
              a_backward_pass_that_fails_holds_no_callback):
    check()
dist.barrier()
dist.destroy_process_group()
print("all well")
