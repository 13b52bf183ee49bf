# SPDX-License-Identifier: Apache-2.0
# A training in which a process is killed: argument "rank" kills the last rank, "aggregator" the
# process TEST_VICTIM. Prints the errors of the others. A second argument is the number of steps.
# torch_test.py starts it.
import os
import signal
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

KILL_AT_STEP = 3

dist.init_process_group("tributary")
import tributary.torch  # noqa: E402

rank, world = dist.get_rank(), dist.get_world_size()
ddp = DistributedDataParallel(nn.Linear(100, 100))
try:
    for step in range(int(sys.argv[2]) if len(sys.argv) > 2 else 1000):
        if step == KILL_AT_STEP and sys.argv[1] == "rank" and rank == world - 1:
            os.kill(os.getpid(), signal.SIGKILL)
        if step == KILL_AT_STEP and sys.argv[1] == "aggregator" and rank == 0:
            os.kill(int(os.environ["TEST_VICTIM"]), signal.SIGKILL)
        ddp(torch.ones(4, 100)).sum().backward()
    print("nobody noticed")
except RuntimeError as error:
    last = tributary.torch.last_error()
    print(f"saw {type(last).__name__}: {last} | same text in DDP's: {str(last) in str(error)}")
