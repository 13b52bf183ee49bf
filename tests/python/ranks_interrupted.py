# SPDX-License-Identifier: Apache-2.0
# A signal comes while rank 1's backward pass waits for rank 0. The script sees it as the interpreter would show it,
# and goes on. torch_test.py starts it.
import os
import signal
import sys
import threading

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

signal.signal(signal.SIGINT, signal.default_int_handler)  # A shell's background jobs ignore it.
dist.init_process_group("tributary")
rank = dist.get_rank()
store = dist.distributed_c10d._get_default_store()


class Preempted(Exception):
    pass


def preempt(number, frame):
    raise Preempted


signal.signal(signal.SIGTERM, preempt)
ddp = DistributedDataParallel(nn.Linear(10, 10))


def interrupt(number):
    os.kill(os.getpid(), number)
    store.set(f"interrupted by {number}", "yes")


def step(number=None):
    """Steps once. Returns the name of the exception that leaves the backward pass."""
    ddp.zero_grad()
    loss = ddp(torch.full((4, 10), rank + 1.0)).sum()
    hooks = []
    if number is not None and rank == 1:
        # When the gradient of the weight is complete, the pass has little left but to wait for the sum.
        sender = threading.Thread(target=interrupt, args=(number,))
        hooks = [ddp.module.weight.register_hook(lambda _: sender.start())]
    if number is not None and rank == 0:
        store.wait([f"interrupted by {number}"])
    try:
        loss.backward()
    except BaseException as error:
        return type(error).__name__
    finally:
        for hook in hooks:
            hook.remove()
    return ""


def step_is_whole():
    # The mean of the ranks' gradients: 4 rows of 1, and of 2.
    return torch.equal(ddp.module.weight.grad, torch.full((10, 10), 6.0))


for number, expected in ((signal.SIGINT, "KeyboardInterrupt"), (signal.SIGTERM, "Preempted")):
    raised = step(number)
    if raised != (expected if rank == 1 else "") or not step_is_whole():
        sys.exit(f"rank {rank}: {number!r} raised {raised!r}; gradient {ddp.module.weight.grad}")
    if step() != "" or not step_is_whole():
        sys.exit(f"rank {rank}: the step after {number!r} failed")
dist.barrier()
print("all well")
