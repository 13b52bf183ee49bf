# SPDX-License-Identifier: Apache-2.0
"""Delivers a signal that arrives within a backward pass at the end of the pass.

The main thread runs a script's signal handlers in the next Python code. Within a backward pass that is code of this
back end. C++ has called it, and makes a RuntimeError of the handler's exception, such as KeyboardInterrupt. At the
end of the pass the same exception leaves loss.backward() unchanged, and the gradients are complete.

A second signal is delivered at once, because a pass may wait for another rank until the deadline. If the pass fails,
its own error takes the place of the signal.

Threads: the main thread, which alone has signal handlers.
Tests:   tests/python/signals_test.py, tests/python/torch_test.py
"""

import signal
import sys
import threading

from ._backward import at_end_of_pass, is_below_pass

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class _Postponing:
    """A signal handler that calls the script's own outside backward passes."""

    def __init__(self, handler):
        self._handler = handler
        self._kept = False  # A signal has come within a pass and is not delivered.

    def __call__(self, number, frame):
        if self._kept or not is_below_pass(frame) or not self._deliver_at_end(number):
            self._kept = False
            self._handler(number, frame)

    def _deliver_at_end(self, number):
        """Returns False if no backward pass runs."""

        def deliver():
            self._kept = False
            self._handler(number, sys._getframe())

        # DDP completes the gradients in callbacks that are already in the queue when the first of them runs.
        self._kept = at_end_of_pass(lambda: at_end_of_pass(deliver))
        return self._kept


def postpone():
    """Makes the main thread's Python handlers wait for the end of a pass. Called again, it finds new handlers."""
    if threading.current_thread() is not threading.main_thread():
        return
    for number in SIGNALS:
        handler = signal.getsignal(number)
        if callable(handler) and not isinstance(handler, _Postponing):
            signal.signal(number, _Postponing(handler))
