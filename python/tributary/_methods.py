# SPDX-License-Identifier: Apache-2.0
"""The methods of the group that forward to Gloo, and the duties that its collectives share.

Duties: a call is counted, waits for all-reduces of its tensors that are in flight, meets the other ranks, and is
        remembered while calls are coalesced.
Tests:  tests/python/matrix_test.py, tests/python/torch_test.py
"""

import functools

import torch
import torch.distributed as dist

from ._collectives import refuse_shared_elements
from ._gloo import of_contiguous_lists
from ._work import memory_of, tensors_in

# Methods of the inner Gloo group. Names differ by torch version; missing ones are skipped.
DELEGATED = (
    "allgather_coalesced",
    "alltoall_base",
    "barrier",
    "gather",
    "monitored_barrier",
    "recv",
    "recv_anysource",
    "scatter",
    "send",
)

# Collectives that count as a call. allreduce counts those of allreduce_coalesced; reduce_scatter counts itself.
COUNTED = ("_allgather_base", "allgather", "alltoall", "broadcast", "reduce")
# Collectives that call others.
OF_SUMS = (
    "_reduce_scatter_base", "allgather_into_tensor_coalesced", "allreduce", "allreduce_coalesced", "reduce_scatter",
    "reduce_scatter_tensor_coalesced",
)
# Calls with outputs and inputs, for which Gloo takes the memory behind a tensor's first element for its elements.
OF_CONTIGUOUS = ("alltoall_base", "gather", "scatter")
# Calls between two ranks, which are not meetings of all.
OF_TWO_RANKS = ("recv", "recv_anysource", "send")


class WorksInOrder:
    """Mixed into groups, whose `_works` are a KeptWorks under `_lock`."""

    def finish_works_of(self, memory):
        """Waits for all-reduces of the same memory.

        Whether they have ended depends on the rank. All ranks must send their results, with stragglers corrected.
        """
        with self._lock:
            earlier = self._works.overlapping(memory)
        for work in earlier:
            work.settle()

    def settle_works_of(self, arguments):
        """Waits for all-reduces of the tensors of nested lists, which another operation reads or writes."""
        for tensor in tensors_in(arguments):
            if tensor.layout == torch.strided:
                self.finish_works_of(memory_of(tensor))


def complete(group_class):
    """Adds Gloo's methods to the class of the group, and the duties to its own."""
    for method in DELEGATED:
        if hasattr(dist.ProcessGroup, method):
            function = in_order(delegate(method))
            setattr(group_class, method, function if method in OF_TWO_RANKS else _meet(function))
    for method in COUNTED:
        setattr(group_class, method, _meet(in_order(_count(getattr(group_class, method)))))
    for method in (*DELEGATED, *COUNTED, *OF_SUMS):
        if hasattr(group_class, method):
            setattr(group_class, method, _remember(getattr(group_class, method)))
    return group_class


def delegate(method):
    """Returns a method that counts the call and makes it on the inner Gloo group."""

    def delegated(self, *arguments, **named):
        self.calls += 1
        return getattr(self.inner, method)(*arguments, **named)

    def delegated_contiguous(self, outputs, inputs, *arguments, **named):
        refuse_shared_elements(tensors_in(outputs))
        self.calls += 1
        return of_contiguous_lists(getattr(self.inner, method), outputs, inputs, *arguments, **named)

    function = delegated_contiguous if method in OF_CONTIGUOUS else delegated
    function.__name__ = method
    return function


def _count(function):
    @functools.wraps(function)
    def counted(self, *arguments, **named):
        self.calls += 1
        return function(self, *arguments, **named)

    return counted


def in_order(function):
    """Makes an operation of Gloo wait for all-reduces of its tensors that are in flight."""

    @functools.wraps(function)
    def ordered(self, *arguments, **named):
        self.settle_works_of(arguments)
        return function(self, *arguments, **named)

    return ordered


def _meet(function):
    @functools.wraps(function)
    def meeting(self, *arguments, **named):
        return self.meet_in(lambda: function(self, *arguments, **named))

    return meeting


def _remember(function):
    """Lets _end_coalescing() wait for the works of this method."""

    @functools.wraps(function)
    def remembering(self, *arguments, **named):
        return self.remember_coalesced(function(self, *arguments, **named))

    return remembering
