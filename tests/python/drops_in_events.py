# SPDX-License-Identifier: Apache-2.0
# Two ranks in one process. In an event, which a thread of the library announces, the garbage collector finalises what
# the first argument names of rank 0: its "operation" in flight, or its "communicator", too. The second argument is the
# URL. Prints how rank 1's all-reduce ends. communicator_test.py starts this.
import gc
import os
import sys
import threading

import numpy
import support
import tributary

dropped_kind, url = sys.argv[1:]
garbage, collected = [], threading.Event()


def drop(event):
    if garbage:  # Else a wait for the join.
        garbage.clear()
        gc.collect()
        collected.set()


pair = support.each(
    2, lambda rank: tributary.Communicator(url, on_event=drop if rank == 0 else None, rank=rank, world=2)
)
gc.disable()
cycle = [pair[0].all_reduce_async(numpy.ones(10, numpy.float32))]
if dropped_kind == "communicator":
    cycle.append(pair[0])
    pair[0] = None
cycle.append(cycle)
garbage.append(cycle)
del cycle
if not collected.wait(support.LIMIT_S / 2):
    print("the thread of the library waits for itself", flush=True)
    os._exit(1)
try:
    # The first one may come before rank 0 leaves.
    for _ in range(2 if dropped_kind == "communicator" else 1):
        pair[1].all_reduce(numpy.ones(10, numpy.float32))
    print("summed")
except tributary.PeerLeft:
    print("rank 0 has left")
