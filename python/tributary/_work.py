# SPDX-License-Identifier: Apache-2.0
"""One all-reduce of torch.distributed in flight, and the threads that complete the futures.

C++ (the reducer of DistributedDataParallel) calls get_future(), Python calls wait(). The first of them
settles the work: it takes the outcome, corrects sums that lack ranks and copies staged data back.

A future's callback may start further all-reduces and wait for them, as PowerSGD does. A thread for each
depth of callbacks completes the futures (Waiters). The ranks must submit all-reduces in one order, so an
all-reduce of a callback is submitted after the backward pass has submitted its own (Submissions).
"""

import collections
import contextlib
import datetime
import queue
import threading
import time

import torch

from . import _signals, errors
from ._backward import at_end_of_pass
from ._profile import recorded
from ._staging import copy_back, wait_for_kernels_of

_Work = torch._C._distributed_c10d.Work  # Public as dist.Work only from torch 2 on.


# Keep at least this many works that no caller has waited for: C++ keeps only its own half alive, without
# the methods overridden here.
WORKS_KEPT = 64


def memory_of(tensor):
    """Returns the first address of a tensor's elements, and the one behind the last."""
    if tensor.numel() == 0:
        return 0, 0
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return tensor.data_ptr(), tensor.data_ptr() + (last + 1) * tensor.element_size()


def tensors_in(arguments):
    """Yields the tensors of nested lists and tuples."""
    if isinstance(arguments, torch.Tensor):
        yield arguments
    elif isinstance(arguments, (list, tuple)):
        for argument in arguments:
            yield from tensors_in(argument)


def writing(arguments):
    """Returns a context in which this thread may write the tensors of nested lists.

    A tensor that was made in torch.inference_mode() may be written only in that mode, which each thread enters itself.
    """
    made_there = any(tensor.is_inference() for tensor in tensors_in(arguments))
    return torch.inference_mode() if made_there else contextlib.nullcontext()


# Works take 0 as no limit, and Gloo rounds down to milliseconds.
LEAST_WAIT = datetime.timedelta(milliseconds=1)


class Rest:
    """The time left of a timeout that the waits for several works share. No timeout, or 0: no limit."""

    def __init__(self, timeout=None):
        seconds = timeout.total_seconds() if timeout is not None else 0
        self._ends_at = time.monotonic() + seconds if seconds > 0 else None

    def arguments(self):
        """Returns the arguments of the next work's wait(). A work that is done returns from it in any case."""
        if self._ends_at is None:
            return ()
        return (max(LEAST_WAIT, datetime.timedelta(seconds=self._ends_at - time.monotonic())),)


class KeptWorks:
    """Keeps works alive until a caller has taken their outcome. Callers hold the group's lock."""

    def __init__(self):
        self._works = collections.deque()

    def add(self, work):
        """Returns works to settle, outside the lock, because no caller waited for them."""
        self._works.append(work)
        dropped = []
        while self._works[0].taken or (len(self._works) > WORKS_KEPT and self._works[0].is_done()):
            dropped.append(self._works.popleft())
        return dropped

    def overlapping(self, memory):
        """Returns the works that have not written their results to this memory, from memory_of()."""
        begin, end = memory
        return [
            work for work in self._works
            if not work.is_settled() and work.memory[0] < end and begin < work.memory[1]
        ]

    def settle_all(self):
        """Waits for all works and drops them."""
        while self._works:
            self._works.popleft().settle()


class TributaryWork(_Work):
    """Created by TributaryGroup.allreduce(), which also keeps it alive (KeptWorks)."""

    def __init__(
        self, group, operation, op_name, number, tensor, staged, backward_ended=None, result=None,
        finish=None,
    ):
        super().__init__()
        self._tensors = result or [tensor]  # Returned by result() and the future.
        self._finish = finish  # Called once after the sum has come, or None.
        self.op_name = op_name  # "sum" or "mean".
        self.number = number  # Counts the group's all-reduces from 0.
        self.zeros_of = None  # The rank that adds zeros, or None.
        self.memory = (0, 0)  # Where the results are written.
        self.only_reads = False  # Another rank gets the sum, and the tensor stays as it is.
        self.staged = staged  # The data sent: the tensor, or its copy in host memory.
        self._group = group
        self._operation = operation
        self._tensor = tensor
        self._backward_ended = backward_ended  # Of the pass that submitted the work, or None.
        self._submitter = ThreadProgress() if backward_ended is not None else None
        self._lock = threading.Lock()
        self._settled = False
        self.taken = False  # wait() has returned or raised, or the future is complete.
        self._error = None
        self._raw_future = None
        self._future = None

    def settle(self, timeout=None):
        """Waits for the sum and finishes the work. Returns False if `timeout` (seconds) passed first."""
        operation = self._operation
        if operation is None:
            return True
        try:
            # Wait without the lock, so that other threads can query the work.
            report, error = operation.wait(timeout), None
            if report is None:
                return False
        except errors.TributaryError as failed:
            report, error = None, failed
        with self._lock:
            if self._settled:
                return True
            try:
                with writing([self._tensor, self.staged, self._tensors]):
                    self._write(report, error)
            except Exception as failed:  # Only a caller that waits for this work may get it.
                self._error = self._error or failed
            self._settled = True
            # The work may be kept for long. Keep only the tensors that result() returns.
            self._operation = self._tensor = self._finish = self.staged = None
        return True

    def _write(self, report, error):
        if error is not None:
            self._error = self._group.take_error(error, self.staged)
            report = getattr(error, "report", None) if self._error is None else None
        if report is not None:
            self._group.take_report(self, report)
        if self.staged is not self._tensor and not self.only_reads:
            copy_back(self._tensor, self.staged)
        if self._finish is not None and self._error is None:
            self._finish()
            wait_for_kernels_of(tensors_in(self._tensors))

    def wait(self, timeout=None):
        seconds = timeout.total_seconds() if timeout is not None else 0
        with recorded("tributary:wait"):
            is_settled = self.settle(seconds if seconds > 0 else None)
        if not is_settled:
            raise RuntimeError(f"all_reduce is not done after {seconds} s")
        self.taken = True
        if self._error is not None:
            raise self._error
        return True

    def synchronize(self):
        self.wait()

    def is_done(self):
        """Returns True if settle() would return at once."""
        operation = self._operation
        return operation is None or operation.done()

    def is_settled(self):
        """Returns True if the results are written or the work has failed. Finishes nothing itself."""
        return self._settled

    def is_completed(self):
        """Returns True if the results are written."""
        if self._settled:
            return True
        # A thread that holds the lock writes them.
        return self.is_done() and not self._lock.locked() and self.settle()

    def is_success(self):
        return self.is_completed() and self.settle() and self._error is None

    def exception(self):
        return self._error

    def result(self):
        return self._tensors

    def get_future(self):
        with self._lock:
            if self._future is None:
                self._raw_future = torch.futures.Future()
                # C++ sees a future fail only if a callback raises.
                self._future = self._raw_future.then(self._result_or_raise)
                if self.taken:  # DDP's join() takes the value at once.
                    self._raw_future.set_result(self._tensors)
                else:
                    self._group.waiters.put(self)
        return self._future

    def complete_future(self):
        """Completes the future. Called by a waiter's thread; never raises."""
        try:
            self.settle()
            if self._backward_ended is not None:
                wait_until_attached(self._backward_ended, self._submitter)
        except Exception as error:  # A bug here must not hang the training.
            self._error = self._error or error
        self._raw_future.set_result(self._tensors)
        self.taken = True

    def _result_or_raise(self, _):
        if self._error is not None:
            raise self._error
        return self._tensors


class AfterWork(_Work):
    """Other works, Tributary's or Gloo's, and a function called once after all of them."""

    def __init__(self, works, result, finish=lambda: None):
        super().__init__()
        self._works = works
        self._result = result
        self._finish = finish
        self._finish_lock = threading.Lock()
        self._finished = False
        # Reentrant: then() calls its function at once if the works are done.
        self._future_lock = threading.RLock()
        self._future = None

    def wait(self, timeout=None):
        rest = Rest(timeout)
        for work in self._works:
            work.wait(*rest.arguments())
        self._finish_once()
        return True

    def _finish_once(self):
        with self._finish_lock:
            if not self._finished:
                with writing(self._result):
                    self._finish()
                    wait_for_kernels_of(tensors_in(self._result))
                self._finished = True
                self._finish = None  # It may hold tensors.

    def synchronize(self):
        self.wait()

    def is_completed(self):
        """Returns True if the results are written, or a work has failed."""
        if not all(work.is_completed() for work in self._works):
            return False
        if all(work.is_success() for work in self._works):
            self._finish_once()
        return True

    def is_success(self):
        return self.is_completed() and all(work.is_success() for work in self._works)

    def exception(self):
        return next((work.exception() for work in self._works if work.exception()), None)

    def result(self):
        return self._result

    def get_future(self):
        with self._future_lock:
            if self._future is None:
                futures = torch.futures.collect_all([work.get_future() for work in self._works])
                self._future = futures.then(self._result_or_raise)
        return self._future

    def _result_or_raise(self, done):
        """Runs in the thread that completes the last work, which must not wait for a work.

        Gloo completes a work's future before the work.
        """
        for future in done.value():
            future.wait()  # Is done. Raises its error.
        self._finish_once()
        return self._result


class Waiters:
    """Threads that wait for works in the order of put(), one for each depth of callbacks.

    The thread of depth 0 completes the futures of works that scripts and DDP have started. Their
    callbacks run in it, and the works that these callbacks start are those of depth 1, and so on. A
    thread starts with its first work and sleeps while waiting.
    """

    def __init__(self):
        self._lock = threading.Lock()
        self._queues = []  # Of works, by depth.

    def put(self, work):
        depth = callback_depth()
        with self._lock:
            while len(self._queues) <= depth:
                works = queue.SimpleQueue()
                threading.Thread(
                    target=_complete_each, args=(works, len(self._queues) + 1),
                    name=f"tributary-waiter-{len(self._queues)}", daemon=True,
                ).start()
                self._queues.append(works)
            self._queues[depth].put(work)

    def close(self):
        """Ends the threads after the works that were already put."""
        with self._lock:
            for works in self._queues:
                works.put(None)
            self._queues = []


_this_thread = threading.local()


def callback_depth():
    """Returns 0 outside the callbacks of this package's futures, 1 in one, 2 in a callback of its works."""
    return getattr(_this_thread, "depth", 0)


def _complete_each(works, depth):
    _this_thread.depth = depth
    for work in iter(works.get, None):
        work.complete_future()


# A hook attaches its callbacks to a future within this time. A callback attached to a future that is
# complete would run within the hook, and its all-reduces would come before the pass's own.
ATTACH_S = 0.01


class ThreadProgress:
    """Tells how far the thread that created it has come since, also if the machine is busy."""

    def __init__(self):
        self._clock = time.pthread_getcpuclockid(threading.get_ident())
        self._state = f"/proc/self/task/{threading.get_native_id()}/stat"
        self._began = self._latest = time.clock_gettime(self._clock)

    def has_computed(self, seconds):
        """Returns True if the thread has used so much of a CPU."""
        self._latest = time.clock_gettime(self._clock)
        return self._latest - self._began >= seconds

    def is_blocked(self):
        """Returns True if the thread sleeps and has not run since has_computed().

        A thread that waits for the interpreter's lock runs every 5 ms, and one without a CPU does not sleep.
        """
        if time.clock_gettime(self._clock) != self._latest:
            return False
        with open(self._state) as file:
            return file.read().rpartition(")")[2].split()[0] == "S"


class _End:
    """The engine's callback at the end of a backward pass. The engine drops it if the pass fails."""

    def __init__(self, ended):
        self._ended = ended

    def __call__(self):
        self._ended.set()

    __del__ = __call__


class Submissions:
    """Keeps the order in which ranks submit all-reduces the same, although callbacks submit some.

    Within a backward pass, buckets and callbacks would be submitted in an order that depends on timing.

    limit_s: if the thread of a backward pass sleeps for so long, callbacks that wait for the pass fail.
    """

    def __init__(self, limit_s):
        self._limit_s = limit_s
        self._backward_ended = None  # An event, of the latest backward pass with a submission.
        self._progress = None  # Of the thread of that pass.

    def next(self):
        """Called before each submission. Returns the event that ends the backward pass, or None.

        In a callback it waits until the backward pass has submitted all of its own.
        """
        current = self._backward_ended
        if callback_depth() > 0:
            if current is not None:
                wait_for_pass(current, self._progress, self._limit_s)
            return None
        if current is not None and not current.is_set():
            return current
        current = threading.Event()
        if not at_end_of_pass(_End(current)):
            return None
        _signals.postpone()  # The script may have set a handler since the pass before.
        self._backward_ended, self._progress = current, ThreadProgress()
        return current


def wait_for_pass(backward_ended, progress, limit_s):
    """Waits for the end of a backward pass. Raises InvalidArgument if its thread sleeps for `limit_s` seconds.

    A thread that sleeps may wait for a slow rank instead of this callback. So the callback must not submit its
    all-reduce then: ranks whose threads do not sleep would submit theirs in another order.
    """
    try:
        progress.has_computed(0)
        while not backward_ended.wait(limit_s):
            if progress.is_blocked():
                raise errors.InvalidArgument(
                    "a callback starts an all-reduce, which is sent after the backward pass, but the pass has waited for "
                    f"{limit_s:.1f} s. If a communication hook waits for the callback's future, return that future from "
                    "the hook instead, or start the all-reduce in the hook itself"
                )
            progress.has_computed(0)
    except OSError:  # The thread has ended.
        return


def wait_until_attached(backward_ended, submitter):
    """Waits until a hook has attached its callbacks to a future, or waits for the future itself.

    The hook runs in the thread `submitter` of a backward pass.
    """
    try:
        while not submitter.has_computed(ATTACH_S) and not backward_ended.wait(ATTACH_S):
            if submitter.is_blocked():
                return
    except OSError:  # The thread has ended.
        return
