# SPDX-License-Identifier: Apache-2.0
"""All-reduce through a Tributary aggregator, for numpy arrays and for torch.distributed.

numpy: tributary.Communicator. torch: `import tributary.torch`, then
`torch.distributed.init_process_group("tributary")`. `tributary launch` makes the import unnecessary.
"""

from .communicator import Communicator, DegradedRange, Event, Operation, Report
from .errors import (
    AggregatorGone,
    Closed,
    Desynchronised,
    InvalidArgument,
    LibraryNotFound,
    LibraryTooOld,
    Mismatch,
    NotFinite,
    Overflow,
    Overlap,
    ParametersDiffer,
    PeerLeft,
    PeerMissing,
    Refused,
    SessionLost,
    SystemRefused,
    TributaryError,
)

__version__ = "0.1.0"

__all__ = [
    "AggregatorGone",
    "Closed",
    "Communicator",
    "DegradedRange",
    "Desynchronised",
    "Event",
    "InvalidArgument",
    "LibraryNotFound",
    "LibraryTooOld",
    "Mismatch",
    "NotFinite",
    "Operation",
    "Overflow",
    "Overlap",
    "ParametersDiffer",
    "PeerLeft",
    "PeerMissing",
    "Refused",
    "Report",
    "SessionLost",
    "SystemRefused",
    "TributaryError",
    "library_version",
]


def library_version():
    """Returns the version of the loaded libtributary.so, for example "0.1.0"."""
    from . import _library

    return _library.library().tributary_version().decode()
