# SPDX-License-Identifier: Apache-2.0
# Three ranks train, and the last one pauses until the others are ahead. The arguments name scenarios.
# Prints each name and either "identical", "differ", or the text of the refusal. Keys in the store tell the
# ranks when to continue. late_test.py starts this with straggler mitigation.
import contextlib
import gc
import sys
import time
import weakref
from unittest import mock

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import all_reduce
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("tributary")
import tributary  # noqa: E402
import tributary.torch  # noqa: E402

PAUSE_AT = 5  # The last rank pauses before this step.
AHEAD = 2  # The others do one step more than this alone.
STEPS = 14

rank, world = dist.get_rank(), dist.get_world_size()
late = rank == world - 1


def pause(step, others_wait=False):
    """Blocks the last rank until the others are ahead, or only until a sum lacks it."""
    if step == PAUSE_AT and late:
        store.wait(["a sum lacks the last rank" if others_wait else "the others are ahead"])


def report_progress(step):
    if step == PAUSE_AT + AHEAD and rank == 0:
        store.set("the others are ahead", "1")


def report_degraded(happened):
    """Tells the last rank that a sum lacks it. Another rank may be late too, on a loaded machine."""
    if rank == 0 and world - 1 in happened.missing:
        store.set("a sum lacks the last rank", "1")


class Branches(nn.Module):
    """Has an optional branch, and a parameter that no rank ever uses if `with_unused`."""

    def __init__(self, with_unused=False):
        super().__init__()
        self.first, self.branch, self.last = nn.Linear(6, 16), nn.Linear(16, 16), nn.Linear(16, 2)
        if with_unused:
            self.unused = nn.Linear(5, 5)

    def forward(self, x, use_branch=True):
        hidden = self.first(x).relu()
        return self.last(self.branch(hidden) if use_branch else hidden)


def plain_model():
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))


def convolutions():
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3), nn.Flatten())
    return model.to(memory_format=torch.channels_last)


def with_buffers():
    return nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.Linear(16, 2))


def images(step):
    generator = torch.Generator().manual_seed(10 * step + rank)
    return torch.randn(2, 3, 6, 6, generator=generator).to(memory_format=torch.channels_last)


def rows(step):
    return torch.randn(4, 6, generator=torch.Generator().manual_seed(10 * step + rank))


def train(model, inputs=rows, catches_up=True, **options):
    """Follows the documented loop."""
    ddp = DistributedDataParallel(model, **options)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1)
    catch_up = tributary.torch.CatchUp(ddp) if catches_up else None
    for step in range(STEPS):
        pause(step)
        optimizer.zero_grad()
        if not (catch_up and catch_up.take_gradients()):
            ddp(inputs(step)).square().mean().backward()
        optimizer.step()
        report_progress(step)
    assert not late or not catch_up or catch_up.steps_taken > 0
    freed = weakref.ref(ddp)
    del ddp, catch_up
    gc.collect()
    assert freed() is None, "something keeps the DDP and its buckets"
    return model


def channels_last():
    return train(convolutions(), images)


def buffers():
    return train(with_buffers())


def own_buffers():
    return train(with_buffers(), broadcast_buffers=False)


def static_graph():
    return train(Branches(with_unused=True), static_graph=True)


def steps(ddp, one_step, count=STEPS):
    """Follows the documented loop, with a step of the test's own."""
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    for step in range(count):
        pause(step)
        optimizer.zero_grad()
        one_step(step)
        optimizer.step()
        report_progress(step)
    return ddp.module


def backward(ddp, number):
    ddp(rows(number)).square().mean().backward()


def accumulation(call_inside):
    """Two batches for a step of the optimizer, the first without synchronisation."""
    ddp = DistributedDataParallel(plain_model())
    catch_up = tributary.torch.CatchUp(ddp)

    def one_step(step):
        for part in range(2):
            with ddp.no_sync() if part == 0 else contextlib.nullcontext():
                if call_inside and not catch_up.take_gradients():
                    backward(ddp, 2 * step + part)
            if not call_inside and not catch_up.take_gradients():
                with ddp.no_sync() if part == 0 else contextlib.nullcontext():
                    backward(ddp, 2 * step + part)

    return steps(ddp, one_step)


def accumulation_inside():
    return accumulation(call_inside=True)


def accumulation_literally():
    return accumulation(call_inside=False)


def accumulation_synchronised():
    """Two batches for a step of the optimizer, both synchronised."""
    ddp = DistributedDataParallel(plain_model())
    catch_up = tributary.torch.CatchUp(ddp)

    def one_step(step):
        for part in range(2):
            if not catch_up.take_gradients():
                backward(ddp, 2 * step + part)

    return steps(ddp, one_step)


def accumulation_at_the_end():
    """Two batches for a step of the optimizer. Only the second backward pass can be skipped."""
    ddp = DistributedDataParallel(plain_model())
    catch_up = tributary.torch.CatchUp(ddp)

    def one_step(step):
        with ddp.no_sync():
            backward(ddp, 2 * step)
        if not catch_up.take_gradients():
            backward(ddp, 2 * step + 1)

    return steps(ddp, one_step)


def two_backward_passes():
    ddp = DistributedDataParallel(plain_model())
    catch_up = tributary.torch.CatchUp(ddp)

    def one_step(step):
        if not catch_up.take_gradients():
            for part in range(2):
                backward(ddp, 2 * step + part)

    return steps(ddp, one_step)


def two_forward_passes():
    """A step with two forward passes and one backward pass, as of a siamese model."""
    ddp = DistributedDataParallel(plain_model())
    catch_up = tributary.torch.CatchUp(ddp)

    def one_step(step):
        if not catch_up.take_gradients():
            (ddp(rows(step)).square().mean() + ddp(2 * rows(step)).square().mean()).backward()

    model = steps(ddp, one_step)
    assert not late or catch_up.steps_taken > 0
    return model


def half_precision_hook():
    ddp = DistributedDataParallel(plain_model())
    catch_up = tributary.torch.CatchUp(ddp, hook=default_hooks.fp16_compress_hook)
    model = steps(ddp, lambda step: catch_up.take_gradients() or backward(ddp, step))
    assert not late or catch_up.steps_taken > 0
    return model


def loading():
    """A step takes the late rank as long as the others. It must not follow them forever."""
    ddp = DistributedDataParallel(plain_model())
    catch_up = tributary.torch.CatchUp(ddp)

    def one_step(step):
        time.sleep(0.002)
        if not catch_up.take_gradients():
            backward(ddp, step)

    model = steps(ddp, one_step, 20 * STEPS)
    assert not late or tributary.torch.summary()["rejoined"] > 0
    return model


def slow_steps():
    """A step takes five straggler timeouts. In the rehearsal, the zeros of the last rank must not age out alone."""
    with mock.patch.object(dist, "_DEFAULT_FIRST_BUCKET_BYTES", 100):  # Several buckets.
        ddp = DistributedDataParallel(plain_model(), bucket_cap_mb=0.0001)
    catch_up = tributary.torch.CatchUp(ddp)

    def one_step(step):
        if not catch_up.take_gradients():
            if step < PAUSE_AT:
                time.sleep(0.1)
            backward(ddp, step)
        norms = [parameter.grad.norm().item() for parameter in ddp.parameters()]
        assert all(norm > 0 for norm in norms), (step, norms)

    return steps(ddp, one_step)


def own_hook():
    ddp = DistributedDataParallel(plain_model())
    ddp.register_comm_hook(None, default_hooks.fp16_compress_hook)
    tributary.torch.CatchUp(ddp)


def double_precision():
    tributary.torch.CatchUp(DistributedDataParallel(plain_model().double()))


def ignored_answer():
    """The late rank computes although it has taken the gradients, which ends the training."""
    ddp = DistributedDataParallel(plain_model())
    catch_up = tributary.torch.CatchUp(ddp)
    for step in range(STEPS):
        pause(step)
        catch_up.take_gradients()
        ddp(rows(step)).square().mean().backward()
        report_progress(step)
    return ddp


def unused_with_catch_up():
    return train(Branches(), find_unused_parameters=True)


def unused():
    """Only the late rank uses the branch, and only when it is late."""
    model = Branches()
    ddp = DistributedDataParallel(model, find_unused_parameters=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.1)
    tributary.torch.on_degraded(report_degraded)
    for step in range(STEPS):
        pause(step, others_wait=True)
        optimizer.zero_grad()
        ddp(rows(step), use_branch=late and step == PAUSE_AT).square().mean().backward()
        optimizer.step()
    return model


def metric(place, every=1, op=dist.ReduceOp.SUM, group=None):
    """An all-reduce of a metric: before or inside the branch, at its end, or after it, in each step or in some."""
    model = plain_model()
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    catch_up = tributary.torch.CatchUp(ddp)

    def add():
        total = torch.tensor([100.0 * (rank + 1)])
        dist.all_reduce(total, op=op, group=group)
        assert op != dist.ReduceOp.SUM or total.item() == 600, total

    tributary.torch.on_degraded(report_degraded)
    for step in range(STEPS):
        if place != "before":
            pause(step, others_wait=True)
        optimizer.zero_grad()
        if place == "before":
            add()
            pause(step, others_wait=True)
        if not catch_up.take_gradients():
            loss = ddp(rows(step)).square().mean()
            if place == "inside":
                add()
            loss.backward()
            if place == "end" and step % every == every - 1:
                add()
        if place == "after" and step % every == 0:
            add()
        optimizer.step()
    return model


def metric_before():
    return metric("before")


def metric_inside():
    return metric("inside")


def metric_after():
    return metric("after")


def metric_in_every_second_step():
    return metric("after", every=2)


def metric_at_the_end():
    return metric("end")


def mean_at_the_end():
    return metric("end", op=dist.ReduceOp.AVG)


def metric_in_some_steps():
    return metric("end", every=3)


def metric_of_another_group():
    return metric("end", every=3, group=dist.new_group())


def imported_by_name():
    """A collective in some steps, which the rehearsal does not see."""
    ddp = DistributedDataParallel(plain_model())
    catch_up = tributary.torch.CatchUp(ddp)

    def one_step(step):
        if not catch_up.take_gradients():
            backward(ddp, step)
            if step % 3 == 2:
                all_reduce(torch.ones(3))

    return steps(ddp, one_step)


def hidden_metric(at_the_end):
    """A branch that the source does not show as one."""
    ddp = DistributedDataParallel(plain_model())
    catch_up = tributary.torch.CatchUp(ddp)

    def compute(step):
        if not at_the_end:
            dist.all_reduce(torch.ones(3))
        backward(ddp, step)
        if at_the_end:
            dist.all_reduce(torch.ones(3))

    return steps(ddp, lambda step: catch_up.take_gradients() or compute(step))


def hidden_metric_inside():
    return hidden_metric(at_the_end=False)


def hidden_metric_at_the_end():
    return hidden_metric(at_the_end=True)


def two_models():
    """A branch with the backward passes of two models."""
    ddp, other = DistributedDataParallel(plain_model()), DistributedDataParallel(plain_model())
    catch_up = tributary.torch.CatchUp(ddp)

    def one_step(step):
        if not catch_up.take_gradients():
            backward(ddp, step)
            backward(other, step)

    return steps(ddp, one_step)


def optimizer_inside():
    """A rank that takes the gradients does not use them."""
    ddp = DistributedDataParallel(plain_model())
    catch_up = tributary.torch.CatchUp(ddp)
    own = torch.optim.SGD(ddp.parameters(), lr=0.1)

    def one_step(step):
        if not catch_up.take_gradients():
            backward(ddp, step)
            own.step()

    return steps(ddp, one_step)


def closure():
    ddp = DistributedDataParallel(plain_model())
    catch_up = tributary.torch.CatchUp(ddp)
    optimizer = torch.optim.LBFGS(ddp.parameters(), lr=0.1, max_iter=3)

    def loss():
        optimizer.zero_grad()
        if catch_up.take_gradients():
            return torch.zeros(())
        value = ddp(rows(0)).square().mean()
        value.backward()
        return value

    optimizer.step(loss)


def difference(model):
    """Returns the largest relative difference between ranks, and asserts nothing."""
    flat = torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])
    every = [torch.empty_like(flat) for _ in range(world)]
    dist.all_gather(every, flat)
    return max(((one - every[0]).norm() / every[0].norm()).item() for one in every)


def outcome(scenario):
    """Runs a scenario. Returns the line about it."""
    before = tributary.torch.summary()["missing"].get(str(world - 1), 0)
    try:
        different = difference(globals()[scenario]())
    except tributary.InvalidArgument as error:
        return f"refused: {error}"
    except RuntimeError as error:  # DDP's backward pass crosses C++.
        print(f"{scenario}: failed: {str(error).splitlines()[0]}", flush=True)
        raise
    if tributary.torch.summary()["missing"].get(str(world - 1), 0) == before:
        return "no sum lacked the last rank"
    return f"differ by {different:.1e}" if different else "identical"


for name in sys.argv[1:]:
    torch.manual_seed(1)
    store = dist.PrefixStore(name, dist.distributed_c10d._get_default_store())
    print(f"{name}: {outcome(name)}", flush=True)
    dist.barrier()
dist.destroy_process_group()
