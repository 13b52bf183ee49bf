# SPDX-License-Identifier: Apache-2.0
"""Gives the all-reduces of a backward pass priorities, for `priorities=N` in the URL.

A backward pass ends with the layers that the next forward pass needs first, so its last bucket is the most urgent
one. Nothing tells how many all-reduces a pass will start, so the pass before it counts. All ranks start the same
all-reduces in the same order, and so give them the same priorities.

Threads: callers hold the group's lock.
Tests:   tests/python/urgency_test.py, tests/python/torch_test.py
"""


class Urgency:
    """Numbers the all-reduces of each backward pass from its end."""

    def __init__(self, priorities):
        self._least = priorities - 1
        self._pass = None  # The event at the end of the latest pass.
        self._started = 0  # All-reduces of that pass so far.
        self._expected = 0  # All-reduces of the pass before.

    def next(self, backward_ended):
        """Returns the priority of the next all-reduce, 0 for the most urgent.

        backward_ended: what Submissions.next() returned; None outside a backward pass.
        """
        if backward_ended is None:
            return 0
        if backward_ended is not self._pass:
            self._pass, self._expected, self._started = backward_ended, self._started, 0
        self._started += 1
        return min(max(self._expected - self._started, 0), self._least)
