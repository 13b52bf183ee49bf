# SPDX-License-Identifier: Apache-2.0
# Two ranks under a default device on which nothing can be read, as torch.set_default_device() of torch 2 sets one.
# The tensors that the package makes for itself must be in host memory. torch_test.py starts this with and without
# straggler mitigation. Prints "all well" at the end.
import torch
import torch.distributed as dist
from torch import nn
from torch.overrides import TorchFunctionMode

dist.init_process_group("tributary")
import tributary.torch  # noqa: E402

FACTORIES = (torch.empty, torch.full, torch.ones, torch.tensor, torch.zeros)
HOST = torch.device("cpu")
rank, world = dist.get_rank(), dist.get_world_size()


class OnMeta(TorchFunctionMode):
    def __torch_function__(self, function, types, arguments=(), named=None):
        named = named or {}
        if function in FACTORIES:
            named.setdefault("device", "meta")
        return function(*arguments, **named)


def meetings_and_reports():
    dist.barrier()
    tributary.torch.check_parameters(nn.Linear(3, 3, device=HOST))
    assert tributary.torch.end_epoch(1)["steps_taken"] == [0, 0]
    group = tributary.torch.active_group()
    group._url = group._url.replace("tributary://", "tributary://one:1,", 1)  # A second aggregator.
    group._leave_out_lost()


def bytes_of_any_type():
    tensor = torch.full((3,), rank + 1.0, dtype=torch.bfloat16, device=HOST)
    every = [torch.zeros(3, dtype=torch.bfloat16, device=HOST) for _ in range(world)]
    dist.all_gather(every, tensor)
    assert [one[0].item() for one in every] == [1, 2], every
    dist.broadcast(tensor, 1)
    assert (tensor == 2).all(), tensor
    received = [torch.zeros(2, device=HOST) for _ in range(world)]
    dist.all_to_all(received, [torch.full((2,), float(10 * rank + other), device=HOST) for other in range(world)])
    assert [one[0].item() for one in received] == [rank, 10 + rank], received


torch.manual_seed(1)
with OnMeta():
    assert torch.zeros(1).device.type == "meta"
    meetings_and_reports()
    bytes_of_any_type()
    dist.barrier()
dist.destroy_process_group()
print("all well")
