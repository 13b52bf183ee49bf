# SPDX-License-Identifier: Apache-2.0
# Two ranks, the last of which is silent until the aggregator stops waiting for it. torch_test.py
# starts this with straggler mitigation. Keys in the store tell the ranks when to continue.
import logging

import torch
import torch.distributed as dist

dist.init_process_group("tributary")
import tributary.torch  # noqa: E402

rank = dist.get_rank()
store = dist.distributed_c10d._get_default_store()
group = tributary.torch.active_group()


def mean():
    """Averages a tensor over the ranks, or over those that are not late."""
    dist.all_reduce(torch.ones(5), op=dist.ReduceOp.AVG)


lines = []
handler = logging.Handler()
handler.emit = lambda record: lines.append(record.getMessage())
logging.getLogger("tributary").addHandler(handler)
if rank == 0:
    rounds = 0
    while group.communicator.permanent_stragglers() != [1]:
        mean()
        rounds += 1
    store.set("rounds", str(rounds))
else:
    store.wait(["rounds"])
    for _ in range(int(store.get("rounds"))):
        mean()
dist.all_reduce(torch.ones(3).int())  # Waits for both ranks.
for _ in range(20):
    mean()

assert group.communicator.permanent_stragglers() == []
if rank == 0:
    # One line for the spell.
    assert lines.count("straggler: blocks do not wait for rank 1") == 1, lines
    assert tributary.torch.summary()["permanent_stragglers"] == {"1": 1}
dist.destroy_process_group()
print("all well")
