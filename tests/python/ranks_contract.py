# SPDX-License-Identifier: Apache-2.0
# Two ranks that find out which way each operation and each option of DDP goes. Rank 0 writes the answers as
# JSON to the file that the argument names. contract_test.py makes docs/pytorch.md's table of them.
import contextlib
import json
import re
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("tributary")
import tributary  # noqa: E402
import tributary.torch  # noqa: E402

rank, world = dist.get_rank(), dist.get_world_size()
group = tributary.torch.active_group()
TYPES = ("float32", "float16", "bfloat16", "int32", "float64", "int64")


class CountingGloo:
    """The inner group, with a count of its calls."""

    def __init__(self, inner):
        self.inner, self.calls = inner, 0

    def __getattr__(self, name):
        self.calls += 1
        return getattr(self.inner, name)


gloo = group.inner = CountingGloo(group.inner)


def way_of(function, steps=1):
    """Returns which way the last of several calls goes."""
    try:
        for step in range(steps):
            calls, blocks = gloo.calls, group.communicator.counters()["blocks"]
            function()
        aggregator = group.communicator.counters()["blocks"] > blocks
    except tributary.InvalidArgument:
        return "refused"
    except RuntimeError:
        return "not supported by Gloo"
    if aggregator and gloo.calls > calls:
        return "aggregator and Gloo"
    return "aggregator" if aggregator else "Gloo" if gloo.calls > calls else "neither"


def in_backward(tensor):
    leaf = torch.ones(1, requires_grad=True)
    leaf.register_hook(lambda _: dist.all_reduce(tensor))
    leaf.sum().backward()


def gathered(tensor):
    return [torch.ones_like(tensor) for _ in range(world)]


OPERATIONS = {
    "all_reduce, SUM": dist.all_reduce,
    "all_reduce, SUM, in a backward pass": in_backward,
    "all_reduce, AVG": lambda tensor: dist.all_reduce(tensor, op=dist.ReduceOp.AVG),
    "all_reduce, other operations": lambda tensor: dist.all_reduce(tensor, op=dist.ReduceOp.MAX),
    "reduce": lambda tensor: dist.reduce(tensor, 0),
    "reduce_scatter": lambda tensor: dist.reduce_scatter(torch.empty_like(tensor), gathered(tensor)),
    "broadcast": lambda tensor: dist.broadcast(tensor, 0),
    "all_gather": lambda tensor: dist.all_gather(gathered(tensor), tensor),
    "all_to_all": lambda tensor: dist.all_to_all(gathered(tensor), gathered(tensor)),
    "all_to_all_single": lambda tensor: dist.all_to_all_single(torch.empty_like(tensor), tensor),
    "gather": lambda tensor: dist.gather(tensor, gathered(tensor) if rank == 0 else None),
    "scatter": lambda tensor: dist.scatter(tensor, gathered(tensor) if rank == 0 else None),
    "send, recv": lambda tensor: dist.send(tensor, 1) if rank == 0 else dist.recv(tensor, 0),
}


def all_gather_into_tensor(tensor):
    whole = torch.empty(world * tensor.numel(), dtype=tensor.dtype)
    dist.all_gather_into_tensor(whole, tensor)


def reduce_scatter_tensor(tensor):
    dist.reduce_scatter_tensor(torch.empty(1, dtype=tensor.dtype), tensor)


OPERATIONS["all_gather_into_tensor"] = all_gather_into_tensor
OPERATIONS["reduce_scatter_tensor"] = reduce_scatter_tensor

ones = torch.ones(4, 4)
# Operations without a table of types.
CALLS = {
    "all_reduce of a tensor that is not contiguous": lambda: dist.all_reduce(ones[:, 1]),
    "all_reduce of complex64": lambda: dist.all_reduce(torch.ones(4, dtype=torch.complex64)),
    "all_reduce of a sparse tensor": lambda: dist.all_reduce(torch.ones(4).to_sparse()),
    "all_reduce_coalesced of float32": lambda: dist.all_reduce_coalesced([torch.ones(4), torch.ones(2)]),
    "isend, irecv": lambda: (dist.isend(ones, 1) if rank == 0 else dist.irecv(ones, 0)).wait(),
    "batch_isend_irecv": lambda: [work.wait() for work in dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, ones, 1) if rank == 0 else dist.P2POp(dist.irecv, ones, 0)])],
    "barrier, monitored_barrier": lambda: (dist.barrier(), dist.monitored_barrier()),
    "all_gather_object, broadcast_object_list": lambda: (
        dist.all_gather_object([None] * world, rank), dist.broadcast_object_list([rank])),
}


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.unused = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return self.used(x)


def plain():
    return nn.Linear(4, 4)


def normalised():
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))


# Model, options of DDP, and hook.
OPTIONS = {
    "DDP": (plain, {}, None),
    "gradient_as_bucket_view": (plain, {"gradient_as_bucket_view": True}, None),
    "channels_last": (lambda: nn.Sequential(nn.Unflatten(1, (1, 2, 2)), nn.Conv2d(1, 4, 1)).to(
        memory_format=torch.channels_last), {}, None),
    "buffers with broadcast_buffers=True": (normalised, {}, None),
    "buffers with broadcast_buffers=False": (normalised, {"broadcast_buffers": False}, None),
    "find_unused_parameters": (Branches, {"find_unused_parameters": True}, None),
    "static_graph": (Branches, {"static_graph": True}, None),
    "allreduce_hook": (plain, {}, default_hooks.allreduce_hook),
    "fp16_compress_hook": (plain, {}, default_hooks.fp16_compress_hook),
    "bf16_compress_hook": (plain, {}, default_hooks.bf16_compress_hook),
    "powerSGD_hook": (plain, {}, power.powerSGD_hook),
    "bfloat16 parameters": (lambda: plain().bfloat16(), {}, None),
    "float64 parameters": (lambda: plain().double(), {}, None),
    "sparse gradients": (lambda: nn.Embedding(4, 4, sparse=True), {}, None),
    "no_sync() in all but the last pass": (plain, {}, None),
    "join() for uneven inputs": (plain, {}, None),
}


def context_of(name, ddp):
    return ddp.join() if name.startswith("join()") else contextlib.nullcontext()


def wrapped(name, with_hook=True):
    make, options, hook = OPTIONS[name]
    ddp = DistributedDataParallel(make(), **options)
    if with_hook and hook:
        state = None
        if hook is power.powerSGD_hook:
            state = power.PowerSGDState(None, 1, start_powerSGD_iter=2, min_compression_rate=1)
        # DDP of torch 1.13 accepts bf16_compress_hook under its own name only with NCCL.
        ddp.register_comm_hook(state, lambda state, bucket: hook(state, bucket))
    return ddp


def train(name, ddp):
    is_sparse = isinstance(ddp.module, nn.Embedding)
    inputs = torch.ones(3, 4, dtype=torch.long if is_sparse else next(ddp.parameters()).dtype)

    def step():
        ddp.zero_grad()
        if name.startswith("no_sync"):
            with ddp.no_sync():
                ddp(inputs).sum().backward()
        ddp(inputs).sum().backward()

    return way_of(step, steps=4)


def catches_up(name):
    ddp = wrapped(name, with_hook=False)
    try:
        with context_of(name, ddp):
            tributary.torch.CatchUp(ddp, hook=OPTIONS[name][2])
    except tributary.InvalidArgument:
        return "refused"
    return "yes"


def in_branch(function):
    """Returns what becomes of a call in the branch of take_gradients()."""
    ddp = wrapped("DDP")  # Kept, because CatchUp does not keep it.
    catch_up = tributary.torch.CatchUp(ddp)
    try:
        if not catch_up.take_gradients():
            function()
    except tributary.InvalidArgument as error:
        return "refused with its line" if re.search(r"ranks_contract.py, line \d+, in the", str(error)) else "refused"
    return "not noticed"


answers = {"operations": {}, "calls": {}, "options": {}, "catch_up": {}, "in_branch": {}}
for name, function in OPERATIONS.items():
    answers["operations"][name] = {
        dtype: way_of(lambda: function(torch.ones(world, dtype=getattr(torch, dtype))))
        for dtype in TYPES
    }
for name, function in CALLS.items():
    answers["calls"][name] = way_of(function)
for name in OPTIONS:
    ddp = wrapped(name)
    with context_of(name, ddp):
        answers["options"][name] = train(name, ddp)
    answers["catch_up"][name] = catches_up(name)
group.inner = gloo.inner
if group.mitigated():  # Otherwise no rank takes gradients, and nothing is refused.
    for name, function in OPERATIONS.items():
        answers["in_branch"][name] = in_branch(lambda: function(torch.ones(world)))
    for name, function in CALLS.items():
        answers["in_branch"][name] = in_branch(function)
dist.barrier()
if rank == 0:
    with open(sys.argv[1], "w") as file:
        json.dump(answers, file)
dist.destroy_process_group()
