# SPDX-License-Identifier: Apache-2.0
"""Finds, loads and describes libtributary.so, using only ctypes.

If TRIBUTARY_LIBRARY is set, only the file that it names is tried. Otherwise the search order is: next to
this package, in a build tree around it, and the system loader's path. A library whose ABI number is
below ABI_NEEDED is refused.
"""

import ctypes
import os
import pathlib

from . import errors

# The version of the C interface that this package needs: TRIBUTARY_ABI in host/include/tributary.h.
ABI_NEEDED = 8
FILE_NAME = "libtributary.so.0"


class Info(ctypes.Structure):
    """tributary_info."""

    _fields_ = [
        ("rank", ctypes.c_uint32),
        ("world", ctypes.c_uint32),
        ("job", ctypes.c_uint32),
        ("gradients", ctypes.c_uint32),
        ("window", ctypes.c_uint32),
        ("straggler_timeout_us", ctypes.c_uint32),
        ("deadline_ms", ctypes.c_uint64),
        ("threads", ctypes.c_uint32),
    ]


class Counters(ctypes.Structure):
    """tributary_counters."""

    _fields_ = [
        (name, ctypes.c_uint64)
        for name in (
            "packets_sent",
            "packets_received",
            "retransmitted",
            "probes",
            "blocks",
            "degraded_blocks",
            "duplicate_results",
            "invalid_packets",
            "underflowed",
        )
    ]


class Event(ctypes.Structure):
    """tributary_event."""

    _fields_ = [
        ("kind", ctypes.c_int32),
        ("reserved", ctypes.c_uint32),
        ("ranks", ctypes.c_uint64 * 4),
        ("blocks", ctypes.c_uint64),
        ("waited_ms", ctypes.c_uint64),
        ("text", ctypes.c_char_p),
    ]


# tributary_on_event.
OnEvent = ctypes.CFUNCTYPE(None, ctypes.POINTER(Event), ctypes.c_void_p)


class Progress(ctypes.Structure):
    """tributary_progress."""

    _fields_ = [
        ("submitted", ctypes.c_uint64),
        ("heard", ctypes.c_uint64),
        ("permanent_stragglers", ctypes.c_uint64 * 4),
    ]


class OperationReport(ctypes.Structure):
    """tributary_report."""

    _fields_ = [
        ("status", ctypes.c_int32),
        ("range_count", ctypes.c_uint32),
        ("blocks", ctypes.c_uint64),
        ("degraded_blocks", ctypes.c_uint64),
        ("missing", ctypes.c_uint64 * 4),
        ("imprecise_blocks", ctypes.c_uint64),
        ("nonzero", ctypes.c_uint64),
        ("underflowed", ctypes.c_uint64),
        ("staleness_sum", ctypes.c_uint64),
        ("staleness_max", ctypes.c_uint64),
    ]


class DegradedRange(ctypes.Structure):
    """tributary_degraded_range."""

    _fields_ = [
        ("element_first", ctypes.c_uint64),
        ("element_count", ctypes.c_uint64),
        ("missing", ctypes.c_uint64 * 4),
        ("imprecise", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    ]


_HANDLE = ctypes.c_void_p
_STATUS = ctypes.c_int32
_SUBMIT = (
    _STATUS,
    [
        _HANDLE,
        ctypes.c_void_p,
        ctypes.c_uint64,
        ctypes.c_int32,
        ctypes.c_int32,
        ctypes.POINTER(_HANDLE),
    ],
)
_JOIN_WATCHED = (_STATUS, [ctypes.c_char_p, OnEvent, ctypes.c_void_p, ctypes.POINTER(_HANDLE)])
_SIGNATURES = {
    "tributary_abi": (ctypes.c_uint32, []),
    "tributary_version": (ctypes.c_char_p, []),
    "tributary_error_text": (ctypes.c_char_p, []),
    "tributary_join": (_STATUS, [ctypes.c_char_p, ctypes.POINTER(_HANDLE)]),
    "tributary_join_watched": _JOIN_WATCHED,
    "tributary_close": (_STATUS, [_HANDLE]),
    "tributary_free": (None, [_HANDLE]),
    "tributary_get_info": (_STATUS, [_HANDLE, ctypes.POINTER(Info), ctypes.c_size_t]),
    "tributary_get_counters": (_STATUS, [_HANDLE, ctypes.POINTER(Counters), ctypes.c_size_t]),
    "tributary_all_reduce": (
        _STATUS,
        [_HANDLE, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int32, ctypes.c_int32],
    ),
    "tributary_all_reduce_async": _SUBMIT,
    "tributary_receive_async": _SUBMIT,
    "tributary_all_reduce_priority_async": (
        _STATUS,
        [*_SUBMIT[1][:-1], ctypes.c_uint32, _SUBMIT[1][-1]],
    ),
    "tributary_reduce_async": (
        _STATUS,
        [*_SUBMIT[1][:-1], ctypes.c_uint32, ctypes.c_uint32, _SUBMIT[1][-1]],
    ),
    "tributary_get_progress": (_STATUS, [_HANDLE, ctypes.POINTER(Progress), ctypes.c_size_t]),
    "tributary_wait": (_STATUS, [_HANDLE, ctypes.c_int64]),
    "tributary_operation_report": (
        _STATUS,
        [_HANDLE, ctypes.POINTER(OperationReport), ctypes.c_size_t],
    ),
    "tributary_operation_degraded": (
        _STATUS,
        [_HANDLE, ctypes.c_uint32, ctypes.POINTER(DegradedRange), ctypes.c_size_t],
    ),
    "tributary_operation_text": (ctypes.c_char_p, [_HANDLE]),
    "tributary_operation_warning": (ctypes.c_char_p, [_HANDLE]),
    "tributary_operation_free": (None, [_HANDLE]),
}


def candidates():
    """Returns the names to try, in order: paths of files, then a bare name for the loader."""
    named = os.environ.get("TRIBUTARY_LIBRARY")
    if named:
        return [named]
    package = pathlib.Path(__file__).resolve().parent
    top = package.parent.parent
    found = [package / FILE_NAME]
    found += sorted(top.glob(f"build/release/**/{FILE_NAME}"))
    found += sorted(top.glob(f"build/*/**/{FILE_NAME}"))
    # For share/tributary/python/tributary next to lib/ or, as on Debian, lib/MACHINE/.
    lib = top.parent.parent / "lib"
    found += [lib / FILE_NAME, *sorted(lib.glob(f"*-linux-gnu/{FILE_NAME}"))]
    return [str(path) for path in found if path.exists()] + [FILE_NAME]


def _open():
    tried = []
    for name in candidates():
        try:
            return name, ctypes.CDLL(name)
        except OSError as error:
            tried.append(str(error))
    if os.environ.get("TRIBUTARY_LIBRARY"):
        raise errors.LibraryNotFound(
            f"TRIBUTARY_LIBRARY={name} cannot be loaded; set it to the file libtributary.so.0 of a build or of an "
            f"installation, or unset it to search for one. Tried: {tried[0]}"
        )
    raise errors.LibraryNotFound(
        "libtributary.so.0 cannot be loaded; build Tributary, install it, or set TRIBUTARY_LIBRARY "
        f"to the file. Tried: {'; '.join(tried)}"
    )


def load():
    """Returns the library with its functions' signatures. Raises LibraryNotFound, LibraryTooOld."""
    name, library = _open()
    try:
        library.tributary_abi.restype = ctypes.c_uint32
        abi = library.tributary_abi()
    except AttributeError as error:
        raise errors.LibraryTooOld(f"{name} is not libtributary: {error}") from None
    if abi < ABI_NEEDED:
        library.tributary_version.restype = ctypes.c_char_p
        version = library.tributary_version().decode()
        raise errors.LibraryTooOld(
            f"{name} is version {version} with ABI {abi}; this package needs ABI {ABI_NEEDED} or "
            "newer. Update the library, or set TRIBUTARY_LIBRARY to a newer one"
        )
    for function, (result, arguments) in _SIGNATURES.items():
        described = getattr(library, function)
        described.restype = result
        described.argtypes = arguments
    return library


_library = None


def library():
    """Returns the library; loads it at the first call."""
    global _library
    if _library is None:
        _library = load()
    return _library
