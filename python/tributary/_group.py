# SPDX-License-Identifier: Apache-2.0
"""The process group whose all-reduces go through the aggregator. tributary.torch describes it."""

import collections
import functools
import os
import sys
import threading
import traceback

import torch
import torch.distributed as dist

from . import _exit_status, errors
from ._announce import warn
from ._backward import reduces_gradients
from ._collectives import Collectives, check_variable, refuse_shared_elements
from ._gloo import of_contiguous, register
from ._meetings import Meetings
from ._methods import WorksInOrder, complete
from ._profile import recorded
from ._staging import Submitter, copy_to_host
from ._urgency import Urgency
from ._work import KeptWorks, Submissions, TributaryWork, Waiters, memory_of
from .communicator import Communicator, aggregators_of, keys_of, url_without

BACKEND = "tributary"
TYPE_NAMES = {
    torch.float32: "float32",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.int32: "int32",
}
NAN_GIVEN = (
    "The sum is NaN on every rank, and a GradScaler skips the step; TRIBUTARY_NOT_FINITE=raise raises NotFinite"
)
NAN_OFFERED = "With TRIBUTARY_NOT_FINITE=nan the sum becomes NaN on every rank, and a GradScaler skips the step"
FINISHED = "This ends the group; tributary.torch.rejoin() on every rank makes it again"


class Degraded(
    collections.namedtuple("Degraded", "number blocks degraded_blocks missing ranges")
):
    """An all-reduce that lacks ranks. `number` counts the group's all-reduces from 0."""


@complete
class TributaryGroup(Collectives, WorksInOrder, dist.ProcessGroup):
    """All ranks of a job; the module's docstring says which calls go to the aggregator."""

    def __init__(self, url, rank, world, make_inner):
        """make_inner(deadline_ms) returns the Gloo group."""
        super().__init__(rank, world)
        _nan_wanted()  # Refuses wrong values before the first step.
        check_variable()
        _refuse_asynchronous(url)
        self._url = url
        # Join first: it detects two processes with one rank within the deadline; Gloo does not.
        self.communicator = Communicator(url)
        try:
            self.inner = make_inner(self.communicator.info()["deadline_ms"])
        except BaseException:
            self.communicator.close()
            raise
        register(self, self.inner)
        self.waiters = Waiters()
        self.meetings = Meetings(self)
        self._submissions = Submissions(self.communicator.info()["deadline_ms"] / 1000)
        self._submitter = Submitter()
        self._urgency = self._new_urgency()
        self.error = None  # The exception that ended the communicator.
        self.refused = None  # That of the last all-reduce whose values could not be summed.
        self._world = world
        self._lock = threading.Lock()
        self._works = KeptWorks()
        self._count = 0
        self._blocks = 0
        self._degraded_blocks = 0
        self._permanent = set()  # Permanent stragglers at the last degraded all-reduce.
        self._permanent_spells = collections.Counter()  # Times by rank.
        self._missing = collections.Counter()  # Degraded blocks, by missing rank.
        self._hooks = []
        self.calls = 0  # Collectives that the script or DDP called, whichever way they went.
        self.paces = []  # Of this rank, one for each CatchUp.
        self.counts_reported = {}  # By the latest end_epoch().
        self.closed = False

    # --- All-reduce ---

    def allreduce(self, tensors, opts=None):
        self.calls += 1
        if isinstance(tensors, torch.Tensor):
            tensors = [tensors]
        refuse_shared_elements(tensors)
        op_name = op_name_of(opts)
        if len(tensors) != 1 or not self._may_lack_ranks(tensors[0], op_name):
            self.settle_works_of(tensors)
            options = () if opts is None else (opts,)
            return self.meet_in(lambda: of_contiguous(self.inner.allreduce, tensors, *options))
        return self._submit(tensors[0], op_name)

    def meet_in(self, start):
        """Returns the work of start(), a collective of all ranks that Gloo handles."""
        return self.meetings.collective(start) if self.mitigated() else start()

    def compare_calls(self):
        """Waits for all ranks, with mitigation. Raises Mismatch if they have made different numbers of all-reduces."""
        if self.mitigated():
            self.meetings.meet()

    def _may_lack_ranks(self, tensor, op_name):
        """Returns True if the aggregator handles this all-reduce.

        With straggler mitigation, its sums may lack ranks. Means and gradients may, other sums may not.
        """
        if not goes_through(tensor, op_name):
            return False
        if not self.mitigated() or op_name == "mean":
            return True
        if tensor.is_floating_point() and reduces_gradients():
            return True
        if tensor.dtype == torch.bfloat16:
            raise errors.InvalidArgument(
                "with straggler mitigation, a SUM outside a backward pass goes through Gloo, which cannot "
                "add bfloat16; sum in float32, or use ReduceOp.AVG for the mean over the ranks in time"
            )
        return False

    def mitigated(self):
        """Returns True if sums of the aggregator may lack ranks."""
        return self.communicator.info()["straggler_timeout_us"] > 0

    def reduce_gradients(self, tensor, zeros_of=None):
        """Adds a tensor of gradients that may lack ranks. Returns a work. The rank `zeros_of` adds zeros."""
        return self._submit(tensor, "sum", zeros_of=zeros_of)

    def receive(self, tensor, zeros_of=None):
        """Receives the other ranks' next SUM without contributing to it. Returns a work."""
        if not goes_through(tensor, "sum"):
            raise errors.InvalidArgument(
                f"tensors of type {tensor.dtype} do not go through the aggregator; allowed: "
                f"dense {', '.join(TYPE_NAMES.values())}"
            )
        return self._submit(tensor, "sum", receive_only=True, zeros_of=zeros_of)

    def goes_through(self, tensor, op_name):
        """Returns True if the aggregator can sum the tensor."""
        return goes_through(tensor, op_name)

    def op_name(self, opts):
        """Returns "sum" or "mean" if `opts` asks for it, else None."""
        return op_name_of(opts)

    def submit(self, tensor, op_name):
        """Sums a tensor in place. Returns a work with the tensor."""
        return self._submit(tensor, op_name)

    def submit_for(self, owner, tensor, op_name, result=None, counted=True):
        """Sums a tensor for the rank `owner`, in place; other ranks' tensors are only read.

        Returns a work with the tensors `result`, by default this one. Never use it with straggler mitigation:
        a rank that catches up receives all-reduces.
        """
        return self._submit(tensor, op_name, result=result, counted=counted, owner=owner)

    def submit_lanes(self, lanes, result, finish=None):
        """Adds int32 of which one rank at most is not 0, then calls finish(). Returns a work."""
        return self._submit(lanes, "sum", result=result, finish=finish, counted=False)

    def _submit(self, *arguments, owner=None, **named):
        with recorded("tributary:all_reduce" if owner is None else "tributary:reduce"):
            return self._submit_recorded(*arguments, owner=owner, **named)

    def _submit_recorded(
        self, tensor, op_name, receive_only=False, result=None, finish=None, counted=True, zeros_of=None,
        owner=None,
    ):
        result = result or [tensor]
        # A sum is written in place, also into a parameter, and by threads that have no no_grad().
        tensor = tensor.detach()
        memory = memory_of(tensor)
        self.finish_works_of(memory)
        staged, wait_for_copy = tensor.contiguous(), None  # The tensor itself if it is contiguous.
        if tensor.device.type != "cpu":
            staged, wait_for_copy = copy_to_host(staged)
        backward_ended = self._submissions.next()
        with self._lock:  # Numbers and priorities follow the order of submission.
            self.meetings.count()
            start = functools.partial(
                self.communicator.submit,
                staged.data_ptr(),
                staged.numel(),
                TYPE_NAMES[tensor.dtype],
                op_name,
                staged,
                receive_only,
                self._urgency.next(backward_ended),
                owner,
            )
            operation = self._submitter.submit(start, wait_for_copy)
            work = TributaryWork(
                self, operation, op_name, self._count, tensor, staged, backward_ended, result, finish
            )
            work.zeros_of = zeros_of
            work.memory = memory
            work.only_reads = owner not in (None, self.rank())
            self._count += counted
            dropped = self._works.add(work)
        for old in dropped:
            old.settle()
        return work

    def _new_urgency(self):
        """Returns the priorities of the URL. With mitigation all are 0, because a late rank cannot receive others."""
        return Urgency(1 if self.mitigated() else self._priorities())

    def _priorities(self):
        return int(keys_of(self._url).get("priorities", 1))

    def has_priorities(self):
        """Returns True if sums of a backward pass have different priorities."""
        return self._priorities() > 1 and not self.mitigated()

    def take_error(self, error, tensor):
        """Called by a work. Returns its exception, or None if NaN in the tensor replaces it."""
        if isinstance(error, errors.NotFinite) and tensor.is_floating_point():
            if _nan_wanted():
                self.communicator.warn_once(f"{error}. {NAN_GIVEN}")
                return None
            error = errors.NotFinite(f"{error}. {NAN_OFFERED}")
        if isinstance(error, (errors.NotFinite, errors.Overflow)):
            self.refused = error
        else:
            if isinstance(error, errors.Mismatch):  # The script may correct its calls.
                error = errors.Mismatch(f"{error}. {FINISHED}")
            self.error = self.error or error
        return error

    def take_report(self, work, report):
        """Called by a work. Updates the counts and scales sums that lack ranks."""
        self._blocks += report.blocks
        if report.degraded_blocks:
            self._handle_degraded(work, report)
        if report.degraded_blocks or self._permanent:
            permanent = set(self.communicator.permanent_stragglers())
            self._permanent_spells.update(permanent - self._permanent)
            self._permanent = permanent

    def _handle_degraded(self, work, report):
        flat = work.staged.view(-1)
        grain = self.communicator.info()["gradients"]
        if flat.numel() > report.blocks * grain:  # 16 bits each: a block has twice as many.
            grain *= 2
        for part in report.ranges:
            contributors = set(range(self._world)) - {work.zeros_of}
            present = len(contributors - set(part.missing))
            if work.op_name == "sum" and flat.is_floating_point() and present > 0:
                flat[part.first : part.first + part.count].mul_(len(contributors) / present)
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
                warn(f"a hook of on_degraded() failed:\n{traceback.format_exc()}")

    # --- Missing ranks ---

    def on_degraded(self, hook):
        """Calls hook(Degraded) for every all-reduce that lacks ranks, before its wait() returns."""
        self._hooks.append(hook)

    def summary(self):
        """Returns counts of all-reduces, blocks, degraded blocks, and these by missing rank.

        "permanent_stragglers" counts by rank how often the job stopped waiting for it. With CatchUp, also
        counts of this rank's steps.
        """
        counts = {
            "all_reduces": self._count,
            "blocks": self._blocks,
            "degraded_blocks": self._degraded_blocks,
            "missing": {str(rank): count for rank, count in sorted(self._missing.items())},
            "permanent_stragglers": {
                str(rank): count for rank, count in sorted(self._permanent_spells.items())
            },
        }
        if self.paces:
            for name in ("steps", "steps_taken", "late_spells", "rejoined"):
                counts[name] = sum(getattr(pace, name) for pace in self.paces)
            counts["longest_spell"] = max(pace.longest_spell for pace in self.paces)
        return counts

    # --- Beginning and end ---

    def rejoin(self):
        """Leaves the job and joins again. Every rank must call it; returns when all have joined.

        Of several aggregators, it leaves out those that the error of any rank has named as lost, for good. The
        others keep their weights, which may be slower than a new plan (docs/many-aggregators.md).
        Use it after Desynchronised, PeerLeft, AggregatorGone or SessionLost, then broadcast the parameters
        of a healthy rank: see examples/rejoin.py.
        """
        self.communicator.close()
        self._works.settle_all()
        self._leave_out_lost()
        self.communicator = Communicator(self._url)
        self._urgency = self._new_urgency()  # The ranks may have stopped at different all-reduces.
        self.error = self.refused = None
        self.meetings.restart()

    def end(self):
        """Leaves the job. With mitigation it first waits for the other ranks, and raises Mismatch if they differ.

        A rank that ends because of an exception, or with a status other than 0, does not wait.
        """
        raised = hasattr(sys, "last_type") or sys.exc_info()[0] is not None
        failed = self.error is not None or raised or _exit_status.is_failure()
        try:
            if not self.closed and not failed and self.mitigated():
                self.meetings.end(self.communicator.info()["deadline_ms"] / 1000)
        finally:
            self.close()

    def _leave_out_lost(self):
        """Takes lost aggregators out of the URL. All ranks take out the same ones."""
        names = [name for name, _ in aggregators_of(self._url)]
        if len(names) < 2:
            return
        # A rank that has not waited for the lost aggregator has no error, so the ranks share what they know.
        lost = [int(errors.is_lost(name, self.error)) for name in names]
        lost = torch.tensor(lost, dtype=torch.int32, device="cpu")
        options = dist.AllreduceOptions()
        options.reduceOp = dist.ReduceOp.MAX
        self.inner.allreduce([lost], options).wait()
        gone = [name for name, is_lost in zip(names, lost.tolist()) if is_lost]
        if not gone or len(gone) == len(names):  # With none left, the join reports why.
            return
        self._url = url_without(self._url, gone)
        if self.rank() == 0:
            warn(f"joining again without the lost aggregator {', '.join(gone)}")

    def close(self):
        """Leaves the job. Rank 0 prints a line if blocks were degraded."""
        if self.closed:
            return
        self.closed = True
        self.communicator.close()
        self._submitter.close()
        self.waiters.close()
        if self._degraded_blocks and self.rank() == 0:
            print(_line(self.summary()), file=sys.stderr)

    def getBackendName(self):  # Called by C++ under this name.
        return BACKEND

    def name(self):
        return BACKEND


def op_name_of(opts):
    op = dist.ReduceOp.SUM if opts is None else opts.reduceOp
    if op == dist.ReduceOp.SUM:
        return "sum"
    return "mean" if op == dist.ReduceOp.AVG else None


def goes_through(tensor, op_name):
    if tensor.layout != torch.strided or tensor.dtype not in TYPE_NAMES:
        return False
    return op_name == "sum" or (op_name == "mean" and tensor.dtype != torch.int32)


def _refuse_asynchronous(url):
    if keys_of(url).get("asynchronous") == "on":
        raise errors.InvalidArgument(
            "asynchronous=on is not allowed with torch.distributed, whose all-reduces are sums of all ranks; train "
            "with tributary.Communicator, as examples/asynchronous.py does, or leave the key out of the URL"
        )


def _nan_wanted():
    """Returns True if NaN replaces an error, as with Gloo; GradScaler looks for it in the sum."""
    value = os.environ.get("TRIBUTARY_NOT_FINITE", "nan")
    if value not in ("nan", "raise"):
        raise errors.InvalidArgument(
            f"TRIBUTARY_NOT_FINITE={value} is not allowed; allowed: nan (the default), raise"
        )
    return value == "nan"


def _line(summary):
    lacking = ", ".join(f"rank {rank} in {count}" for rank, count in summary["missing"].items())
    return (
        f"tributary: {summary['degraded_blocks']} of {summary['blocks']} blocks degraded; "
        f"missing: {lacking or 'no rank'}"
    )


_active = None  # The group with the aggregator.


def set_active(group):
    """Makes active_group() return `group`."""
    global _active
    _active = group


def active_or_none():
    """Returns the group with the aggregator, or None."""
    return _active


def active_group():
    """Returns the group with the aggregator. Raises InvalidArgument if there is none."""
    if _active is None:
        raise errors.InvalidArgument('no group yet; call init_process_group("tributary") first')
    return _active
