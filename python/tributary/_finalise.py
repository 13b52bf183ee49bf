# SPDX-License-Identifier: Apache-2.0
"""Frees the library's handles for finalisers.

The garbage collector may run a finaliser in any thread. In a thread of the library, which announces events, the call
that frees a handle would wait for its own thread. So in a thread that Python has not started, a new thread makes the
call.

Threads: any. release() takes no lock: the code that the finaliser interrupts may hold it.
Tests:   tests/python/finalise_test.py
"""

import _thread
import threading

# Longest wait of finish() for each thread. Assumed: longer than a communicator's leaves take.
RELEASE_S = 10

_running = set()  # A lock for each handle that a new thread frees, held until then.
_unfreed = []  # Arguments of release() for which no thread could be started.


def _free(done, free, handle, kept):
    try:
        free(handle)
    finally:
        done.release()
        _running.discard(done)


# The defaults are bound here, because a module's names may be None when the interpreter ends.
def release(
    free, handle, kept, _known=threading._active, _own_id=threading.get_ident, _foreign=threading._DummyThread,
    _start=_thread.start_new_thread, _new_lock=_thread.allocate_lock, _running=_running, _unfreed=_unfreed, _free=_free,
):
    """Calls free(handle). Keeps `kept`, which the library may use until then, alive."""
    thread = _known.get(_own_id())
    if thread is not None and not isinstance(thread, _foreign):
        free(handle)
        return
    done = _new_lock()
    done.acquire()
    _running.add(done)
    try:
        _start(_free, (done, free, handle, kept))
    except RuntimeError:  # Too many threads, or the interpreter ends.
        _running.discard(done)
        _unfreed.append((free, handle, kept))


def finish():
    """Waits for the threads, and frees the handles without one. Called at the end of the interpreter."""
    for done in list(_running):
        done.acquire(timeout=RELEASE_S)
    while _unfreed:
        free, handle, _ = _unfreed.pop()
        free(handle)
