# SPDX-License-Identifier: Apache-2.0
"""Tells the user about the job: warnings at the user's line, and the library's events in the logger "tributary".

Tests: tests/python/announce_test.py
"""

import collections
import logging
import math
import sys
import time
import warnings

QUIET_S = 10  # Least time between two lines about the same straggler.
_NOT_THE_USERS = ("concurrent", "threading", "torch", "tributary")

_logger = logging.getLogger("tributary")


def warn(text, category=UserWarning):
    """Warns at the line of the user's code that called this package, perhaps through torch.

    In a thread of this package there is no such line. The warning then names the package alone.
    """
    frame, level = sys._getframe(1), 2
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _NOT_THE_USERS:
        frame, level = frame.f_back, level + 1
    if frame is None:
        warnings.warn_explicit(text, category, "tributary", 0)
    else:
        warnings.warn(text, category, stacklevel=level)


class EventLog:
    """Logs the events of a communicator: waits and stragglers as warnings, the rest for debugging.

    A straggler that often comes and goes gets a line at most every QUIET_S. The next line counts those left out.
    """

    def __init__(self, clock=time.monotonic):
        self._clock = clock
        self._logged_at = {}  # Time of the latest line, by rank.
        self._left_out = collections.Counter()  # Lines since then, by rank.

    def __call__(self, event):
        """Called by one thread at a time."""
        level = logging.WARNING if event.kind in ("waiting", "straggler") else logging.DEBUG
        left_out = 0
        if event.kind == "straggler" and event.ranks:
            now = self._clock()
            due = [rank for rank in event.ranks if now - self._logged_at.get(rank, -math.inf) >= QUIET_S]
            self._left_out.update(set(event.ranks) - set(due))
            if not due:
                return
            left_out = sum(self._left_out.pop(rank, 0) for rank in due)
            self._logged_at.update((rank, now) for rank in due)
        more = f" ({left_out} more such lines left out before)" if left_out else ""
        _logger.log(level, "%s: %s%s", event.kind, event.text, more)
