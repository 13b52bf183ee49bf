# SPDX-License-Identifier: Apache-2.0
"""What can go wrong, one class for each status of the C interface (host/include/tributary.h).

The text of an exception is the library's line that names the cause: which rank, which aggregator,
since when. After Overflow and NotFinite a communicator goes on; after every other error of a
running job it is finished, and whoever wants to go on joins again.
"""


class TributaryError(RuntimeError):
    """Any error of this package."""

    status = "internal"


class Overflow(TributaryError):
    """A value does not fit the format in which floats travel; the tensor is unspecified."""


class NotFinite(TributaryError):
    """Some rank's tensor holds an infinity or a NaN; the tensor is unspecified."""


class PeerMissing(TributaryError):
    """The deadline is over and the named ranks have not contributed."""


class PeerLeft(TributaryError):
    """The named rank said good-bye or was restarted while this one waits for it."""


class AggregatorGone(TributaryError):
    """The deadline is over without an answer from the aggregator."""


class SessionLost(TributaryError):
    """The aggregator was restarted or has ended this session."""


class Desynchronised(TributaryError):
    """This rank lags so far behind that results it needs are gone.

    All ranks join again, then a healthy rank broadcasts its parameters: examples/rejoin.py.
    """


class Mismatch(TributaryError):
    """Ranks disagree about the length, type, scale or operation of a tensor."""


class Refused(TributaryError):
    """The aggregator does not want this rank: no such job, rank taken, wrong world size."""


class Closed(TributaryError):
    """The communicator was closed."""


class InvalidArgument(TributaryError, ValueError):
    """An argument is not allowed; the text says which and why."""


class Overlap(InvalidArgument):
    """The tensor shares memory with one that is on its way."""


class SystemRefused(TributaryError, OSError):
    """The operating system refuses a socket, memory or a thread."""


class LibraryNotFound(TributaryError, ImportError):
    """libtributary.so is in none of the places where it is looked for."""


class LibraryTooOld(TributaryError, ImportError):
    """The library lacks what this package needs."""


# Numbers as in host/include/tributary.h, where they never change their meaning.
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


def error_of(status, text):
    """The exception for a status that is neither OK nor PENDING."""
    return _BY_STATUS.get(status, TributaryError)(text or f"status {status}")
