# SPDX-License-Identifier: Apache-2.0
"""Remembers that the script ends with a status other than 0. An atexit function cannot ask the interpreter for it.

A script may also catch SystemExit and go on. Then it counts as failed although it ends well.

Tests: tests/python/package_test.py, tests/python/torch_test.py
"""

import functools
import sys

_is_failure = False


def is_failure():
    """Returns True if a call of sys.exit(), or note(), gave a status other than 0."""
    return _is_failure


def note(code):
    """Takes the code of a SystemExit: None and 0 are success, texts and other numbers are not."""
    global _is_failure
    _is_failure = code not in (None, 0)


def install():
    """Wraps sys.exit() once. A SystemExit that a script raises itself is seen by tributary.run only."""
    original = sys.exit
    if getattr(original, "of_tributary", False):
        return

    @functools.wraps(original)
    def noting_exit(code=None, /):
        note(code)
        original(code)

    noting_exit.of_tributary = True
    sys.exit = noting_exit
