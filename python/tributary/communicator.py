# SPDX-License-Identifier: Apache-2.0
"""All-reduce of numpy arrays through an aggregator: in place, without a copy.

    with tributary.Communicator("tributary://10.0.0.1/job/1?rank=0&world=4") as communicator:
        report = communicator.all_reduce(gradients, op="mean")

Threads: every method may be called from any thread; the GIL is released while the library works.
Memory: an array stays untouched by the caller until its operation is done; it is kept alive here.
Errors: exceptions of tributary.errors.
"""

import ctypes
import dataclasses
import os
import threading
import urllib.parse

from . import _library, errors

TYPES = {"int32": 0, "float32": 1, "float16": 2, "bfloat16": 3}
ITEM_BYTES = {"int32": 4, "float32": 4, "float16": 2, "bfloat16": 2}
OPERATIONS = {"sum": 0, "mean": 1}
ROUNDS_FOR_SIGNALS_MS = 500  # A wait looks up so often, so that Ctrl-C gets through.


def ranks_of(mask):
    """The ranks of a set: rank r is bit r % 64 of word r / 64."""
    return [64 * word + bit for word in range(4) for bit in range(64) if mask[word] >> bit & 1]


@dataclasses.dataclass(frozen=True)
class DegradedRange:
    """A stretch of a tensor that was summed without every rank (straggler mitigation)."""

    first: int
    count: int
    missing: list  # Ranks whose values are not in the sum.


@dataclasses.dataclass(frozen=True)
class Report:
    """What became of an all-reduce."""

    blocks: int  # Packets' worth of elements.
    degraded_blocks: int
    missing: list  # Ranks that some block lacks.
    ranges: list  # DegradedRange, ascending.


NOTHING_MISSING = ([], [])


class Operation:
    """One all-reduce on its way, or done."""

    def __init__(self, communicator, handle, keep_alive):
        self._library = communicator._library
        self._communicator = communicator
        self._handle = handle
        self._keep_alive = keep_alive

    def __del__(self):
        # Waits for what is on its way: afterwards the memory may be given back.
        if self._handle is not None:
            self._library.tributary_operation_free(self._handle)
            self._handle = None

    def done(self):
        """Whether wait() would return, or raise, at once."""
        return self._library.tributary_wait(self._handle, 0) != errors.PENDING

    def wait(self, timeout=None):
        """Waits until the sum is there. Returns a Report, or None after `timeout` seconds.

        Without a timeout the communicator's deadline bounds the wait.
        """
        left_ms = None if timeout is None else max(0, round(1000 * timeout))
        while True:
            round_ms = ROUNDS_FOR_SIGNALS_MS if left_ms is None else min(left_ms, ROUNDS_FOR_SIGNALS_MS)
            status = self._library.tributary_wait(self._handle, round_ms)
            if status != errors.PENDING:
                return self._outcome(status)
            if left_ms is not None:
                left_ms -= round_ms
                if left_ms <= 0:
                    return None

    def _outcome(self, status):
        if status != errors.OK:
            raise errors.error_of(status, self._library.tributary_operation_text(self._handle).decode())
        raw = _library.OperationReport()
        self._library.tributary_operation_report(self._handle, ctypes.byref(raw), ctypes.sizeof(raw))
        if raw.degraded_blocks == 0:
            return Report(raw.blocks, 0, *NOTHING_MISSING)
        ranges = [self._range(index) for index in range(raw.range_count)]
        return Report(raw.blocks, raw.degraded_blocks, ranks_of(raw.missing), ranges)

    def _range(self, index):
        raw = _library.DegradedRange()
        self._library.tributary_operation_degraded(
            self._handle, index, ctypes.byref(raw), ctypes.sizeof(raw)
        )
        return DegradedRange(raw.element_first, raw.element_count, ranks_of(raw.missing))


def url_with(url, options):
    """`url`, or TRIBUTARY_URL, with `options` in the place of keys of the same name."""
    url = url or os.environ.get("TRIBUTARY_URL", "")
    if not url:
        raise errors.InvalidArgument(
            "no aggregator given: pass tributary://HOST:PORT/job/ID or set TRIBUTARY_URL to it "
            "(tributary launch does)"
        )
    base, _, query = url.partition("?")
    keys = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
    keys.update({name: str(value) for name, value in options.items() if value is not None})
    text = "&".join(f"{name}={value}" for name, value in keys.items())
    return f"{base}?{text}" if text else base


class Communicator:
    """One rank's membership in a job. The constructor waits until all ranks have joined."""

    def __init__(self, url=None, **options):
        """`url` is tributary://HOST:PORT/job/ID?KEY=VALUE&…; options are more such keys.

        Without a URL the variable TRIBUTARY_URL counts; rank and world also come from RANK and
        WORLD_SIZE or from mpirun. The keys are in docs/c-api.md.
        """
        self._handle = None
        self._lock = threading.Lock()
        self._library = _library.library()
        handle = ctypes.c_void_p()
        self._check(
            self._library.tributary_join(url_with(url, options).encode(), ctypes.byref(handle))
        )
        self._handle = handle
        info = self.info()
        self.rank, self.world = info["rank"], info["world"]

    def _check(self, status):
        if status != errors.OK:
            raise errors.error_of(status, self._library.tributary_error_text().decode())

    def all_reduce(self, array, op="sum"):
        """Replaces the array by its sum or mean over all ranks. Returns a Report."""
        return self.all_reduce_async(array, op).wait()

    def all_reduce_async(self, array, op="sum"):
        """The same without waiting; returns an Operation. Arrays on their way must not overlap."""
        address, count, type_name = _describe(array)
        return self.submit(address, count, type_name, op, array)

    def receive_async(self, array, op="sum"):
        """Takes the sum that the other ranks have made in this all-reduce; adds nothing to it.

        In the place of all_reduce_async() on a rank that is behind: see progress().
        """
        address, count, type_name = _describe(array)
        return self.submit(address, count, type_name, op, array, receive_only=True)

    def submit(self, address, count, type_name, op, keep_alive, receive_only=False):
        """all_reduce_async() for memory that is no numpy array; `keep_alive` owns it."""
        if type_name not in TYPES:
            raise errors.InvalidArgument(
                f"elements of type {type_name} are not allowed; allowed: {', '.join(TYPES)}"
            )
        if op not in OPERATIONS:
            raise errors.InvalidArgument(
                f"op={op} is not allowed; allowed: {', '.join(OPERATIONS)}"
            )
        start = self._library.tributary_all_reduce_async
        if receive_only:
            start = self._library.tributary_receive_async
        handle = ctypes.c_void_p()
        self._check(
            start(
                self._handle, address, count, TYPES[type_name], OPERATIONS[op], ctypes.byref(handle)
            )
        )
        return Operation(self, handle, keep_alive)

    def info(self):
        """What was agreed with the aggregator, as a dictionary."""
        raw = _library.Info()
        self._check(
            self._library.tributary_get_info(self._handle, ctypes.byref(raw), ctypes.sizeof(raw))
        )
        return {name: getattr(raw, name) for name, _ in raw._fields_}

    def counters(self):
        """Packets, probes, blocks so far, as a dictionary."""
        raw = _library.Counters()
        self._check(
            self._library.tributary_get_counters(
                self._handle, ctypes.byref(raw), ctypes.sizeof(raw)
            )
        )
        return {name: getattr(raw, name) for name, _ in raw._fields_}

    def progress(self):
        """Packets' worth that this rank has submitted, and up to where results have come.

        A second number above the first: the others have gone on without this rank.
        """
        raw = _library.Progress()
        self._check(
            self._library.tributary_get_progress(
                self._handle, ctypes.byref(raw), ctypes.sizeof(raw)
            )
        )
        return raw.submitted, raw.heard

    def close(self):
        """Tells the aggregator good-bye; what is on its way ends with Closed."""
        with self._lock:
            if self._handle is not None:
                self._library.tributary_close(self._handle)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        handle, self._handle = getattr(self, "_handle", None), None
        if handle is not None:
            self._library.tributary_free(handle)


def _describe(array):
    """Address, element count and type name of a numpy array. Raises InvalidArgument."""
    interface = getattr(array, "__array_interface__", None)
    if interface is None:
        raise errors.InvalidArgument(
            f"{type(array).__name__} is not allowed; allowed: a numpy array "
            "(torch tensors: import tributary.torch)"
        )
    address, read_only = interface["data"]
    if read_only:
        raise errors.InvalidArgument("the array is read-only; the sum is written into it")
    # numpy gives no strides for an array that lies in one piece, in C's order.
    if interface.get("strides") is not None:
        raise errors.InvalidArgument(
            "the array is not contiguous; pass numpy.ascontiguousarray(array) and copy back"
        )
    if not array.dtype.isnative:
        raise errors.InvalidArgument("the array's byte order is not this machine's")
    count = 1
    for extent in interface["shape"]:
        count *= extent
    return address, count, array.dtype.name
