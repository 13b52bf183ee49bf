# SPDX-License-Identifier: Apache-2.0
# Two ranks, the last of which is silent until the aggregator stops waiting for it. torch_test.py
# starts this with straggler mitigation. Keys in the store tell the ranks when to continue.
import warnings

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


with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
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
    texts = [str(warning.message) for warning in caught]

assert group.communicator.permanent_stragglers() == []
if rank == 0:
    assert any("rank 1 is a permanent straggler" in text for text in texts), texts
    assert any("rank 1 contributes" in text for text in texts), texts
    assert tributary.torch.summary()["permanent_stragglers"] == {"1": 1}
dist.destroy_process_group()
print("all well")
