# SPDX-License-Identifier: Apache-2.0
# Two ranks. A communication hook waits for a callback that waits for the hook. Then rank 1 takes no part in operations
# that go to Gloo. torch_test.py starts them with a short deadline. They print "all well" when all have failed in time.
import time
import weakref

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("tributary")
import tributary.torch  # noqa: E402



def hook(_, bucket):
    first = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
    second = first.then(lambda done: (dist.all_reduce(torch.ones(3)), done.value()[0])[1])
    second.wait()
    return second


ddp = DistributedDataParallel(nn.Linear(6, 3))
ddp.register_comm_hook(None, hook)
try:
    ddp(torch.ones(4, 6)).sum().backward()
    raise AssertionError("the callback cannot have started its all-reduce")
except RuntimeError as error:
    assert "return that future from the hook instead" in str(error), error
del ddp

other_group = dist.new_group([0, 1])
store = dist.distributed_c10d._get_default_store()
if dist.get_rank() == 0:
    began = time.monotonic()
    for group in (None, other_group):
        try:
            dist.all_reduce(torch.zeros(1, dtype=torch.float64), group=group)
            raise AssertionError("rank 1 cannot have taken part")
        except RuntimeError as error:
            print("Gloo says:", error)
    assert time.monotonic() - began < 30
    store.set("done", "yes")
else:
    store.get("done")
# A destructor of Gloo can hang: keep_until_exit().
inner = weakref.ref(tributary.torch.active_group().inner)
if hasattr(other_group, "_get_backend"):  # From torch 2 on, a group holds a back end.
    other_group = other_group._get_backend(torch.device("cpu"))
other = weakref.ref(other_group)
del other_group
tributary.torch.set_active(None)
dist.destroy_process_group()
assert inner() is not None and other() is not None
print("all well")
