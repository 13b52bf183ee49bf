# SPDX-License-Identifier: Apache-2.0
"""All-reduce of numpy arrays through an aggregator: in place, without a copy.

    with tributary.Communicator("tributary://10.0.0.1/job/1?rank=0&world=4") as communicator:
        report = communicator.all_reduce(gradients, op="mean")

Threads: any thread may call any method; the GIL is released while the library works. Signal handlers may call
         close(). The garbage collector may finalise an object in any thread, also in one of the library (_finalise.py).
Memory: the caller must not touch an array until its operation is done; the operation keeps it alive.
Errors: exceptions of tributary.errors.
"""

import atexit
import ctypes
import dataclasses
import os
import re
import threading
import weakref

from . import _announce, _finalise, _library, errors

TYPES = {"int32": 0, "float32": 1, "float16": 2, "bfloat16": 3}
ITEM_BYTES = {"int32": 4, "float32": 4, "float16": 2, "bfloat16": 2}
OPERATIONS = {"sum": 0, "mean": 1}
EVENT_KINDS = ("waiting", "degraded", "straggler", "returned")
_DEFAULT_PORT = 12000
ROUNDS_FOR_SIGNALS_MS = 500  # Waits return to Python this often, so that Ctrl-C works.


def ranks_of(mask):
    """Returns the ranks of a set: rank r is bit r % 64 of word r / 64."""
    return [64 * word + bit for word in range(4) for bit in range(64) if mask[word] >> bit & 1]


@dataclasses.dataclass(frozen=True)
class DegradedRange:
    """A range of a tensor that was summed without every rank, or imprecisely (mitigation)."""

    first: int
    count: int
    missing: list  # Ranks whose values are not in the sum.
    imprecise: bool = False  # Less precise than docs/number-formats.md promises.


@dataclasses.dataclass(frozen=True)
class Report:
    """The result of an all-reduce."""

    blocks: int  # Number of blocks (packets) of the tensor.
    degraded_blocks: int
    missing: list  # Ranks that are missing from any block.
    ranges: list  # DegradedRange, ascending.
    underflowed: int = 0  # Non-zero elements of this rank that were too small and counted as 0.
    # Asynchronous jobs: pushes of other ranks since this rank's previous result.
    staleness_sum: int = 0  # Over all blocks.
    staleness_max: int = 0  # Of the block with most.
    warning: str = ""  # One line, if the result is less precise than one may expect.


@dataclasses.dataclass(frozen=True)
class Event:
    """A wait, a degraded result or a straggler, announced to Communicator(on_event=…)."""

    kind: str  # "waiting", "degraded", "straggler" or "returned".
    ranks: list  # Waited for, missing or lagging; empty: unknown.
    text: str  # One line for people.
    blocks: int = 0  # Of a degraded operation.
    waited: float = 0.0  # Seconds that a block has waited.


NOTHING_MISSING = ([], [])
LOGGED = "logged"  # Default of Communicator(on_event=…).

# Closed before the interpreter ends: no event may arrive after that.
_open_communicators = weakref.WeakSet()


@atexit.register
def _close_all():
    for communicator in list(_open_communicators):
        communicator.close()
    _finalise.finish()


def _refuse_copy(self):
    """Refuses copies and pickles: two objects would free the same handle of the library."""
    raise TypeError(f"a {type(self).__name__} cannot be copied or pickled; make one in each process")


class Operation:
    """One all-reduce, in flight or done."""

    __reduce__ = _refuse_copy

    def __init__(self, communicator, handle, keep_alive):
        self._library = communicator._library
        self._communicator = communicator
        self._handle = handle
        self._keep_alive = keep_alive
        self._is_done = False  # wait() has returned or raised the outcome.

    def __del__(self, _release=_finalise.release):
        # Waits for the operation, so that the memory can be freed afterwards.
        handle, self._handle = self._handle, None
        if handle is None:
            return
        free = self._library.tributary_operation_free
        if self._is_done:  # Without a wait, so any thread may call it.
            free(handle)
        else:
            _release(free, handle, self._keep_alive)

    def done(self):
        """Returns True if wait() would return or raise at once."""
        return self._library.tributary_wait(self._handle, 0) != errors.PENDING

    def wait(self, timeout=None):
        """Waits for the sum. Returns a Report, or None after `timeout` seconds.

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
        self._is_done = True
        if status == errors.OK:
            return self._report()
        error = errors.error_of(status, self._library.tributary_operation_text(self._handle).decode())
        if isinstance(error, errors.NotFinite):
            error.report = self._report()
        raise error

    def _report(self):
        raw = _library.OperationReport()
        self._library.tributary_operation_report(self._handle, ctypes.byref(raw), ctypes.sizeof(raw))
        warning = self._library.tributary_operation_warning(self._handle).decode()
        if warning:
            self._communicator.warn_once(warning)
        missing, ranges = NOTHING_MISSING
        if raw.degraded_blocks:
            missing = ranks_of(raw.missing)
            ranges = [self._range(index) for index in range(raw.range_count)]
        return Report(
            raw.blocks, raw.degraded_blocks, missing, ranges, raw.underflowed, raw.staleness_sum,
            raw.staleness_max, warning,
        )

    def _range(self, index):
        raw = _library.DegradedRange()
        self._library.tributary_operation_degraded(
            self._handle, index, ctypes.byref(raw), ctypes.sizeof(raw)
        )
        return DegradedRange(
            raw.element_first, raw.element_count, ranks_of(raw.missing), bool(raw.imprecise)
        )


def keys_of(url):
    """Returns the keys of a URL as the library reads them, without decoding. Raises InvalidArgument."""
    keys = {}
    pairs = url.partition("?")[2].removesuffix("&")
    for pair in pairs.split("&") if pairs else ():
        name, equals, value = pair.partition("=")
        if not equals:
            raise errors.InvalidArgument(f"{url}: '{pair}' is not KEY=VALUE")
        if name in keys:
            raise errors.InvalidArgument(f"{url}: key '{name}' is given twice")
        keys[name] = value
    return keys


def url_with(url, options):
    """Returns `url`, or TRIBUTARY_URL, with its keys replaced or extended by `options`."""
    url = url or os.environ.get("TRIBUTARY_URL", "")
    if not url:
        raise errors.InvalidArgument(
            "no aggregator given; pass tributary://HOST:PORT/job/ID or set TRIBUTARY_URL to it "
            "(tributary launch sets it)"
        )
    keys = keys_of(url)
    keys.update({name: str(value) for name, value in options.items() if value is not None})
    text = "&".join(f"{name}={value}" for name, value in keys.items())
    base = url.partition("?")[0]
    whole = f"{base}?{text}" if text else base
    if "\0" in whole:  # The library would read the part before it.
        raise errors.InvalidArgument(f"{whole!r} holds a NUL character")
    return whole


def aggregators_of(url):
    """Returns the aggregators in a URL, each as (name, text): HOST:PORT, and with its weight as it is written."""
    entries = url.partition("://")[2].partition("?")[0].partition("/")[0].split(",")
    named = [(entry.partition("=")[0], entry) for entry in entries]
    return [(name if re.search(r":\d+$", name) else f"{name}:{_DEFAULT_PORT}", entry) for name, entry in named]


def url_without(url, names):
    """Returns the URL without the aggregators of these names."""
    scheme, separator, rest = url.partition("://")
    end = re.search(r"[/?]|$", rest).start()
    left = ",".join(entry for name, entry in aggregators_of(url) if name not in names)
    return f"{scheme}{separator}{left}{rest[end:]}"


class _Joining:
    """A join that Ctrl-C can interrupt: the library's call runs in a thread of its own.

    If the caller is interrupted, the thread goes on until the deadline at the latest and then leaves the job.
    """

    def __init__(self, library, url, callback):
        self._library = library
        self._arguments = url.encode(), callback
        self._lock = threading.Lock()
        self._abandoned = False
        self._outcome = None  # Status, text and handle.

    def wait(self):
        """Returns the handle. Raises the library's error."""
        if threading.current_thread() is not threading.main_thread():  # Signals do not come here.
            self._call()
        else:
            thread = threading.Thread(target=self._call, name="tributary-join", daemon=True)
            try:
                thread.start()
                while thread.is_alive():
                    thread.join(ROUNDS_FOR_SIGNALS_MS / 1000)
            except BaseException:
                self._abandon()
                raise
        status, text, handle = self._outcome
        if status != errors.OK:
            raise errors.error_of(status, text)
        return handle

    def _call(self):
        url, callback = self._arguments
        handle = ctypes.c_void_p()
        status = self._library.tributary_join_watched(url, callback, None, ctypes.byref(handle))
        # The text belongs to the thread that called the library.
        text = "" if status == errors.OK else self._library.tributary_error_text().decode()
        with self._lock:
            self._outcome = status, text, handle
            if self._abandoned:
                self._free()

    def _abandon(self):
        with self._lock:
            self._abandoned = True
            if self._outcome is not None:
                self._free()

    def _free(self):
        status, _, handle = self._outcome
        if status == errors.OK:
            self._library.tributary_free(handle)


class Communicator:
    """One rank's membership in a job. The constructor blocks until all ranks have joined."""

    __reduce__ = _refuse_copy
    any_joined = False  # True if this process has joined a job.

    def __init__(self, url=None, on_event=LOGGED, **options):
        """Joins the job at `url`, tributary://HOST:PORT/job/ID?KEY=VALUE&…; options add more keys.

        Several aggregators are written HOST:PORT[=WEIGHT],HOST:PORT[=WEIGHT],….

        Without `url`, TRIBUTARY_URL is used. Rank and world also come from RANK and WORLD_SIZE, or
        from mpirun. docs/c-api.md lists the keys.

        on_event: called with an Event if this rank waits for longer than a second, if an aggregator
        does not answer, and for degraded results and stragglers, in a thread of the library. It must
        not close the communicator or wait for an operation. By default the logger "tributary" gets the events, of each straggler
        at most one in ten seconds. None: no calls.

        Ctrl-C interrupts the wait for the other ranks.
        """
        self._handle = None
        self._warned = False
        self._warned_lock = threading.RLock()  # Reentrant: a signal handler may interrupt its holder.
        self._library = _library.library()
        # The library calls it until the handle is freed, so it lives as long as this object.
        self._callback = _callback_of(_announce.EventLog() if on_event is LOGGED else on_event)
        joining = _Joining(self._library, url_with(url, options), self._callback)
        self._handle = joining.wait()
        _open_communicators.add(self)
        Communicator.any_joined = True
        info = self.info()
        self.rank, self.world = info["rank"], info["world"]

    def _check(self, status):
        if status != errors.OK:
            raise errors.error_of(status, self._library.tributary_error_text().decode())

    def warn_once(self, text):
        """Warns (RuntimeWarning) with the first of these texts. Report.warning has each of them."""
        with self._warned_lock:
            if self._warned:
                return
            self._warned = True
        _announce.warn(f"tributary rank {self.rank}: {text}", RuntimeWarning)

    def all_reduce(self, array, op="sum"):
        """Replaces the array by its sum or mean over all ranks. Returns a Report."""
        return self.all_reduce_async(array, op).wait()

    def all_reduce_async(self, array, op="sum", priority=0):
        """Starts all_reduce() and returns an Operation. Arrays in flight must not overlap.

        priority: with priorities=N in the URL, 0 (sent first) to N - 1; the same on all ranks.
        """
        address, count, type_name = _describe(array)
        return self.submit(address, count, type_name, op, array, priority=priority)

    def receive_async(self, array, op="sum"):
        """Receives the other ranks' sum of this all-reduce without contributing to it.

        A rank that is behind (see progress()) calls it in place of all_reduce_async().
        """
        address, count, type_name = _describe(array)
        return self.submit(address, count, type_name, op, array, receive_only=True)

    def reduce(self, array, root, op="sum"):
        """Replaces the array of rank `root` by the sum or mean over all ranks. Returns a Report.

        The arrays of the other ranks are only read. These ranks receive no elements.
        """
        return self.reduce_async(array, root, op).wait()

    def reduce_async(self, array, root, op="sum", priority=0):
        """Starts reduce() and returns an Operation. All ranks give the same root and priority."""
        address, count, type_name = _describe(array)
        return self.submit(address, count, type_name, op, array, priority=priority, root=root)

    def reduce_scatter(self, array, op="sum"):
        """Replaces this rank's part of the array by its sum or mean over all ranks; leaves the other parts.

        The array has one row for each rank: its first dimension is the number of ranks. Returns the Report of
        this rank's part.
        """
        if len(array) != self.world:
            raise errors.InvalidArgument(
                f"an array with {len(array)} rows is not allowed; allowed: {self.world}, one for each rank"
            )
        operations = [self.reduce_async(array[rank : rank + 1], rank, op) for rank in range(self.world)]
        return [operation.wait() for operation in operations][self.rank]

    def submit(self, address, count, type_name, op, keep_alive, receive_only=False, priority=0, root=None):
        """Runs all_reduce_async(), or reduce_async() with a root, on memory other than a numpy array.

        `keep_alive` owns the memory.
        """
        if type_name not in TYPES:
            raise errors.InvalidArgument(
                f"elements of type {type_name} are not allowed; allowed: {', '.join(TYPES)}"
            )
        if op not in OPERATIONS:
            raise errors.InvalidArgument(
                f"op={op} is not allowed; allowed: {', '.join(OPERATIONS)}"
            )
        if not 0 <= priority < 1 << 32:
            raise errors.InvalidArgument(f"priority={priority} is not allowed; allowed: 0 and above")
        arguments = [self._handle, address, count, TYPES[type_name], OPERATIONS[op]]
        start = self._library.tributary_receive_async
        if root is not None:
            if not 0 <= root < self.world:
                raise errors.InvalidArgument(f"root={root} is not allowed; allowed: 0 to {self.world - 1}")
            start = self._library.tributary_reduce_async
            arguments += [root, priority]
        elif not receive_only:
            start = self._library.tributary_all_reduce_priority_async
            arguments.append(priority)
        handle = ctypes.c_void_p()
        self._check(start(*arguments, ctypes.byref(handle)))
        return Operation(self, handle, keep_alive)

    def info(self):
        """Returns the parameters agreed with the aggregator, as a dictionary."""
        raw = _library.Info()
        self._check(
            self._library.tributary_get_info(self._handle, ctypes.byref(raw), ctypes.sizeof(raw))
        )
        return {name: getattr(raw, name) for name, _ in raw._fields_}

    def counters(self):
        """Returns the counts of packets, probes and blocks so far, as a dictionary."""
        raw = _library.Counters()
        self._check(
            self._library.tributary_get_counters(
                self._handle, ctypes.byref(raw), ctypes.sizeof(raw)
            )
        )
        return {name: getattr(raw, name) for name, _ in raw._fields_}

    def progress(self):
        """Returns the number of blocks submitted, and the position up to which results have come.

        If the second number is larger, the other ranks have continued without this one.
        """
        raw = self._raw_progress()
        return raw.submitted, raw.heard

    def permanent_stragglers(self):
        """Returns the ranks that an aggregator does not wait for, because they are silent.

        They become so after the job's `permanent_ms`, until they contribute. Updated whenever an operation ends.
        """
        return ranks_of(self._raw_progress().permanent_stragglers)

    def _raw_progress(self):
        raw = _library.Progress()
        self._check(
            self._library.tributary_get_progress(
                self._handle, ctypes.byref(raw), ctypes.sizeof(raw)
            )
        )
        return raw

    def close(self):
        """Leaves the job. Operations in flight end with Closed. A signal handler may call it, also within close()."""
        # No lock: a signal handler would wait for the thread that it interrupts. The library closes only once.
        handle = self._handle
        if handle is not None:
            self._library.tributary_close(handle)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self, _release=_finalise.release):
        handle, self._handle = getattr(self, "_handle", None), None
        if handle is not None:
            _release(self._library.tributary_free, handle, self._callback)


def _callback_of(on_event):
    """Returns the C function that passes events to `on_event`; a null function for None."""
    if on_event is None:
        return _library.OnEvent()

    def receive(raw, _):
        raw = raw.contents
        if not 0 <= raw.kind < len(EVENT_KINDS):
            return
        on_event(
            Event(
                EVENT_KINDS[raw.kind],
                ranks_of(raw.ranks),
                raw.text.decode(),
                raw.blocks,
                raw.waited_ms / 1000,
            )
        )

    return _library.OnEvent(receive)


def _describe(array):
    """Returns address, element count and type name of a numpy array. Raises InvalidArgument."""
    interface = getattr(array, "__array_interface__", None)
    if interface is None:
        raise errors.InvalidArgument(
            f"{type(array).__name__} is not allowed; allowed: a numpy array "
            "(for torch tensors: import tributary.torch)"
        )
    address, read_only = interface["data"]
    if read_only:
        raise errors.InvalidArgument("the array is read-only; the sum must be written into it")
    # A numpy scalar lends the memory of a copy.
    if not getattr(getattr(array, "flags", None), "writeable", True):
        raise errors.InvalidArgument(
            f"a numpy scalar ({type(array).__name__}) is not allowed: the sum cannot be written into it; "
            "pass numpy.array([value]) and read its element"
        )
    # numpy reports no strides for a contiguous array in C order.
    if interface.get("strides") is not None:
        raise errors.InvalidArgument(
            "the array is not contiguous; pass numpy.ascontiguousarray(array) and copy the sum back"
        )
    if not array.dtype.isnative:
        raise errors.InvalidArgument("the array's byte order is not this machine's")
    count = 1
    for extent in interface["shape"]:
        count *= extent
    return address, count, array.dtype.name
