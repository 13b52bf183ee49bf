# SPDX-License-Identifier: Apache-2.0
# Ranks that a script starts itself with torch.multiprocessing. Rank 1 forks a process that ends with a status of its
# own, and raises an exception in a later step. torch_test.py starts it with a start method.
import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing
import tributary.torch  # noqa: F401
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STATUS = 7


def train(rank, world, meeting):
    dist.init_process_group("tributary", init_method=meeting, rank=rank, world_size=world)
    ddp = DistributedDataParallel(nn.Linear(10, 10))
    for step in range(10):
        if step == 2 and rank == 1:
            child = os.fork()
            if child == 0:
                sys.exit(STATUS)
            if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != STATUS:
                raise ValueError("a forked process has lost its exit status")
        if step == 3 and rank == 1:
            raise ValueError("this rank is at fault")
        ddp(torch.ones(4, 10)).sum().backward()


if __name__ == "__main__":
    torch.multiprocessing.start_processes(train, (2, sys.argv[2]), 2, start_method=sys.argv[1])
