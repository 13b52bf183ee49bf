# SPDX-License-Identifier: Apache-2.0
"""The torch.distributed back end "tributary".

    import tributary.torch
    torch.distributed.init_process_group("tributary")   # instead of "gloo"

The aggregator handles all_reduce with SUM or AVG of dense float32, float16 and bfloat16 tensors, and SUM
of int32. DistributedDataParallel reduces gradients this way. An inner Gloo group handles everything else:
other types and operations, broadcast, all_gather, barrier, send, … A process has one group with the
aggregator; groups created while it exists use Gloo only.

Stragglers: with mitigation a sum may lack ranks. A range of a float SUM is then scaled by the world size
over the number of ranks in it. DDP divides by the world size, so it gets the mean over the ranks in the
sum. Every rank scales alike, so parameters stay identical. AVG needs no scaling, and int32 sums are not
scaled. on_degraded() and summary() report what was missing.

Threads: one waiter per group. It sleeps until an operation whose future was requested ends.
Errors:  wait() raises the exceptions of tributary.errors. DDP raises a RuntimeError with the same
         text, because C++ is in between; last_error() returns the exception itself.
Tests:   tests/python/
"""

import atexit
import collections
import os
import sys
import threading
import traceback
import warnings

import torch
import torch.distributed as dist

from . import aggregators, errors
from ._work import TributaryWork, Waiter
from .communicator import Communicator, url_with

BACKEND = "tributary"
TYPE_NAMES = {
    torch.float32: "float32",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.int32: "int32",
}
# Keep at least this many works: C++ keeps only its own half alive, without the methods overridden
# here.
WORKS_KEPT = 64

# Methods of the inner Gloo group. Names differ by torch version; missing ones are skipped.
DELEGATED = (
    "_allgather_base",
    "_reduce_scatter_base",
    "allgather",
    "allgather_coalesced",
    "allgather_into_tensor_coalesced",
    "allreduce_coalesced",
    "alltoall",
    "alltoall_base",
    "barrier",
    "broadcast",
    "gather",
    "monitored_barrier",
    "recv",
    "recv_anysource",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor_coalesced",
    "scatter",
    "send",
)


class Degraded(
    collections.namedtuple("Degraded", "number blocks degraded_blocks missing ranges")
):
    """An all-reduce that lacks ranks. `number` counts the group's all-reduces from 0."""


class TributaryGroup(dist.ProcessGroup):
    """All ranks of a job; the module's docstring says which calls go to the aggregator."""

    def __init__(self, url, rank, world, make_inner):
        super().__init__(rank, world)
        self._url = url
        # Join first: it detects two processes with one rank within the deadline; Gloo does not.
        self.communicator = Communicator(url)
        try:
            self.inner = make_inner()
        except BaseException:
            self.communicator.close()
            raise
        self.waiter = Waiter()
        self.error = None  # The exception that ended the communicator.
        self._world = world
        self._lock = threading.Lock()
        self._works = collections.deque()
        self._count = 0
        self._blocks = 0
        self._degraded_blocks = 0
        self._missing = collections.Counter()  # Degraded blocks, by missing rank.
        self._hooks = []
        self._closed = False

    # --- All-reduce ---

    def allreduce(self, tensors, opts=None):
        if isinstance(tensors, torch.Tensor):
            tensors = [tensors]
        op_name = _op_name(opts)
        if len(tensors) != 1 or not _goes_through(tensors[0], op_name):
            return self.inner.allreduce(tensors, *(() if opts is None else (opts,)))
        return self._submit(tensors[0], op_name)

    def receive(self, tensor):
        """Receives the other ranks' next SUM without contributing to it. Returns a work."""
        if not _goes_through(tensor, "sum"):
            raise errors.InvalidArgument(
                f"tensors of type {tensor.dtype} do not go through the aggregator; allowed: "
                f"dense {', '.join(TYPE_NAMES.values())}"
            )
        return self._submit(tensor, "sum", receive_only=True)

    def _submit(self, tensor, op_name, receive_only=False):
        if not tensor.is_contiguous():
            raise errors.InvalidArgument("the tensor is not contiguous; pass tensor.contiguous()")
        staged = tensor if tensor.device.type == "cpu" else _to_host(tensor)
        with self._lock:  # Numbers follow the order of submission.
            operation = self.communicator.submit(
                staged.data_ptr(),
                staged.numel(),
                TYPE_NAMES[tensor.dtype],
                op_name,
                staged,
                receive_only,
            )
            work = TributaryWork(self, operation, op_name, self._count, tensor, staged)
            self._count += 1
            self._works.append(work)
            done = []
            while len(self._works) > WORKS_KEPT and self._works[0].is_completed():
                done.append(self._works.popleft())
        for old in done:  # Settles works that no caller waited for.
            old.settle()
        return work

    def take_error(self, error, tensor):
        """Called by a work. Returns its exception, or None if NaN in the tensor replaces it."""
        if isinstance(error, errors.NotFinite) and _nan_wanted() and tensor.is_floating_point():
            tensor.fill_(float("nan"))
            return None
        if not isinstance(error, (errors.NotFinite, errors.Overflow)) and self.error is None:
            self.error = error
        return error

    def take_report(self, work, report):
        """Called by a work. Updates the counts and scales sums that lack ranks."""
        self._blocks += report.blocks
        if report.degraded_blocks:
            self._handle_degraded(work, report)

    def _handle_degraded(self, work, report):
        flat = work.staged.view(-1)
        grain = self.communicator.info()["gradients"]
        for part in report.ranges:
            present = self._world - len(part.missing)
            if work.op_name == "sum" and flat.is_floating_point() and present > 0:
                flat[part.first : part.first + part.count].mul_(self._world / present)
            for rank in part.missing:
                self._missing[rank] += -(-part.count // grain)
        self._degraded_blocks += report.degraded_blocks
        happened = Degraded(
            work.number, report.blocks, report.degraded_blocks, report.missing, report.ranges
        )
        for hook in self._hooks:
            try:
                hook(happened)
            except Exception:  # Other threads may be waiting for the sum.
                warnings.warn(f"a hook of on_degraded() failed:\n{traceback.format_exc()}")

    # --- Missing ranks ---

    def on_degraded(self, hook):
        """Calls hook(Degraded) for every all-reduce that lacks ranks, before its wait() returns."""
        self._hooks.append(hook)

    def summary(self):
        """Returns counts of all-reduces, blocks, degraded blocks, and these by missing rank."""
        return {
            "all_reduces": self._count,
            "blocks": self._blocks,
            "degraded_blocks": self._degraded_blocks,
            "missing": {str(rank): count for rank, count in sorted(self._missing.items())},
        }

    # --- Beginning and end ---

    def rejoin(self):
        """Leaves the job and joins again. Every rank must call it; returns when all have joined.

        Use it after Desynchronised, PeerLeft or SessionLost, then broadcast the parameters of a
        healthy rank: see examples/rejoin.py.
        """
        self.communicator.close()
        for work in self._works:
            work.settle()
        self._works.clear()
        self.communicator = Communicator(self._url)
        self.error = None

    def close(self):
        """Leaves the job. Rank 0 prints a line if blocks were degraded."""
        if self._closed:
            return
        self._closed = True
        self.communicator.close()
        self.waiter.close()
        if self._degraded_blocks and self.rank() == 0:
            print(_line(self.summary()), file=sys.stderr)

    def getBackendName(self):  # Called by C++ under this name.
        return BACKEND

    def name(self):
        return BACKEND


def _delegate(method):
    def delegated(self, *arguments, **named):
        return getattr(self.inner, method)(*arguments, **named)

    delegated.__name__ = method
    return delegated


for _method in DELEGATED:
    if hasattr(dist.ProcessGroup, _method):
        setattr(TributaryGroup, _method, _delegate(_method))


def _op_name(opts):
    op = dist.ReduceOp.SUM if opts is None else opts.reduceOp
    if op == dist.ReduceOp.SUM:
        return "sum"
    return "mean" if op == dist.ReduceOp.AVG else None


def _goes_through(tensor, op_name):
    if tensor.layout != torch.strided or tensor.dtype not in TYPE_NAMES:
        return False
    return op_name == "sum" or (op_name == "mean" and tensor.dtype != torch.int32)


def _to_host(tensor):
    """Returns a copy in pinned host memory, complete on return."""
    host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)
    return host.copy_(tensor)


def _nan_wanted():
    """Returns True if NaN replaces an error: mixed precision looks for infinities in the sum."""
    return os.environ.get("TRIBUTARY_NOT_FINITE", "raise") == "nan"


def _line(summary):
    lacking = ", ".join(f"rank {rank} in {count}" for rank, count in summary["missing"].items())
    return (
        f"tributary: {summary['degraded_blocks']} of {summary['blocks']} blocks degraded; "
        f"missing: {lacking or 'no rank'}"
    )


class CatchUp:
    """Lets a rank that is behind take the gradients that the others computed without it.

    With straggler mitigation the others finish a step without a late rank. The late rank would then
    compute gradients that are too late to be added, and be late in the next step too. So:

        catch_up = tributary.torch.CatchUp(model)    # a DistributedDataParallel
        for inputs, targets in batches:
            optimizer.zero_grad()
            if not catch_up.take_gradients():
                loss_of(model(inputs), targets).backward()
            optimizer.step()

    Conditions:
    - A step is one backward pass, all its gradients are reduced, and nothing else goes through the
      aggregator between steps.
    - A model with buffers needs broadcast_buffers=False; otherwise each forward pass waits for all ranks.
    - The model can have no other communication hook, because CatchUp is one.
    - A model that is wrapped again after rejoin() needs a new CatchUp.
    """

    # DDP rearranges its buckets once, after its first step.
    STEPS_BEFORE = 2

    def __init__(self, model):
        self._group = active_group()
        self._buckets = []  # Parameters of each bucket of the latest step.
        self._communicator = None  # Used in the latest step.
        self._first = 0  # Blocks submitted to it before the latest step.
        self._steps = 0
        self.steps_taken = 0  # Steps with gradients taken from the others.
        model.register_comm_hook(self, CatchUp._reduce)

    def _reduce(self, bucket):
        """Computes the mean over the world, like DDP without a hook."""
        if bucket.index() == 0:
            self._buckets = []
            self._communicator = self._group.communicator
            self._first = self._communicator.progress()[0]
        self._buckets.append(list(bucket.parameters()))
        if bucket.is_last():
            self._steps += 1
        buffer = bucket.buffer().div_(self._group.size())
        future = dist.all_reduce(buffer, group=self._group, async_op=True).get_future()
        return future.then(lambda done: done.value()[0])

    def behind(self):
        """Returns True if the others have finished the next step without this rank."""
        # After rejoin() all ranks count from 0. If all were behind, no rank would contribute.
        if self._steps < self.STEPS_BEFORE or self._communicator is not self._group.communicator:
            return False
        submitted, heard = self._communicator.progress()
        return heard - submitted >= submitted - self._first

    def take_gradients(self):
        """If this rank is a step behind, sets its parameters' gradients to that step's.

        Returns True if it did; the caller then has nothing to compute.
        """
        if not self.behind():
            return False
        self._first = self._group.communicator.progress()[0]
        received = []
        for parameters in self._buckets:
            count = sum(parameter.numel() for parameter in parameters)
            flat = torch.empty(count, dtype=parameters[0].dtype, device=parameters[0].device)
            received.append((parameters, flat, self._group.receive(flat)))
        for parameters, flat, work in received:
            work.wait()
            _spread(flat, parameters)
        self.steps_taken += 1
        return True


def _spread(flat, parameters):
    """Copies a bucket's gradients, stored one after another, to their parameters."""
    first = 0
    for parameter in parameters:
        gradient = flat[first : first + parameter.numel()].view_as(parameter)
        first += parameter.numel()
        if parameter.grad is None:
            parameter.grad = gradient.clone()
        else:
            parameter.grad.copy_(gradient)


_active = None  # The group with the aggregator.


def _create(store, rank, world, timeout):
    """Called by init_process_group() and new_group()."""
    global _active

    def make_inner():
        return dist.ProcessGroupGloo(
            dist.PrefixStore("tributary-inner", store), rank, world, timeout
        )

    if _active is not None and not _active._closed:
        if dist.is_initialized():  # Called by new_group().
            return make_inner()
        _active.close()  # destroy_process_group() has dropped it.
    options = {"rank": rank, "world": world}
    if timeout != dist.default_pg_timeout and "deadline_ms" not in os.environ.get("TRIBUTARY_URL", ""):
        options["deadline_ms"] = max(1, round(1000 * timeout.total_seconds()))
    url = aggregators.url(store, rank, world) if aggregators.wanted() else None
    _active = TributaryGroup(url_with(url, options), rank, world, make_inner)
    return _active


def active_group():
    """Returns the group with the aggregator. Raises InvalidArgument if there is none."""
    if _active is None:
        raise errors.InvalidArgument('no group yet; call init_process_group("tributary") first')
    return _active


def on_degraded(hook):
    """Calls active_group().on_degraded(hook)."""
    active_group().on_degraded(hook)


def summary():
    """Returns active_group().summary()."""
    return active_group().summary()


def rejoin():
    """Calls active_group().rejoin()."""
    active_group().rejoin()


def last_error():
    """Returns the exception that ended the active group's communicator, or None."""
    return active_group().error


def _adopt_mpirun():
    """Copies mpirun's variables for rank and world to RANK and WORLD_SIZE, which torch reads."""
    for prefix, local in (("OMPI_COMM_WORLD", "OMPI_COMM_WORLD_LOCAL_RANK"), ("PMI", "MPI_LOCALRANKID")):
        if f"{prefix}_RANK" in os.environ and "RANK" not in os.environ:
            os.environ["RANK"] = os.environ[f"{prefix}_RANK"]
            os.environ["WORLD_SIZE"] = os.environ[f"{prefix}_SIZE"]
            os.environ.setdefault("LOCAL_RANK", os.environ.get(local, "0"))


@atexit.register
def _close_active():
    # Leave the job, so that the other ranks learn at once that this rank has ended.
    if _active is not None:
        _active.close()


def _register():
    if hasattr(dist.Backend, BACKEND.upper()):
        return
    try:
        dist.Backend.register_backend(BACKEND, _create, devices=["cpu"])
    except TypeError:  # torch 1.x has no `devices`.
        dist.Backend.register_backend(BACKEND, _create)


_adopt_mpirun()
_register()
