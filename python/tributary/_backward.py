# SPDX-License-Identifier: Apache-2.0
"""Tells whether a backward pass runs in this thread, and calls functions at its end.

Cost:   Outside a pass the autograd engine refuses a callback with an error that takes half a millisecond in torch
        1.13. So it is asked only where a pass may run.
"""

import sys
import threading

import torch

_PASSES = (torch.autograd.backward.__code__, torch.autograd.grad.__code__)
# Torch 2 numbers the passes; -1: none runs in this thread.
_current_pass = getattr(torch._C, "_current_graph_task_id", None)


def reduces_gradients():
    """Returns True in a backward pass, where DDP and its hooks reduce, and in futures' callbacks.

    Only gradients may be summed without a late rank.
    """
    return threading.current_thread().name.startswith("tributary-") or at_end_of_pass(_do_nothing)


def at_end_of_pass(function):
    """Calls the function when the backward pass of this thread ends without an error. Returns False if none runs."""
    if not _may_run():
        return False
    try:
        torch.autograd.Variable._execution_engine.queue_callback(function)
    except RuntimeError:
        return False
    return True


def _may_run():
    if _current_pass is not None:
        return _current_pass() != -1
    # Python has not started the engine's own threads.
    return isinstance(threading.current_thread(), threading._DummyThread) or is_below_pass(sys._getframe(1))


def is_below_pass(frame):
    """Returns True if C++ code of a backward pass has called the frame, directly or through others."""
    caller = frame and frame.f_back
    while caller is not None:
        if caller.f_code in _PASSES:
            return True
        caller = caller.f_back
    return False


def _do_nothing():
    pass
