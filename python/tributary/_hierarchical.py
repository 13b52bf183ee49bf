# SPDX-License-Identifier: Apache-2.0
"""Two levels: the ranks of a machine add up their tensors, and one rank of each goes to the aggregator.

Model:   The leader is the machine's rank with LOCAL_RANK 0. A sum is a reduce to it, an all-reduce of the
         leaders through the aggregator, and a broadcast from it. The aggregator's job has a source per machine.
Types:   16-bit tensors are added as float32 and rounded once. A machine's sum may not fit float16 where the mean does.
Order:   One thread of each rank does this for one tensor after another, in the order of the calls.
Errors:  InvalidArgument for wrong places and with straggler mitigation. NotFinite and Overflow on every rank, by a
         status that follows the sum. After any other failed sum all later ones fail, and the other ranks of the
         machine learn of it by the deadline.
Tests:   tests/python/ranks_hierarchical.py with Gloo inside the machines; cuda_test.py with NCCL, of one rank each.
"""

import concurrent.futures
import contextlib
import os
import threading
import time

import torch
import torch.distributed as dist

from . import _group, aggregators, errors
from ._collectives import refuse_shared_elements
from ._gloo import of_contiguous, register
from ._methods import COUNTED, DELEGATED, WorksInOrder, delegate, in_order
from ._profile import recorded
from ._work import KeptWorks, Submissions, TributaryWork, Waiters, memory_of, writing

VARIABLE = "TRIBUTARY_LOCAL_GROUP"
LOCAL_BACKENDS = ("nccl", "gloo")
# Collectives of the group of all ranks, besides those that TributaryGroup hands on, too.
INNER = (*DELEGATED, *COUNTED, "allreduce_coalesced", "reduce_scatter")


def wanted():
    """Returns the back end inside a machine, or None."""
    value = os.environ.get(VARIABLE)
    if value and value not in LOCAL_BACKENDS:
        raise errors.InvalidArgument(
            f"{VARIABLE}={value} is not allowed; allowed: {', '.join(LOCAL_BACKENDS)}, or none"
        )
    return value or None


def place_of(rank, world):
    """Returns the number of the machine, the rank on it, and the number of ranks on each machine."""
    try:
        local_rank, count = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    except (KeyError, ValueError):
        raise errors.InvalidArgument(
            f"{VARIABLE} needs the numbers LOCAL_RANK and LOCAL_WORLD_SIZE, as torchrun sets them"
        ) from None
    if count < 1 or world % count or rank % count != local_rank:
        raise errors.InvalidArgument(
            f"{VARIABLE} needs equally many ranks on each machine, in order; rank {rank} of {world} is "
            f"number {local_rank} of {count} on its machine"
        )
    return rank // count, local_rank, count


# Errors after which the leaders' communicator stays usable. A status has the number of one of them, or 0, and its text.
USABLE_AFTER = {1: errors.Overflow, 2: errors.NotFinite}
STATUS_BYTES = 512
# A leader waits so many deadlines at most: for the aggregators' addresses, for the aggregators, and for Gloo.
WAITS_OF_LEADER = 3


def join_leaders(store, leader, local_rank, create, limit_s):
    """Returns create(), the leaders' group, on a leader, and None elsewhere. If it fails, all ranks raise.

    leader: the rank of this machine's leader.
    limit_s: the deadline of the group, in seconds.
    """
    key = f"tributary/leader/{leader}"
    if local_rank != 0:
        failed = aggregators.wait_for(store, key, leader, time.monotonic() + WAITS_OF_LEADER * limit_s)
        if failed:
            raise errors.TributaryError(f"the first rank of this machine failed: {failed}")
        return None
    try:
        leaders = create()
        if leaders.mitigated():
            leaders.close()
            raise errors.InvalidArgument(
                f"{VARIABLE} cannot be used with straggler mitigation; unset it, or set the job's timeout to 0"
            )
    except Exception as error:
        store.set(key, str(error) or type(error).__name__)
        raise
    store.set(key, "")
    return leaders


class HierarchicalGroup(WorksInOrder, dist.ProcessGroup):
    """All ranks. `leaders` is a TributaryGroup on leaders and None elsewhere; `inner` is Gloo for all ranks."""

    def __init__(self, rank, world, local, leaders, inner, deadline_s):
        super().__init__(rank, world)
        self.inner = inner
        register(self, inner)
        self.leaders = leaders
        self.waiters = Waiters()
        self.calls = 0
        self.counts_reported = {}
        self.error = None  # The exception of the first sum that failed, after which all fail.
        self.refused = None  # The exception of the last sum that refused its values; later sums work.
        self.closed = False
        self._world = world
        self._local = local
        self._submissions = Submissions(deadline_s)
        self._lock = threading.Lock()
        self._thread = concurrent.futures.ThreadPoolExecutor(1, "tributary-local")
        self._works = KeptWorks()

    def allreduce(self, tensors, opts=None):
        if isinstance(tensors, torch.Tensor):
            tensors = [tensors]
        refuse_shared_elements(tensors)
        op_name = _group.op_name_of(opts)
        if len(tensors) != 1 or not _group.goes_through(tensors[0], op_name):
            self.settle_works_of(tensors)
            return of_contiguous(self.inner.allreduce, tensors, *(() if opts is None else (opts,)))
        with recorded("tributary:all_reduce"):
            return self._submit(tensors, op_name)

    def _submit(self, tensors, op_name):
        tensor = tensors[0].detach()  # The thread that writes into it has no no_grad().
        memory = memory_of(tensor)
        self.finish_works_of(memory)
        staged = tensor.contiguous()
        ready = None
        if staged.is_cuda:
            ready = torch.cuda.current_stream(staged.device).record_event()
        backward_ended = self._submissions.next()
        with self._lock:  # The thread follows the order of submission.
            operation = _Sum(self._thread.submit(self._sum, staged, op_name, ready))
            work = TributaryWork(self, operation, op_name, 0, tensor, staged, backward_ended, tensors)
            work.memory = memory
            dropped = self._works.add(work)
        for old in dropped:
            old.settle()
        return work

    def _sum(self, tensor, op_name, ready):
        if self.error is not None:  # The machine's ranks may be in different collectives.
            raise self.error
        try:
            with _stream_after(tensor, ready), writing([tensor]):
                wide = tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor
                self._local.reduce([wide], dist.ReduceOptions()).wait()  # To rank 0.
                status = torch.zeros(STATUS_BYTES, dtype=torch.uint8, device=wide.device)
                if self.leaders is not None:
                    self._sum_of_leaders(wide, status)
                    if op_name == "mean":
                        wide.div_(self._world)
                for work in [self._local.broadcast([part], dist.BroadcastOptions()) for part in (wide, status)]:
                    work.wait()
                if wide is not tensor:
                    tensor.copy_(wide)
                self._raise_status(status)
        except tuple(USABLE_AFTER.values()) as error:
            self.refused = error
            raise
        except errors.TributaryError as error:
            self.error = error
            raise
        except RuntimeError as error:
            self.error = errors.TributaryError(f"a sum inside the machine failed: {error}")
            raise self.error from error

    def _sum_of_leaders(self, tensor, status):
        """Adds up the machines' sums. Writes an error of the values into the status, for all ranks of the machine."""
        try:
            self.leaders.submit(tensor, "sum").wait()
        except tuple(USABLE_AFTER.values()) as error:
            number = next(number for number, kind in USABLE_AFTER.items() if isinstance(error, kind))
            content = (bytes([number]) + str(error).encode())[:STATUS_BYTES]
            status[: len(content)] = torch.frombuffer(bytearray(content), dtype=torch.uint8).to(status.device)

    def _raise_status(self, status):
        """Raises the error of the leader's status, if it has one."""
        number, *text = status.tolist()
        if number:
            raise USABLE_AFTER[number](bytes(text).rstrip(b"\0").decode(errors="ignore"))

    def take_error(self, error, tensor):
        """Called by a work. Returns its exception."""
        return error

    def take_report(self, work, report):
        """Called by a work."""

    # --- What scripts ask the active group ---

    def mitigated(self):
        """Returns False: every sum has all ranks."""
        return False

    def compare_calls(self):
        """Does nothing: the aggregator compares the leaders' calls."""

    def on_degraded(self, hook):
        """Takes a hook that is never called."""

    def summary(self):
        """Returns the counts of the machine's leader. Other ranks have none."""
        if self.leaders is not None:
            return self.leaders.summary()
        return {"all_reduces": 0, "blocks": 0, "degraded_blocks": 0, "missing": {}, "permanent_stragglers": {}}

    def rejoin(self):
        """Raises InvalidArgument."""
        raise errors.InvalidArgument(f"rejoin() cannot be used with {VARIABLE}; start the script again")

    def close(self):
        """Leaves the job."""
        self.closed = True
        if self.leaders is not None:
            self.leaders.close()
        self._thread.shutdown(wait=False)
        self.waiters.close()

    def end(self):
        """Calls close()."""
        self.close()

    def getBackendName(self):  # Called by C++ under this name.
        return _group.BACKEND

    def name(self):
        return _group.BACKEND


def _delegate_contiguous(method):
    """As delegate(), for a method that takes the memory behind a tensor's first element for its elements."""

    def delegated(self, tensors, *options):
        if isinstance(tensors, torch.Tensor):
            tensors = [tensors]
        refuse_shared_elements(tensors)
        self.calls += 1
        return of_contiguous(getattr(self.inner, method), tensors, *options)

    delegated.__name__ = method
    return delegated


for _method in INNER:
    if hasattr(dist.ProcessGroup, _method):
        _function = (_delegate_contiguous if _method in ("broadcast", "reduce") else delegate)(_method)
        setattr(HierarchicalGroup, _method, in_order(_function))


class _Sum:
    """The operation of a TributaryWork: a call in the group's thread."""

    def __init__(self, call):
        self._call = call

    def done(self):
        return self._call.done()

    def wait(self, timeout=None):
        """Returns True, or None if the timeout (seconds) has passed. Raises the call's exception."""
        try:
            self._call.result(timeout)
        except concurrent.futures.TimeoutError:
            return None
        return True


@contextlib.contextmanager
def _stream_after(tensor, ready):
    """Uses a stream that continues after the event `ready`, and waits for it at the end. CUDA only."""
    if ready is None:
        yield
        return
    stream = torch.cuda.Stream(tensor.device)
    stream.wait_event(ready)
    tensor.record_stream(stream)
    with torch.cuda.stream(stream):
        yield
    stream.synchronize()
