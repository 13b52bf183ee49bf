# SPDX-License-Identifier: Apache-2.0
# Two ranks train. The last one pauses while the other does two steps, and then takes both from it.
# torch_test.py starts this with straggler mitigation. Keys in the store tell the ranks when to
# continue, so nothing sleeps.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("tributary")
import tributary.torch  # noqa: E402

STEPS = 9
AHEAD = (5, 6)  # Steps that rank 0 does alone.

rank = dist.get_rank()
store = dist.distributed_c10d._get_default_store()
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(6, 300), torch.nn.ReLU(), torch.nn.Linear(300, 2))
# Small buckets, so that a step has several.
ddp = DistributedDataParallel(model, bucket_cap_mb=0.002)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
catch_up = tributary.torch.CatchUp(ddp)
inputs = torch.randn(STEPS, 4, 6, generator=torch.Generator().manual_seed(rank))

assert not catch_up.behind()
for step in range(STEPS):
    if step == AHEAD[0] and rank == 1:
        store.wait(["rank 0 is ahead"])
    optimizer.zero_grad()
    taken = catch_up.take_gradients()
    # In other steps a slow machine may make either rank late.
    assert taken or rank == 0 or step not in AHEAD, f"rank {rank}, step {step}"
    if not taken:
        ddp(inputs[step]).square().sum().backward()
    optimizer.step()
    if step == AHEAD[1] and rank == 0:
        store.set("rank 0 is ahead", "1")
        store.wait(["rank 1 has caught up"])
    if step == AHEAD[1] and rank == 1:
        store.set("rank 1 has caught up", "1")

assert rank == 0 or catch_up.steps_taken >= len(AHEAD)
digests = [None, None]
dist.all_gather_object(digests, [parameter.sum().item() for parameter in model.parameters()])
assert digests[0] == digests[1], digests
dist.barrier()
tributary.torch.rejoin()
assert not catch_up.behind()  # The new session has no step to compare with yet.
dist.barrier()
dist.destroy_process_group()
print("all well")
