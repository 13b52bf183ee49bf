# SPDX-License-Identifier: Apache-2.0
"""The end of a rank's process: it leaves the job, and the rank at fault ends before its victims.

A rank whose error is PeerLeft ends a little later. torchrun and torch.multiprocessing.spawn show the error of the
rank that ends first, and another rank leaves the job before its process has ended.
"""

import atexit
import multiprocessing
import multiprocessing.util
import os
import sys
import time

from . import _exit_status, errors
from ._group import active_or_none

# Gloo's threads free the Python objects of finished calls, for which they need the interpreter's lock. A thread
# that asks for it after the interpreter has begun to end aborts the process, so the end waits for them. Assumed.
GLOO_RELEASE_S = 0.05
# From a rank's leave to the end of its process, with as much again for a launcher that looks in rounds. Assumed.
VICTIM_WAITS_S = 1.0
_LAST = -1  # Of a finalizer's priorities: after the processes that this one has started.

_owner = None  # The process that has joined a job. A fork of it has not.


def leave_at_end():
    """Makes this process leave its job when it ends. Called when it creates a group."""
    global _owner
    # A child of multiprocessing that was forked ends without atexit.
    if _owner != os.getpid() and multiprocessing.parent_process() is not None:
        multiprocessing.util.Finalize(None, _end_process, exitpriority=_LAST)
    _owner = os.getpid()
    _exit_status.install()


def end_active():
    if active_or_none() is not None:
        active_or_none().end()


@atexit.register
def _end_process():
    # Leave the job, so that the other ranks learn at once that this rank has ended.
    global _owner
    if _owner != os.getpid():
        return
    _owner = None
    try:
        end_active()
    except errors.TributaryError as error:
        # The interpreter prints an exception of this function, but exits with 0.
        print(f"tributary: rank {active_or_none().rank()}: {error}", file=sys.stderr)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)
    if active_or_none() is not None:
        is_victim = isinstance(getattr(active_or_none(), "error", None), errors.PeerLeft)
        time.sleep(VICTIM_WAITS_S if is_victim else GLOO_RELEASE_S)
