# SPDX-License-Identifier: Apache-2.0
"""One all-reduce of torch.distributed in flight, and the thread that completes the futures.

C++ (the reducer of DistributedDataParallel) calls get_future(), Python calls wait(). The first of them
settles the work: it takes the outcome, corrects sums that lack ranks and copies staged data back.
"""

import queue
import threading

import torch

from . import errors

_Work = torch._C._distributed_c10d.Work  # Public as dist.Work only from torch 2 on.


class TributaryWork(_Work):
    """Created by TributaryGroup.allreduce(), which also keeps it alive until it is done."""

    def __init__(self, group, operation, op_name, number, tensor, staged):
        super().__init__()
        self.op_name = op_name  # "sum" or "mean".
        self.number = number  # Counts the group's all-reduces from 0.
        self.staged = staged  # The data sent: the tensor, or its copy in host memory.
        self._group = group
        self._operation = operation
        self._tensor = tensor
        self._lock = threading.Lock()
        self._settled = False
        self._error = None
        self._raw_future = None
        self._future = None

    def settle(self, timeout=None):
        """Waits for the sum and finishes the work. Returns False if `timeout` (seconds) passed first."""
        try:
            # Wait without the lock, so that other threads can query the work.
            report, error = self._operation.wait(timeout), None
            if report is None:
                return False
        except errors.TributaryError as failed:
            report, error = None, failed
        with self._lock:
            if self._settled:
                return True
            if error is not None:
                self._error = self._group.take_error(error, self.staged)
            else:
                self._group.take_report(self, report)
            if self.staged is not self._tensor:
                self._tensor.copy_(self.staged)
            self._settled = True
        return True

    def wait(self, timeout=None):
        seconds = timeout.total_seconds() if timeout is not None else 0
        if not self.settle(seconds if seconds > 0 else None):
            raise RuntimeError(f"all_reduce is not done after {seconds} s")
        if self._error is not None:
            raise self._error
        return True

    def synchronize(self):
        self.wait()

    def is_completed(self):
        return self._settled or self._operation.done()

    def is_success(self):
        return self.is_completed() and self.settle() and self._error is None

    def exception(self):
        return self._error

    def result(self):
        return [self._tensor]

    def get_future(self):
        with self._lock:
            if self._future is None:
                self._raw_future = torch.futures.Future()
                # C++ sees a future fail only if a callback raises.
                self._future = self._raw_future.then(self._result_or_raise)
                self._group.waiter.put(self)
        return self._future

    def complete_future(self):
        """Completes the future. Called by the waiter's thread; never raises."""
        try:
            self.settle()
        except Exception as error:  # A bug here must not hang the training.
            self._error = self._error or error
        self._raw_future.set_result([self._tensor])

    def _result_or_raise(self, _):
        if self._error is not None:
            raise self._error
        return [self._tensor]


class Waiter:
    """A thread that waits for works in the order of put(). It sleeps while waiting."""

    def __init__(self):
        self._works = queue.SimpleQueue()
        thread = threading.Thread(
            target=_complete_each, args=(self._works,), name="tributary-waiter", daemon=True
        )
        thread.start()

    def put(self, work):
        self._works.put(work)

    def close(self):
        """Ends the thread after the works that were already put."""
        self._works.put(None)


def _complete_each(works):
    for work in iter(works.get, None):
        work.complete_future()
