# SPDX-License-Identifier: Apache-2.0
"""The errors of this package: one class for each status of the C interface (host/include/tributary.h).

An exception's text is the library's line. It names the cause: which rank, which aggregator, since when.
A communicator stays usable after Overflow and NotFinite. After every other error of a running job it is
finished, and the ranks must join again to continue.
"""

import os
import re


class TributaryError(RuntimeError):
    """Any error of this package."""

    status = "internal"


class Overflow(TributaryError):
    """A value does not fit the wire format of floats; the tensor's content is unspecified."""


class NotFinite(TributaryError):
    """A rank's tensor holds an infinity or a NaN: every block with one is NaN, and the other blocks hold their sums."""

    report = None  # Of the operation, as its wait() returns it; None: not of an operation.


class PeerMissing(TributaryError):
    """The deadline has passed and the named ranks have not contributed, or Gloo cannot connect to a rank."""


class PeerLeft(TributaryError):
    """The named rank left or restarted while this rank waited for it."""


class AggregatorGone(TributaryError):
    """The deadline has passed without an answer from the aggregator."""


class SessionLost(TributaryError):
    """The aggregator was restarted or has ended this session."""


class Desynchronised(TributaryError):
    """This rank lags so far behind that results it needs have been evicted.

    All ranks must join again, then a healthy rank broadcasts its parameters: examples/rejoin.py.
    """


class Mismatch(TributaryError):
    """Ranks disagree about the length, type, scale or operation of a tensor, or about the number of all-reduces."""


class ParametersDiffer(TributaryError):
    """The ranks' parameters differ (TRIBUTARY_CHECK_PARAMETERS); the text names the first one and the rank."""


class Refused(TributaryError):
    """The aggregator refused this rank: no such job, rank taken, wrong world size."""


class Closed(TributaryError):
    """The communicator was closed."""


class InvalidArgument(TributaryError, ValueError):
    """An argument is not allowed; the text says which and why."""


class Overlap(InvalidArgument):
    """The tensor shares memory with another one in flight."""


class SystemRefused(TributaryError, OSError):
    """The operating system refused a socket, memory or a thread."""


class LibraryNotFound(TributaryError, ImportError):
    """libtributary.so was not found in any of the places searched."""


class LibraryTooOld(TributaryError, ImportError):
    """The library is older than this package needs."""


_ABOUT_PEER = (
    "Connection closed by peer", "Connection reset by peer", "Connection refused", "Broken pipe",
    "Timed out waiting", "Application timeout caused pair closure",
)
# Numbers as in host/include/tributary.h, where their meaning never changes.
OK = 0
PENDING = 32
_BY_STATUS = {
    1: Overflow,
    2: NotFinite,
    3: PeerMissing,
    4: PeerLeft,
    5: AggregatorGone,
    6: SessionLost,
    7: Desynchronised,
    8: Mismatch,
    9: Refused,
    10: Closed,
    33: InvalidArgument,
    34: Overlap,
    35: SystemRefused,
}


def is_lost(aggregator, error):
    """Returns True if an error says that the job has lost this one of its aggregators (HOST:PORT).

    The text of such an error names no other aggregator. An aggregator whose operator removed a rank is not lost.
    """
    if not isinstance(error, (AggregatorGone, SessionLost)):
        return False
    if re.search(r"\brank \d+ was removed from job", str(error)):
        return False
    return re.search(rf"(?<![\w.:-]){re.escape(aggregator)}(?!\d)", str(error)) is not None


def is_about_peer(text):
    """Returns True if a text of Gloo or of torch's store is about another process. They have no classes of their own."""
    return any(part in text for part in _ABOUT_PEER)


def advice_on_counts():
    """Returns advice to append if `tributary launch` has started ranks on several machines, else ""."""
    by_launch = "TRIBUTARY_BACKEND" in os.environ and "TORCHELASTIC_RUN_ID" not in os.environ
    if not by_launch or os.environ.get("LOCAL_WORLD_SIZE") == os.environ.get("WORLD_SIZE"):
        return ""
    return "; with launch --workers, -n must be the same on all machines"


def error_of(status, text):
    """Returns the exception for a status that is neither OK nor PENDING."""
    kind = _BY_STATUS.get(status, TributaryError)
    text = text or f"status {status}"
    # As refusal_text() of host/worker_errors.cc writes it.
    if kind is Refused and re.search(r" has \d+ ranks, not \d+", text):
        text += advice_on_counts()
    return kind(text)
