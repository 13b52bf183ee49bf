# SPDX-License-Identifier: Apache-2.0
"""Shows an error that all ranks of a machine have in common as one line.

Without this, torchrun shows a traceback of each rank. The exception itself stays an exception, which a script may
catch, for example to continue with Gloo.
"""

import os
import sys
import time

from . import errors

COMMON = (errors.LibraryNotFound, errors.LibraryTooOld)
# torchrun ends all ranks when the first of them fails. So the others leave the first rank the time to import torch.
GRACE_S = 10


def print_once(line):
    """Prints the line if this is the first rank of its machine. Returns True if so. Others wait for GRACE_S first."""
    if os.environ.get("LOCAL_RANK", "0") != "0":
        if "TORCHELASTIC_RUN_ID" in os.environ:
            time.sleep(GRACE_S)
        return False
    print(f"tributary: {line}", file=sys.stderr)
    return True


def hide_tracebacks():
    """Makes the interpreter show a line for COMMON if the script does not catch it. Other errors are as before."""
    previous = sys.excepthook
    if getattr(previous, "of_tributary", False):
        return

    def show(kind, error, traceback):
        if issubclass(kind, COMMON):
            print_once(error)
        else:
            previous(kind, error, traceback)

    show.of_tributary = True
    sys.excepthook = show
