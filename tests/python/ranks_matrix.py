# SPDX-License-Identifier: Apache-2.0
# Three ranks train small models in all pairs of DDP's options and a script's habits, the last one sleeping
# now and then: one set of combinations that Gloo allows, and one of those that CatchUp serves. The argument is
# the seed of the sets. Prints every combination whose parameters differ between ranks in any bit. Without
# mitigation it also trains with Gloo, and prints those that differ from it. matrix_test.py starts this.
import contextlib
import sys
import time
import warnings

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power
from torch.nn.parallel import DistributedDataParallel

import pairwise

dist.init_process_group("tributary")
import tributary  # noqa: E402
import tributary.torch  # noqa: E402

STEPS = 11
SLEEPS_AT = (5, 6)  # Steps, after CatchUp's rehearsal.
OVERFLOW_AT = 8  # The step with an infinite loss on rank 0, if a scaler skips it.
SLEEP_S = 0.08  # Four straggler timeouts, so that the others finish the step alone.

FACTORS = {
    "layout": ("contiguous", "channels_last", "bucket_view", "small_buckets"),
    "accumulation": ("none", "no_sync", "synchronised"),
    "unused": ("none", "on_some_ranks", "on_all_ranks"),
    "graph": ("dynamic", "find_unused", "static"),
    "buffers": ("none", "broadcast", "own"),
    "optimizer": ("sgd", "momentum", "adam"),
    "hook": ("none", "allreduce", "fp16", "bf16", "power_sgd"),
    "autocast": (False, True),
    "scaler": (False, True),
    "sleep": ("none", "forward", "backward", "step"),
    "catch_up": (False, True),
    "metric": ("none", "before", "after"),
}
HOOKS = {
    "none": None,
    "allreduce": default_hooks.allreduce_hook,
    "fp16": default_hooks.fp16_compress_hook,
    "bf16": default_hooks.bf16_compress_hook,
    "power_sgd": power.powerSGD_hook,
}
# Largest relative differences from Gloo's parameters. Gloo cannot add bfloat16 and gets none for it.
TOLERANCES = {"fp16": 0.02, "bf16": 0.02, "power_sgd": 0.02}

rank, world = dist.get_rank(), dist.get_world_size()
gloo = dist.new_group()
mitigated = tributary.torch.active_group().mitigated()
warnings.simplefilter("ignore")
torch.set_num_threads(1)


def allowed(chosen):
    """Returns True if the script runs with Gloo."""
    if chosen["hook"] == "power_sgd" and chosen["scaler"]:
        return False  # PowerSGD adds the infinite error of a step to all later ones.
    if chosen["unused"] == "on_some_ranks":
        return chosen["graph"] == "find_unused"
    if chosen["graph"] == "static" and chosen["accumulation"] != "none":
        return False  # DDP does not support it.
    return chosen["unused"] == "none" or chosen["graph"] != "dynamic"


def gloo_fails(chosen):
    """Returns True if all-reduces of callbacks meet others in an order that depends on timing.

    Gloo then adds up tensors that do not belong together, or aborts.
    """
    return chosen["hook"] == "power_sgd" and (
        chosen["graph"] == "find_unused" or chosen["layout"] == "small_buckets"
    )


def refused(chosen):
    """Returns True if CatchUp must refuse the model."""
    return (
        chosen["graph"] != "dynamic"
        or chosen["buffers"] == "broadcast"
        or chosen["hook"] == "power_sgd"
    )


class Model(nn.Module):
    def __init__(self, chosen):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3)
        self.norm = nn.BatchNorm2d(8) if chosen["buffers"] != "none" else nn.Identity()
        self.second = nn.Conv2d(8, 4, 3)
        self.branch = nn.Linear(16, 16) if chosen["unused"] != "none" else None
        self.last = nn.Linear(16, 2)

    def forward(self, x, use_branch):
        # Smooth, so that rounding changes no gradient much.
        x = self.second(self.norm(self.first(x)).tanh()).flatten(1)
        return self.last(self.branch(x) if use_branch else x)


def inputs(step, part):
    generator = torch.Generator().manual_seed(100 * step + 10 * part + rank)
    return torch.randn(2, 3, 6, 6, generator=generator)


def optimizer_of(name, model):
    if name == "adam":
        return torch.optim.Adam(model.parameters(), lr=0.01, eps=1e-3, weight_decay=0.01)
    momentum = 0.9 if name == "momentum" else 0.0
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=momentum, weight_decay=0.1)


class Scaler:
    """Scales the loss and skips steps with infinite gradients. torch 1.13's GradScaler needs CUDA.

    Scales are powers of two, so they change no bit of a gradient that neither overflows nor underflows.
    """

    def __init__(self, wanted):
        self._wanted = wanted
        self.scale = 1024.0 if wanted else 1.0
        self.skipped = 0

    def step(self, optimizer):
        if not self._wanted:
            optimizer.step()
            return
        gradients = [
            parameter.grad for group in optimizer.param_groups for parameter in group["params"]
            if parameter.grad is not None
        ]
        if all(gradient.isfinite().all() for gradient in gradients):
            for gradient in gradients:
                gradient.div_(self.scale)
            optimizer.step()
            self.scale *= 2
        else:
            self.scale /= 4
            self.skipped += 1


def bf16_hook(group, bucket):
    """DDP of torch 1.13 accepts the hook under its own name only with NCCL."""
    return default_hooks.bf16_compress_hook(group, bucket)


def register(ddp, hook):
    """Registers a hook of HOOKS."""
    state = ddp.process_group
    if hook is power.powerSGD_hook:
        # Without the epsilon, an unused layer is NaN, and here so is everything in its packets.
        state = power.PowerSGDState(
            state, matrix_approximation_rank=2, start_powerSGD_iter=2, min_compression_rate=1,
            orthogonalization_epsilon=1e-8,
        )
    if hook is default_hooks.bf16_compress_hook:
        hook = bf16_hook
    ddp.register_comm_hook(state, hook)


def wrapped(chosen, group):
    torch.manual_seed(1)
    model = Model(chosen)
    if chosen["layout"] == "channels_last":
        model = model.to(memory_format=torch.channels_last)
    return DistributedDataParallel(
        model, process_group=group,
        gradient_as_bucket_view=chosen["layout"] == "bucket_view",
        bucket_cap_mb=0.001 if chosen["layout"] == "small_buckets" else 25,
        find_unused_parameters=chosen["graph"] == "find_unused",
        static_graph=chosen["graph"] == "static",
        broadcast_buffers=chosen["buffers"] == "broadcast",
    )


def catch_up_of(chosen, ddp):
    """Returns a CatchUp, or None if it is not wanted or refuses the model."""
    hook = HOOKS[chosen["hook"]]
    if chosen["catch_up"]:
        try:
            caught = tributary.torch.CatchUp(ddp, hook=hook)
            assert not refused(chosen), "CatchUp took this model"
            return caught
        except tributary.InvalidArgument:
            assert refused(chosen), "CatchUp refused this model"
    if hook:
        register(ddp, hook)
    return None


def sum_metric(group):
    total = torch.tensor([100.0 * (rank + 1)])
    dist.all_reduce(total, group=group)
    assert total.item() == 50 * world * (world + 1), f"a metric lacks a rank: {total.item()}"


def sleep(chosen, step, place):
    if step in SLEEPS_AT and rank == world - 1 and chosen["sleep"] == place:
        time.sleep(SLEEP_S)


def train(chosen, group):
    """Returns all parameters in one tensor, and the number of steps that the scaler skipped."""
    ddp = wrapped(chosen, group)
    catch_up = catch_up_of(chosen, ddp) if group is None else None
    if group is not None and HOOKS[chosen["hook"]] and chosen["hook"] != "bf16":
        register(ddp, HOOKS[chosen["hook"]])
    scaler = Scaler(chosen["scaler"])
    optimizer = optimizer_of(chosen["optimizer"], ddp)
    parts = 1 if chosen["accumulation"] == "none" else 2
    for step in range(STEPS):
        optimizer.zero_grad(set_to_none=step % 2 == 0)
        if chosen["metric"] == "before":
            sum_metric(group)
        for part in range(parts):
            skips = chosen["accumulation"] == "no_sync" and part + 1 < parts
            with ddp.no_sync() if skips else contextlib.nullcontext():
                sleep(chosen, step, "forward")
                if catch_up and catch_up.take_gradients():
                    continue
                backward(chosen, ddp, step, part, scaler.scale)
        if chosen["metric"] == "after":
            sum_metric(group)
        sleep(chosen, step, "step")
        scaler.step(optimizer)
    flat = torch.cat([parameter.detach().reshape(-1) for parameter in ddp.parameters()])
    return flat, scaler.skipped


def backward(chosen, ddp, step, part, scale):
    # Only the late rank uses the branch, and only when it is late.
    use_branch = chosen["unused"] == "on_some_ranks" and rank == world - 1 and step in SLEEPS_AT
    with torch.autocast("cpu", torch.bfloat16, enabled=chosen["autocast"]):
        loss = ddp(inputs(step, part), use_branch).square().mean()
    sleep(chosen, step, "backward")
    if chosen["scaler"] and step == OVERFLOW_AT and rank == 0:
        loss = loss * float("inf")
    (scale * loss).backward()


def differences(chosen):
    """Yields what is wrong with a combination."""
    mine, skipped = train(chosen, None)
    every = [torch.empty_like(mine) for _ in range(world)]
    dist.all_gather(every, mine)
    if not all(torch.equal(mine.view(torch.int32), other.view(torch.int32)) for other in every):
        yield "differs between ranks"
    assert mine.isfinite().all()
    if not mitigated:
        if skipped != int(chosen["scaler"]):  # With mitigation rank 0 may be late.
            yield f"skips {skipped} steps"
        if gloo_fails(chosen):
            return
        expected, _ = train(chosen, gloo)
        error = ((mine - expected).norm() / expected.norm()).item()
        if error > (0.02 if chosen["autocast"] else TOLERANCES.get(chosen["hook"], 1e-5)):
            yield f"differs from Gloo by {error:.1e}"


seed = int(sys.argv[1])
plan = pairwise.combinations(FACTORS, allowed, seed)
plan += pairwise.combinations(
    {**FACTORS, "catch_up": (True,)}, lambda chosen: allowed(chosen) and not refused(chosen), seed
)
for chosen in plan:
    try:
        for text in differences(chosen):
            print(f"{text}: {chosen}", flush=True)
    except (AssertionError, RuntimeError) as error:
        print(f"failed: {chosen}: {error}", flush=True)
        raise
if rank in (0, world - 1):
    print(f"{len(plan)} combinations", tributary.torch.summary(), flush=True)
dist.barrier()
dist.destroy_process_group()
