#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how long a small tensor takes behind a large one, with and without priorities.

    tributary launch -n 2 --url-option priorities=2 examples/urgent.py
    tributary launch -n 2 examples/urgent.py

The last layers' gradients come first in a backward pass, but the first layers' are needed first in the next
forward pass. With priorities, their packets leave before those of the tensors that were submitted earlier.
"""

import argparse
import statistics
import time

import numpy
import tributary


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--large", type=int, default=10_000_000, help="elements of the large tensor")
    parser.add_argument("--small", type=int, default=10_000, help="elements of the small tensor")
    parser.add_argument("--rounds", type=int, default=10)
    arguments = parser.parse_args()
    large = numpy.zeros(arguments.large, dtype=numpy.float32)
    small = numpy.zeros(arguments.small, dtype=numpy.float32)
    small_ms, both_ms = [], []
    with tributary.Communicator() as communicator:
        for _ in range(arguments.rounds):
            large[:] = small[:] = 1
            began = time.monotonic()
            patient = communicator.all_reduce_async(large, priority=1)
            communicator.all_reduce_async(small, priority=0).wait()
            small_ms.append(1000 * (time.monotonic() - began))
            patient.wait()
            both_ms.append(1000 * (time.monotonic() - began))
            assert small[-1] == large[-1] == communicator.world
        if communicator.rank == 0:
            print(f"small tensor {statistics.median(small_ms):.1f} ms, both {statistics.median(both_ms):.1f} ms")


if __name__ == "__main__":
    main()
