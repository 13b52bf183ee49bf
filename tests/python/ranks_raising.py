# SPDX-License-Identifier: Apache-2.0
# A training in which rank 1 raises an exception of its own. It ends only when the others have ended, which
# fail because of it. An argument is the number of steps, by default 10. torch_test.py starts it.
import atexit
import os
import select
import sys

others = []


@atexit.register  # Before torch is imported, so it is called after the back end has left the job.
def wait_for_the_others():
    for process in others:
        select.select([process], [], [])


import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

dist.init_process_group("tributary")
rank = dist.get_rank()
processes = [None] * dist.get_world_size()
dist.all_gather_object(processes, os.getpid())
ddp = DistributedDataParallel(nn.Linear(10, 10))
for step in range(int(sys.argv[1]) if len(sys.argv) > 1 else 10):
    if step == 3 and rank == 1:
        others += [os.pidfd_open(process) for process in processes if process != os.getpid()]
        raise ValueError("this rank is at fault")
    ddp(torch.ones(4, 10)).sum().backward()
