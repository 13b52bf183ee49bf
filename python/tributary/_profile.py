# SPDX-License-Identifier: Apache-2.0
"""Events for torch.profiler: the time in which a thread of the script starts an all-reduce, or waits for one.

Cost:  0.2 us for each without a profiler. record_function() alone would take 4.6 us.
Tests: tests/python/work_test.py, tests/python/ranks_collectives.py
"""

import contextlib

import torch

# Tells whether a profiler records this thread. A private function of torch; a version without it gets no events.
_is_profiled = getattr(torch.autograd, "_profiler_enabled", lambda: False)
_NOTHING = contextlib.nullcontext()


def recorded(name):
    """Returns a context that is an event of this name while a profiler is active."""
    return torch.profiler.record_function(name) if _is_profiled() else _NOTHING
