# SPDX-License-Identifier: Apache-2.0
# A training with straggler mitigation in which rank 1 ends early, with status 7. torch_test.py starts it.
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("tributary")
ddp = DistributedDataParallel(nn.Linear(10, 10))
for step in range(6):
    if step == 3 and dist.get_rank() == 1:
        if sys.argv[1] == "sys.exit":
            sys.exit(7)
        raise SystemExit(7)
    ddp(torch.ones(4, 10)).sum().backward()
dist.barrier()
