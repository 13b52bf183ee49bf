# SPDX-License-Identifier: Apache-2.0
# Three ranks train. The argument names the rank that changes a parameter of its own before step 4. Prints
# what TRIBUTARY_CHECK_PARAMETERS=3 finds. torch_test.py starts this.
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("tributary")
import tributary  # noqa: E402
import tributary.torch  # noqa: E402

CHANGED_AT = 4
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
constant = nn.Parameter(torch.ones(3, dtype=torch.float16), requires_grad=False)
model.register_parameter("rounded", constant)
ddp = DistributedDataParallel(model)
tributary.torch.check_parameters(ddp)
found = "no difference"
try:
    for step in range(10):
        if step == CHANGED_AT and dist.get_rank() == int(sys.argv[1]):
            with torch.no_grad():
                model[2].weight[1, 3].add_(1)
        with ddp.no_sync():  # Not a step.
            ddp(torch.ones(1, 6)).sum().backward()
        ddp(torch.ones(4, 6)).sum().backward()
except tributary.ParametersDiffer as error:
    found = f"step {step}: {error}"
print(found)
dist.barrier()
dist.destroy_process_group()
